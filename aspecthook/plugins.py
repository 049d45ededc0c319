"""Plugins: objects whose marked methods are hooks on the events of a host.

The host's events are its specification: any object that has some, of its own or of its class. A plugin is an object or
a module. All its hooks bear its name, so that plugins are ordered among each other by ``before`` and ``after``.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from inspect import getattr_static
from os import PathLike, fspath
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast, final

from ._call import Call
from ._changes import lock
from ._errors import ConfigError, HookLookupError, PluginError, brief, nearest
from ._hook import Gate, Hook, Options, inside, priority_of, who_is
from ._hookable import hooks
from ._law import run
from ._law_async import arun
from ._mount import MountPoint, mount_of
from .weave._aspects import Mark, marked

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .registry import Registry

__all__ = ["Plugin", "Plugins"]

# A plugin that is registered while it is disabled must not act for the moment before it is paused.
_CLOSED = Gate(lambda: False)
_OWN = ("type", "name", "priority", "before", "after", "enabled")


class _Wish(NamedTuple):
    """One hook that a plugin wants on one mount point."""

    mount: MountPoint
    mark: Mark
    method: Callable[..., Any]
    options: Options


@final
class Plugin:
    """One registered plugin: its ``name``, its ``object``, its ``hooks``, and whether it is ``enabled``."""

    __slots__ = ("_plugins", "enabled", "hooks", "name", "object")

    def __init__(self, plugins: Plugins, name: str, plugin: object) -> None:
        self._plugins = plugins
        self.name = name
        self.object = plugin
        self.hooks: tuple[tuple[MountPoint, Hook], ...] = ()
        self.enabled = True

    @property
    def implements(self) -> tuple[str, ...]:
        """The names of the events that it has hooks on."""
        names = {id(mount): name for name, mount in self._plugins.mounts().items()}
        return tuple(dict.fromkeys(names[id(mount)] for mount, _ in self.hooks if id(mount) in names))

    def disable(self) -> None:
        """Keep its hooks from acting; they keep their places in the order."""
        self._set_enabled(enabled=False)

    def enable(self) -> None:
        """Let its hooks act again."""
        self._set_enabled(enabled=True)

    def _set_enabled(self, *, enabled: bool) -> None:
        with lock:
            for mount, hook in self.hooks:
                mount.set_paused((hook,), paused=not enabled)
            self.enabled = enabled

    def unregister(self) -> None:
        """Take its hooks off; once it is off, do nothing."""
        self._plugins.drop(self)

    def __repr__(self) -> str:
        state = "" if self.enabled else ", disabled"
        return f"<plugin {self.name!r} of {self._plugins.label}: {', '.join(self.implements) or 'no events'}{state}>"


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

    __slots__ = ("__weakref__", "_registered", "_spec", "label", "required")

    def __init__(self, spec: object, *, required: Iterable[str] = ()) -> None:
        self._spec = spec
        owner = spec if isinstance(spec, (type, ModuleType)) else type(spec)
        self.label = owner.__name__
        self._registered: dict[str, Plugin] = {}
        self.required = (required,) if isinstance(required, str) else tuple(required)
        names = list(self.mounts())
        if not names:
            raise PluginError(
                f"{self.label} has no events, so there is nothing that plugins could do; add @event stubs"
            )
        for name in self.required:
            if name not in names:
                raise PluginError(f"{self.label} requires {name!r}, {self._none_of(name)}")

    # Looking

    def mounts(self) -> dict[str, MountPoint]:
        """Give the mount points of the specification by name: its events, and what else is hookable."""
        found: dict[str, MountPoint] = {}
        for name in dir(self._spec):
            static: Any = getattr_static(self._spec, name, None)
            function = inside(cast("Any", static).__func__ if isinstance(static, classmethod) else static)
            if not name.startswith("_") and isinstance(function, FunctionType) and mount_of(function) is not None:
                found[name] = hooks(getattr(self._spec, name))
        return found

    def __iter__(self) -> Iterator[Plugin]:
        return iter(tuple(self._registered.values()))

    def __len__(self) -> int:
        return len(self._registered)

    def __contains__(self, plugin: object) -> bool:
        return any(plugin in (one, one.name) or plugin is one.object for one in self)

    def __getitem__(self, plugin: object) -> Plugin:
        for one in self:
            if plugin in (one, one.name) or plugin is one.object:
                return one
        names = list(self._registered)
        near = nearest(plugin, names) if isinstance(plugin, str) else ""
        raise HookLookupError(
            f"{self.label} has no plugin {brief(plugin)}; its plugins: {', '.join(names) or 'none at all'}{near}"
        )

    def __repr__(self) -> str:
        return f"<plugins of {self.label}: {', '.join(self._registered) or 'none'}>"

    def order(self, event: str) -> tuple[str, ...]:
        """Give the names of what has subscribed to an event, in the order in which it is asked.

        Of what is no event but hookable, it gives those of all hooks, kind by kind.

        Raises:
            PluginError: There is no such event.
        """
        mount = self._mount(event)
        chain = mount._active()
        return tuple(hook.name for hook in (chain.everything() if mount.emission is None else chain.on))

    # Any: what subscribers answer.
    def answers(self, event: str, /, *args: Any, **kwargs: Any) -> Any:
        """Let an event happen, and give who answered what: pairs of a plugin's name and its answer, in their order.

        Of an async event it gives an awaitable of that. Answers of subscribers that are no plugins are there too.

        Raises:
            PluginError: There is no such event.
            Exception: What the event raises.
        """
        mount = self._mount(event)
        site = mount._get_site()
        bound = inspect.signature(mount.function).bind(*self._first(event), *args, **kwargs)
        bound.apply_defaults()
        call = Call(site, tuple([bound.arguments[name] for name in site.signature.names]))
        chain, target = mount._active(), mount.inner()
        if site.signature.style == "coroutine":
            return _told(arun(chain, call, target), call)
        run(chain, call, target)
        return _tallied(call)

    def _first(self, event: str) -> tuple[object, ...]:
        """Give what a bound method passes by itself."""
        bound = getattr(self._spec, event)
        return (bound.__self__,) if inspect.ismethod(bound) else ()

    def _mount(self, event: str) -> MountPoint:
        mounts = self.mounts()
        if event not in mounts:
            raise PluginError(f"there is no event {event!r}: {self._none_of(event)}")
        return mounts[event]

    def _none_of(self, name: str) -> str:
        names = list(self.mounts())
        return f"but {self.label} has no event of that name; its events: {', '.join(names)}{nearest(name, names)}"

    # Registering

    def register(
        self,
        plugin: object,
        name: str | None = None,
        *,
        priority: int | str | None = None,
        before: str | Iterable[str] = (),
        after: str | Iterable[str] = (),
        enabled: bool = True,
    ) -> Plugin:
        """Put the marked methods of a plugin on the events that they name; all of them or, if one does not fit, none.

        Args:
            plugin: An object, or a module, with methods or functions marked by `on`, `pre`, `around` and so on. A mark
                names an event; without one, the event of the method's own name is meant.
            name: What all its hooks are called; else its attribute ``name``, or the name of its class or module.
            priority: Wins over what its marks say, and these over its attribute ``priority``.
            before: The names of plugins that are asked after it.
            after: The names of plugins that are asked before it.
            enabled: Whether it acts at once.

        Raises:
            PluginError: It does not fit the specification, or its name is taken.
            HookSignatureError: A method asks for what its event does not offer.
            HookOrderError: Its ``before`` and ``after`` contradict those of others.
        """
        called = _name_of(plugin) if name is None else name
        if not isinstance(called, str) or not called:
            raise PluginError(f"{self.label}: a plugin has the name {brief(called)}; give a string")
        who = f"{self.label}: plugin {called!r}"
        given = Options(before=_names(before, who, "before"), after=_names(after, who, "after"))
        if priority is not None:
            given["priority"] = priority_of(priority, who)
        wishes = self._wishes(plugin, called, who, given)
        made = Plugin(self, called, plugin)
        with lock:
            self._check_free(made, who)
            self._registered[called] = made
        done: list[tuple[MountPoint, Hook]] = []
        try:
            for mount, mark, method, options in wishes:
                gate = None if enabled else _CLOSED
                done.append((mount, mount.admit(mark.kind, method, mark.types, options, gate)))
        except BaseException:
            self._registered.pop(called, None)
            for _, hook in done:
                hook.remove()
            raise
        made.hooks = tuple(done)
        if not enabled:
            made.disable()
            for mount, hook in done:
                mount.regate(hook, None, paused=True)
        return made

    def _check_free(self, made: Plugin, who: str) -> None:
        for one in self:
            if one.object is made.object:
                raise PluginError(f"{who} is registered already, as {one.name!r}; unregister it first")
        if made.name in self._registered:
            other = self._registered[made.name].object
            raise PluginError(f"{who} has a name that {brief(other)} has; give another by name=, or unregister that")

    def _wishes(self, plugin: object, name: str, who: str, given: Options) -> list[_Wish]:
        mounts = self.mounts()
        if isinstance(plugin, type):
            raise PluginError(f"{who} is a class; register an object of it, as in register({plugin.__name__}())")
        rows = [row for row in marked(plugin) if _is_own(plugin, row.method)]
        wishes: list[_Wish] = []
        for mark, method in rows:
            event = mark.pointcut or method.__name__
            whose = f"{who}: {who_is(mark.kind, method.__name__, method)}"
            if event not in mounts:
                raise PluginError(f"{whose} is for {event!r}, {self._none_of(event)}{_hint(event)}")
            if "name" in mark.options:
                raise PluginError(f"{whose} has a name of its own; hooks of a plugin are called by the plugin's name")
            wishes.append(_Wish(mounts[event], mark, method, _merged(plugin, mark, given, name, whose)))
        self._check_complete(plugin, who, {mark.pointcut or method.__name__ for mark, method in rows}, mounts)
        return wishes

    def _check_complete(self, plugin: object, who: str, marked: set[str], mounts: Mapping[str, MountPoint]) -> None:
        for name in mounts:
            found = getattr_static(plugin, name, None)
            if name not in marked and isinstance(found, FunctionType) and mount_of(found) is None:
                raise PluginError(f"{who} has {name!r}, which is not marked; write @on above it, or call it otherwise")
        for name in self.required:
            if name not in marked:
                near = nearest(name, sorted(marked))
                raise PluginError(f"{who} lacks {name!r}, which every plugin of {self.label} must have{near}")
        if not marked:
            raise PluginError(f"{who} has no marked methods; write @on above those that are for {', '.join(mounts)}")

    def drop(self, plugin: Plugin) -> None:
        """Take the hooks of a plugin off."""
        with lock:
            if self._registered.get(plugin.name) is plugin:
                del self._registered[plugin.name]
            for _, hook in plugin.hooks:
                hook.remove()

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

    def load_entry_points(self, group: str, *, exclude: Iterable[str] = ()) -> list[Plugin]:
        """Register the entry points of a group, each under its own name; of a class, an object of it.

        What is registered under such a name already is left as it is.

        Raises:
            PluginError: One cannot be loaded; the message says which, and of which distribution.
        """
        from importlib.metadata import entry_points

        left_out = {exclude} if isinstance(exclude, str) else set(exclude)
        points = [one for one in entry_points(group=group) if one.name not in left_out]
        return [self.register(_loaded(one, self.label), one.name) for one in points if one.name not in self]

    def load_config(self, config: Iterable[Any], registry: Registry | None = None) -> list[Plugin]:
        """Register plugins that a config lists, each a mapping with its ``type``, or the type alone.

        The type is a name in the registry, ``"package.module:Class"``, or ``"package.module"`` for a module that is the
        plugin. ``name``, ``priority``, ``before``, ``after`` and ``enabled`` are as in `register`; what else there is
        goes to the constructor. If one does not fit, none is registered.

        Raises:
            ConfigError: One cannot be built.
            PluginError: One does not fit the specification.
        """
        from .registry import Registry

        known = registry if registry is not None else Registry(f"plugins of {self.label}")
        done: list[Plugin] = []
        try:
            for one in config:
                entry = {"type": one} if isinstance(one, str) else _mapping(one, self.label)
                options: dict[str, Any] = {key: entry.pop(key) for key in _OWN[1:] if key in entry}
                enabled = options.get("enabled", True)
                if not isinstance(enabled, bool):
                    raise ConfigError(f"plugins of {self.label}: {entry!r} has enabled={enabled!r}; give true or false")
                done.append(self.register(_built(entry, known), **options))
        except BaseException:
            for plugin in done:
                plugin.unregister()
            raise
        return done

    def load_toml(
        self, path: str | PathLike[str], table: str = "plugins", registry: Registry | None = None
    ) -> list[Plugin]:
        """Register the plugins that a TOML file lists: ``[[plugins]]`` for each, as in `load_config`.

        Raises:
            ConfigError: It is no TOML, has no such table, or one cannot be built.
            OSError: The file cannot be read.
        """
        from ._config import entries_of, load_toml

        who = f"plugins of {self.label}, {fspath(path)}"
        return self.load_config([entry for _, entry in entries_of(load_toml(path), table, who)], registry)


async def _told(running: Awaitable[object], call: Call) -> list[tuple[str, Any]]:
    await running
    return _tallied(call)


def _tallied(call: Call) -> list[tuple[str, Any]]:
    return [] if call._tally is None else [(hook.name, answer) for hook, answer in call._tally.answers]


def _name_of(plugin: object) -> object:
    if isinstance(plugin, ModuleType):
        return plugin.__name__
    name: object = getattr(plugin, "name", None)
    return name if isinstance(name, str) and name else type(plugin).__name__


def _is_own(plugin: object, method: Callable[..., Any]) -> bool:
    """Say whether a module defines a function itself; what it has imported is another plugin's."""
    return not isinstance(plugin, ModuleType) or method.__module__ == plugin.__name__


