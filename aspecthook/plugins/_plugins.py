"""Plugins: objects whose marked methods are hooks on the events of a host.

The host is any object, class or module that has events; these are its specification. A plugin is an object or a module.
All its hooks have its name, so that ``before`` and ``after`` order plugins among each other.

The invariant: a plugin is registered with all of its hooks or not at all, and calls in other threads see either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import MethodType
from typing import Any, cast, final

from aspecthook._core.law.hook import Hook
from aspecthook._core.law.options import Options, priority_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import (
    HookLookupError,
    HookTypeError,
    PluginError,
    add_note,
    brief,
    entrance,
    nearest,
    printable,
)

from ._answers import answers_of
from ._entry_points import plugins_of, shown
from ._specification import PluginHook, Specification, name_of_plugin, read_names

__all__ = ["Plugin", "Plugins"]


@final
class Plugin:
    """One registered plugin: its ``name``, its ``object``, its ``hooks``, and whether it is ``enabled``.

    Example:
        >>> from aspecthook import event, on
        >>> class Shop:
        ...     @event
        ...     def sold(self, item): ...
        >>> class Tax:
        ...     @on
        ...     def sold(self, item): ...
        >>> plugin = Plugins(Shop()).register(Tax(), name="tax")
        >>> plugin.name, plugin.implements, plugin.enabled
        ('tax', ('sold',), True)
    """

    __slots__ = ("_enabled", "_plugins", "_rows", "name", "object")

    def __init__(self, plugins: Plugins, name: str, plugin: object, *, enabled: bool) -> None:
        self._plugins = plugins
        self._rows: tuple[tuple[str, MountPoint, Hook], ...] = ()
        self._enabled = enabled
        self.name: str = name
        self.object: object = plugin

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The plugin's hooks, without those that have run for the last time (``once``, ``times``)."""
        return tuple([hook for _, mount, hook in self._rows if hook in mount.members])

    @property
    def implements(self) -> tuple[str, ...]:
        """The names of the events that the plugin has hooks on."""
        return tuple(dict.fromkeys([event for event, mount, hook in self._rows if hook in mount.members]))

    @property
    def enabled(self) -> bool:
        """Whether the plugin's hooks act."""
        return self._enabled

    def disable(self) -> None:
        """Disable the plugin's hooks; they keep their places in the order."""
        self._set_enabled(enabled=False)

    def enable(self) -> None:
        """Enable the plugin's hooks again."""
        self._set_enabled(enabled=True)

    @under_lock
    def _set_enabled(self, *, enabled: bool) -> None:
        self._enabled = enabled
        for _, mount, hook in self._rows:
            mount.set_paused((hook,), paused=not enabled)

    def unregister(self) -> None:
        """Remove the plugin's hooks. Further calls do nothing."""
        self._plugins._drop(self)

    def _detach(self) -> None:
        for _, mount, hook in self._rows:
            hook.remove()
            mount.tidy()

    def _attach(self, rows: list[PluginHook]) -> None:
        """Add hooks; under the lock, so that calls of other threads see all of these hooks, or none."""
        for row in rows:
            mark = row.mark
            hook = row.mount.add_hook(mark.kind, row.method, mark.types, row.options, row.gate)
            self._rows = (*self._rows, (row.event, row.mount, hook))
            if not self._enabled:
                row.mount.set_paused((hook,), paused=True)

    def __repr__(self) -> str:
        state = "" if self._enabled else ", disabled"
        return (
            f"<plugin {self.name!r} of {self._plugins._spec.label}: {', '.join(self.implements) or 'no events'}{state}>"
        )


