"""Plugins: objects whose marked methods are hooks on the events of a host.

The host's events are its specification: any object that has some, of its own or of its class. A plugin is an object or
a module. All its hooks bear its name, so that plugins are ordered among each other by ``before`` and ``after``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from os import PathLike
from types import MethodType
from typing import TYPE_CHECKING, Any, final

from aspecthook._core.law.hook import Gate, Hook
from aspecthook._core.law.options import Options, priority_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._core.mount.who_answers import answers_of
from aspecthook._errors import HookLookupError, PluginError, brief, nearest, printable

from ._config import entries_of, load_toml, note, shown_path, string
from ._loading import Found, from_configs, from_entry_points, named, numbered
from ._specification import Specification, Wish, flag_given, name_of_plugin, names_given

if TYPE_CHECKING:
    from ._registry import Registry

__all__ = ["Plugin", "Plugins"]

# Who is disabled is not told of the past either.
_CLOSED = Gate(lambda: False)


@final
class Plugin:
    """One registered plugin: its ``name``, its ``object``, its ``hooks``, and whether it is ``enabled``."""

    __slots__ = ("_enabled", "_plugins", "_rows", "name", "object")

    def __init__(self, plugins: Plugins, name: str, plugin: object, *, enabled: bool) -> None:
        self._plugins = plugins
        self._rows: tuple[tuple[str, MountPoint, Hook], ...] = ()
        self._enabled = enabled
        self.name = name
        self.object = plugin

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """Its hooks, as far as they are on; those that have run as often as they may are not."""
        return tuple([hook for _, mount, hook in self._rows if hook in mount.members])

    @property
    def implements(self) -> tuple[str, ...]:
        """The names of the events that it has hooks on."""
        return tuple(dict.fromkeys([event for event, mount, hook in self._rows if hook in mount.members]))

    @property
    def enabled(self) -> bool:
        """Whether its hooks act."""
        return self._enabled

    def disable(self) -> None:
        """Keep its hooks from acting; they keep their places in the order."""
        self._set_enabled(enabled=False)

    def enable(self) -> None:
        """Let its hooks act again."""
        self._set_enabled(enabled=True)

    @under_lock
    def _set_enabled(self, *, enabled: bool) -> None:
        self._enabled = enabled
        for _, mount, hook in self._rows:
            mount.set_paused((hook,), paused=not enabled)

    def unregister(self) -> None:
        """Take its hooks off; once it is off, do nothing."""
        self._plugins._drop(self)

    def _detach(self) -> None:
        for _, mount, hook in self._rows:
            hook.remove()
            mount.tidy()

    def _attach_all(self, wishes: list[Wish]) -> None:
        for wish in wishes:
            self._attach(wish)

    def _attach(self, wish: Wish) -> None:
        """Put one hook on, and leave it as it is to be if the plugin was disabled or taken off meanwhile."""
        mount, mark = wish.mount, wish.mark
        hook = mount.admit(mark.kind, wish.method, mark.types, wish.options, wish.gate if self._enabled else _CLOSED)
        self._note(wish, hook)

    @under_lock
    def _note(self, wish: Wish, hook: Hook) -> None:
        self._rows = (*self._rows, (wish.event, wish.mount, hook))
        wish.mount.regate(hook, wish.gate, paused=not self._enabled)
        if self not in self._plugins:
            hook.remove()

    def __repr__(self) -> str:
        state = "" if self._enabled else ", disabled"
        return (
            f"<plugin {self.name!r} of {self._plugins._spec.label}: {', '.join(self.implements) or 'no events'}{state}>"
        )


@final
class Plugins:
    """The plugins of one host: register objects, modules, entry points or configs; look who is there, in which order.

    Args:
        spec: What has the events: an instance (its own subscribers), a class (those of every instance) or a module.
        required: The names of events that every plugin must implement.

    Raises:
        PluginError: It has no events, or none of a name that is required.

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
        # Replaced as a whole, so that it can be iterated at any moment.
        self._registered: dict[str, Plugin] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # As hooks of an instance do, plugins stay where they are: the copy of a host has none yet.
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

    def order(self, event: str) -> tuple[str, ...]:
        """Give the names of what has subscribed to an event, in the order in which it is asked.

        Of what is no event but hookable, it gives those of all hooks, kind by kind.

        Raises:
            PluginError: There is no such event.
        """
        mount = self._spec.mount(event)
        chain = mount.chain()
        row = chain.everything() if mount.emission is None else chain.on
        return tuple([hook.name for hook in row if self._spec.concerns(hook)])

    # Any: what subscribers answer.
    def answers(self, event: str, /, *args: Any, **kwargs: Any) -> Any:
        """Let an event happen, and give who answered what: pairs of a plugin's name and its answer, in their order.

        It is given what the event is given; where the specification is a class, an instance goes first. Of an async
        event it gives an awaitable of the pairs. Answers of subscribers that are no plugins are there too.

        Raises:
            PluginError: There is no such event.
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
        """Put the marked methods of a plugin on the events that they name; all of them or, if one does not fit, none.

        Args:
            plugin: An object, or a module, with methods or functions marked by `on`, `pre`, `around` and so on. A mark
                names an event; without one, the event of the method's own name is meant.
            name: What all its hooks are called; else the name of a module, or an object's attribute ``name`` if it is a
                string, or the name of its class.
            priority: Wins over what its marks say, and these over its attribute ``priority``.
            before: The names of plugins that are asked after it.
            after: The names of plugins that are asked before it.
            enabled: Whether it acts at once.

        Raises:
            PluginError: It does not fit the specification, or its name is taken.
            HookSignatureError: A method asks for what its event does not offer.
            HookTypeError: A method could never work on its event, as an async one on one that is not; or an option has
                the wrong type.
            HookOptionError: An option has a value that it cannot have.
            HookOrderError: Its ``before`` and ``after`` contradict those of others.
        """
        label = self._spec.label
        called = name_of_plugin(plugin, label) if name is None else name
        if not isinstance(called, str) or not called:
            raise PluginError(f"{label}: a plugin has the name {brief(called)}; give a string")
        called = printable(called)
        who = f"{label}: plugin {called!r}"
        given = Options(before=names_given(before, who, "before"), after=names_given(after, who, "after"))
        if priority is not None:
            given["priority"] = priority_of(priority, who)
        wishes = self._spec.wishes(plugin, called, given)
        made = Plugin(self, called, plugin, enabled=flag_given(enabled, who, "enabled"))
        try:
            self._add(made, who)
            told = [wish for wish in wishes if wish.is_told]
            others = [wish for wish in wishes if not wish.is_told]
            # Calls of other threads wait until they can be linked: they see all of this, or nothing.
            under_lock(made._attach_all)(others)
            made._attach_all(told)  # which runs its code
        except BaseException:
            if made in self:
                made.unregister()
                for wish in wishes:
                    wish.withdraw()
            raise
        return made

    def _add(self, made: Plugin, who: str) -> None:
        same, other = self._add_unless_there(made)
        if same is not None:
            raise PluginError(f"{who} is registered already, as {same.name!r}; unregister it first")
        if other is not None:
            raise PluginError(
                f"{who} has a name that {brief(other.object)} has; give another by name=, or unregister that"
            )

    @under_lock
    def _add_unless_there(self, made: Plugin) -> tuple[Plugin | None, Plugin | None]:
        """Return the plugin of that object and the one of that name; without either, add this one."""
        same = next((one for one in self if one.object is made.object), None)
        other = self._registered.get(made.name)
        if same is None and other is None:
            self._registered = {**self._registered, made.name: made}
        return same, other

    @under_lock
    def _drop(self, plugin: Plugin) -> None:
        plugin._detach()
        # Last: what an interrupt has left half done can be done again, by its name too.
        self._registered = self._without(plugin)

    def _without(self, plugin: Plugin) -> dict[str, Plugin]:
        return {name: one for name, one in self._registered.items() if one is not plugin}

    def unregister(self, plugin: object) -> None:
        """Take a plugin off: its name, its object or its handle.

        Raises:
            HookLookupError: It is not registered.
        """
        self[plugin].unregister()

    def disable(self, plugin: object) -> None:
        """Keep the hooks of a plugin from acting; they keep their places in the order."""
        self[plugin].disable()

    def enable(self, plugin: object) -> None:
        """Let the hooks of a plugin act again."""
        self[plugin].enable()

    # Finding

    def load_entry_points(self, group: str, *, exclude: str | Iterable[str] = ()) -> list[Plugin]:
        """Register the entry points of a group, each under its own name, in the order of their names.

        Of a class, an object of it is registered, and of a function that makes a plugin what it gives. What is
        registered under such a name already is left as it is. If one does not fit, none is registered.

        Raises:
            PluginError: One cannot be loaded, or does not fit; or two have one name. The message says which, and of
                which distributions.
        """
        return self._register_all(from_entry_points(group, exclude, self._registered, self._spec.label))

    def load_config(self, config: Iterable[Any], registry: Registry | None = None) -> list[Plugin]:
        """Register plugins that a config lists, each a mapping with its ``type``, or the type alone.

        The type is a name in the registry or a class, or where the registry's ``imports`` allows it
        ``"package.module:Class"``, or ``"package.module:"`` for a module that is the plugin. ``name``, ``priority``,
        ``before``, ``after`` and ``enabled`` are as in `register`; what else there is goes to the constructor. If one
        does not fit, none is registered.

        Raises:
            ConfigError: One cannot be built.
            PluginError: One does not fit the specification.
        """
        who = f"plugins of {self._spec.label}"
        return self._register_all(from_configs(numbered(config, who), registry, who))

    def load_toml(
        self, path: str | PathLike[str], table: str = "plugins", registry: Registry | None = None
    ) -> list[Plugin]:
        """Register the plugins that a TOML file lists: ``[[plugins]]`` for each, as in `load_config`.

        Or a table with a name: ``[plugins.sale]`` is called ``"sale"`` unless it gives a ``name``, and its name is the
        type if it gives no ``type``.

        Raises:
            ConfigError: It is no TOML, has no such table, or one cannot be built.
            PluginError: One does not fit the specification.
            OSError: The file cannot be read.
        """
        who = f"plugins of {self._spec.label}, {shown_path(path)}"
        document = load_toml(path)
        rows = entries_of(document, string(table, f"{who}: the table is"), who)
        return self._register_all(from_configs(named(rows, document, table), registry, who))

    def _register_all(self, found: list[Found]) -> list[Plugin]:
        done: list[Plugin] = []
        try:
            for one in found:
                try:
                    done.append(self.register(one.plugin, **one.options))
                except Exception as error:
                    note(error, one.source)
                    raise
        except BaseException:
            for plugin in done:
                plugin.unregister()
            raise
        return done