def _hint(event: str) -> str:
    return "; weave(plugin) is for pointcuts" if ":" in event else ""


def _merged(plugin: object, mark: Mark, given: Options, name: str, who: str) -> Options:
    options: dict[str, Any] = {**mark.options, "name": name}
    own: object = getattr(plugin, "priority", None)
    if "priority" in given:
        options["priority"] = given["priority"]
    elif own is not None and "priority" not in options:
        options["priority"] = priority_of(own, who)
    for word in ("before", "after"):
        more = cast("list[str]", given.get(word))
        if more:
            had = options.get(word, ())
            options[word] = [*(had if isinstance(had, (list, tuple, set, frozenset)) else [had]), *more]
    return cast("Options", options)


def _names(value: object, who: str, word: str) -> list[str]:
    row: list[Any] = [value] if isinstance(value, str) else list(cast("Iterable[Any]", value))
    for one in row:
        if not isinstance(one, str):
            raise PluginError(f"{who} has {word}={brief(one)}; give the name of another plugin")
    return row


def _loaded(point: EntryPoint, label: str) -> Any:
    try:
        found = point.load()
        return found() if isinstance(found, type) else found
    except Exception as error:
        whose = point.dist.name if point.dist is not None else "an unknown distribution"
        raise PluginError(
            f"{label}: the entry point {point.name!r} = {point.value!r} of {whose} cannot be loaded: {brief(error)}; "
            f"repair or uninstall it, or leave it out with exclude={point.name!r}"
        ) from error


def _mapping(config: Any, label: str) -> dict[str, Any]:
    if not isinstance(config, Mapping):
        raise ConfigError(f"plugins of {label}: {brief(config)} is no config; give a mapping with a 'type', or a name")
    return dict(cast("Mapping[str, Any]", config))


def _built(entry: dict[str, Any], registry: Registry) -> Any:
    kind: object = entry.get("type")
    if isinstance(kind, str) and ":" not in kind and kind not in registry and len(entry) == 1:
        from importlib import import_module
        from importlib.util import find_spec

        try:
            known = find_spec(kind) is not None
        except (ImportError, ValueError):
            known = False
        if known:
            return import_module(kind)
    return registry.build_from_config(entry)