@final
class Plugins:
    """The plugins of one host: objects, modules or entry points that you register, in their order.

    Args:
        spec: The host of the events: an instance (plugins act for it only), a class (for every instance) or a module.
        required: The names of events that every plugin must implement.

    Raises:
        PluginError: The host has no events, or lacks a required one.

    Example:
        >>> from aspecthook import event, on
        >>> class Shop:
        ...     @event
        ...     def sold(self, item, price): ...
        >>> class Audit:
        ...     @on
        ...     def sold(self, item):
        ...         return f"sold {item}"
        >>> shop = Shop()
        >>> plugins = Plugins(shop)
        >>> plugins.register(Audit(), name="audit")
        <plugin 'audit' of Shop: sold>
        >>> shop.sold("tea", 2.0), plugins.answers("sold", "tea", 2.0)
        (['sold tea'], [('audit', 'sold tea')])
    """

    __slots__ = ("__weakref__", "_registered", "_spec")

    def __init__(self, spec: object, *, required: Iterable[str] = ()) -> None:
        self._spec = Specification(spec, required)
        # Replaced, never changed, so that it can be iterated at any moment.
        self._registered: dict[str, Plugin] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Hooks of an instance do not travel with its copies, and neither do plugins: the copy of a host has none yet.
        return partial(Plugins, required=self._spec.required), (self._spec.host,)

    # Looking

    def __iter__(self) -> Iterator[Plugin]:
        return iter(self._registered.values())

    def __len__(self) -> int:
        return len(self._registered)

    def __contains__(self, plugin: object) -> bool:
        return self._find(plugin) is not None

    def __getitem__(self, plugin: object) -> Plugin:
        found = self._find(plugin)
        if found is not None:
            return found
        names = list(self._registered)
        near = nearest(plugin, names) if isinstance(plugin, str) else ""
        meant = plugin.name if isinstance(plugin, Plugin) else plugin
        raise HookLookupError(
            f"{self._spec.label} has no plugin {brief(meant)}; its plugins: {', '.join(names) or 'none at all'}{near}"
        )

    def _find(self, plugin: object) -> Plugin | None:
        named = self._registered.get(printable(plugin)) if isinstance(plugin, str) else None
        return named or next((one for one in self if plugin is one or plugin is one.object), None)

    def __repr__(self) -> str:
        return f"<plugins of {self._spec.label}: {', '.join(self._registered) or 'none'}>"

    def __str__(self) -> str:
        rows = [(one.name, "enabled" if one.enabled else "disabled", ", ".join(one.implements)) for one in self]
        table = [("name", "state", "events"), *rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
        return "\n  ".join([f"plugins of {self._spec.label}", *(lines if rows else ["none"])])

    def order(self, event: str) -> tuple[str, ...]:
        """Return the names of the subscribers of an event, in the order in which they run.

        For a hookable that is not an event, return the names of all its hooks, kind by kind.

        Raises:
            PluginError: The host has no such event.
        """
        mount = self._spec.mount(event)
        chain = mount.chain()
        row = chain.hooks if mount.emission is None else chain.on
        return tuple([hook.name for hook in row if self._spec.concerns(hook)])

    # Any: what subscribers answer.
    def answers(self, event: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call an event and return who answered what: pairs of a plugin's name and its answer, in order.

        The arguments are those of the event; if the host is a class, the instance comes first. For an async event,
        return an awaitable of the pairs. Answers of subscribers that are not plugins are included.

        Raises:
            PluginError: The host has no such event.
            Exception: What the event raises.
        """
        mount = self._spec.mount(event)
        if mount.emission is None:
            raise PluginError(
                f"{self._spec.label}: {event!r} is hookable but not an event, so nobody answers; call it instead"
            )
        itself = getattr(self._spec.host, event)
        first = (itself.__self__,) if isinstance(itself, MethodType) else ()
        return answers_of(mount, (*first, *args), kwargs)

    # Registering

    @entrance
    def register(
        self,
        plugin: object,
        name: str | None = None,
        *,
        priority: int | str | None = None,
        before: str | Iterable[str] | None = (),
        after: str | Iterable[str] | None = (),
        enabled: bool = True,
    ) -> Plugin:
        """Register a plugin: add all of its marked methods as hooks to the events that they name, or none.

        Args:
            plugin: An object or a module with methods or functions marked by `on`, `pre`, `around` and so on. A mark
                names an event, by default the event with the name of the method.
            name: The name of the plugin and of all its hooks; by default the name of the module, the attribute ``name``
                of the object if that is a string, or the name of its class.
            priority: The priority of all its hooks. It outranks the priorities of marks, which outrank the plugin's
                attribute ``priority``.
            before: The names of plugins that run after it.
            after: The names of plugins that run before it.
            enabled: Whether its hooks act from the start.

        Raises:
            PluginError: The plugin does not fit the specification, or its name is taken.
            HookSignatureError: A method asks for something that its event does not offer.
            HookTypeError: A method could never work on its event, such as an async one on a sync event; or an option
                has the wrong type.
            HookOptionError: An option has an invalid value.
            HookOrderError: ``before`` and ``after`` contradict those of other plugins.
        """
        label = self._spec.label
        called = name_of_plugin(plugin, label) if name is None else name
        if not isinstance(called, str) or not called:
            raise PluginError(f"{label}: a plugin has the name {brief(called)}; give a string")
        called = printable(called)
        who = f"{label}: plugin {called!r}"
        given = Options(before=read_names(before, who, "before"), after=read_names(after, who, "after"))
        if priority is not None:
            given["priority"] = priority_of(priority, who)
        rows = self._spec.hooks_of(plugin, called, given)
        made = Plugin(self, called, plugin, enabled=enabled)
        present = {hook for row in rows for hook in row.mount.members}
        try:
            self._add(made, who)
            under_lock(made._attach)(rows)
        except BaseException:
            if made in self:
                made.unregister()
                for mount in [row.mount for row in rows]:
                    # What an interrupt has left of it, before anybody else knew of it.
                    mount.discard(tuple([one for one in mount.members if one not in present and one.name == called]))
                    under_lock(mount.tidy)()
            raise
        return made

    @under_lock
    def _add(self, made: Plugin, who: str) -> None:
        for one in self:
            if one.object is made.object:
                raise PluginError(f"{who} is registered already, as {one.name!r}; unregister it first")
        if made.name in self._registered:
            other = brief(self._registered[made.name].object)
            raise PluginError(f"{who} has a name that {other} has; give another by name=, or unregister that")
        self._registered = {**self._registered, made.name: made}

    @under_lock
    def _drop(self, plugin: Plugin) -> None:
        plugin._detach()
        # Last, so that a plugin which an interrupt has left half removed can be unregistered again, by its name too.
        self._registered = {name: one for name, one in self._registered.items() if one is not plugin}

    def unregister(self, plugin: object) -> None:
        """Remove a plugin and its hooks.

        Args:
            plugin: Its name, its object or its handle.

        Raises:
            HookLookupError: The plugin is not registered.
        """
        self[plugin].unregister()

    def disable(self, plugin: object) -> None:
        """Disable the hooks of a plugin; they keep their places in the order."""
        self[plugin].disable()

    def enable(self, plugin: object) -> None:
        """Enable the hooks of a plugin again."""
        self[plugin].enable()

    # Loading

    def load_entry_points(self, group: str, *, exclude: str | Iterable[str] = ()) -> list[Plugin]:
        """Register the entry points of a group, each under its own name, in the order of their names.

        A class, or a function that makes a plugin, is called without arguments. If a plugin with such a name is
        registered already, it stays as it is. If one plugin does not fit, none is registered.

        Raises:
            PluginError: An entry point cannot be loaded or does not fit, or two have the same name. The message names
                them and their distributions.
        """
        label, name = self._spec.label, cast("object", group)
        if not isinstance(name, str) or not name:
            raise HookTypeError(f"{label}: load_entry_points is given the group {brief(name)}; give a name")
        done: list[Plugin] = []
        try:
            for point, plugin in plugins_of(group, exclude, self._registered, label):
                try:
                    done.append(self.register(plugin, point.name))
                except Exception as error:
                    add_note(error, f"{label}: while registering {shown(point)}")
                    raise
        except BaseException:
            for one in done:
                one.unregister()
            raise
        return done
