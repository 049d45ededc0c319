"""The specification of a host: its events by name, and which hooks a plugin is to have on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from inspect import getattr_static
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, cast, final

from aspecthook._core.law.callables import who_is
from aspecthook._core.law.hook import Hook, Predicate
from aspecthook._core.law.options import Options, priority_of, several
from aspecthook._core.mount.hookable import hooks
from aspecthook._core.mount.instance import for_instance
from aspecthook._core.mount.point import MountPoint, mount_of
from aspecthook._errors import PluginError, brief, nearest
from aspecthook.weave._aspects import Mark, attribute_names, function_of, marked, marks_of
from aspecthook.weave._calls import Calls


class PluginHook(NamedTuple):
    """One hook that a plugin is to have on one event."""

    event: str
    mount: MountPoint
    mark: Mark
    method: Callable[..., Any]
    options: Options
    gate: Predicate | None


@final
class Specification:
    """The events of an instance, a class or a module, which may get and lose some at any time."""

    __slots__ = ("host", "label", "required")

    def __init__(self, host: object, required: Iterable[str]) -> None:
        self.host = host
        self.label = (host if isinstance(host, (type, ModuleType)) else type(host)).__name__
        self.required = (required,) if isinstance(required, str) else tuple(required)
        mounts = self.mounts()
        if not mounts:
            raise PluginError(f"{self.label} has no events, so plugins could do nothing; add @event stubs")
        for name in self.required:
            if name not in mounts:
                raise PluginError(
                    f"{self.label} requires {brief(name)}, but has no event of that name; {self._events(name)}"
                )

    def mounts(self) -> dict[str, MountPoint]:
        """Return the mount points of the host by name: its events, and what else is hookable."""
        found = {name: self._mount_at(name) for name in dir(self.host) if not name.startswith("_")}
        return {name: mount for name, mount in found.items() if mount is not None}

    def mount(self, event: str) -> MountPoint:
        """Return the mount point of an event, or raise a `PluginError` if the host has no such event."""
        mounts = self.mounts()
        if event not in mounts:
            raise PluginError(f"{self.label} has no event {brief(event)}; {self._events(event)}")
        return mounts[event]

    def _events(self, name: object) -> str:
        """Return the end of a message: which events there are, and why none of them has this name."""
        names = list(self.mounts())
        shown = f"its events: {', '.join(names)}"
        owner = self.host if isinstance(self.host, type) else type(self.host)
        for base in owner.__mro__:
            if _is_mounted(function_of(vars(base).get(cast("str", name)))):
                if str(name).startswith("_"):
                    return f"{shown}; names that begin with an underscore are private"
                return f"{shown}; {base.__name__} has it, but it is overridden: mark that @event too"
        return f"{shown}{nearest(str(name), names)}"

    def _mount_at(self, name: str) -> MountPoint | None:
        whole = isinstance(self.host, (type, ModuleType))
        shared: Any = getattr_static(self.host if whole else type(self.host), name, None)
        if isinstance(shared, (property, cached_property)):  # reading the attribute would run it
            getter: object = shared.fget if isinstance(shared, property) else shared.func
            mount = mount_of(getter) if isinstance(getter, FunctionType) else None
            return mount if mount is None or whole else for_instance(mount, self.host)
        static: Any = getattr_static(self.host, name, None)
        is_bound = isinstance(static, (classmethod, staticmethod, MethodType))
        function: object = cast("Any", static).__func__ if is_bound else static
        return hooks(getattr(self.host, name)) if _is_mounted(function) else None

    def gate(self, name: str) -> Predicate | None:
        """Return a gate that is open for the host's own class alone, where it shares an inherited event with others."""
        if not isinstance(self.host, type) or name in vars(self.host):
            return None
        static = getattr_static(self.host, name)
        if isinstance(static, (staticmethod, MethodType)):
            return None
        calls = Calls()
        calls.add(self.host)
        return calls.gate(self.mount(name).site().signature)

    def concerns(self, hook: Hook) -> bool:
        """Whether a hook on one of the events acts for this host, and not only for another class that inherits it."""
        calls: object = getattr(hook.gate and hook.gate.holds, "__self__", None)
        owner = self.host if isinstance(self.host, type) else type(self.host)
        return not isinstance(calls, Calls) or any(map(calls.has, owner.__mro__))

    # The hooks of a plugin

    def hooks_of(self, plugin: object, name: str, given: Options) -> list[PluginHook]:
        """Return the hooks that a plugin marks, or raise a `PluginError` if it does not fit the specification."""
        who = f"{self.label}: plugin {name!r}"
        if isinstance(plugin, type):
            name = plugin.__name__
            raise PluginError(f"{self.label}: {name} is a class; register an object of it, as in register({name}())")
        mounts = self.mounts()
        found: dict[int, PluginHook] = {}
        for mark, method in marked(plugin):
            if _is_own(plugin, method):
                whose = f"{who}: {who_is(mark.kind, method.__name__, method)}"
                options = _options(plugin, mark, given, name, whose)
                # A method with two names has only one mark.
                found.setdefault(id(mark), self._hook(mark, method, options, mounts, whose))
        rows = list(found.values())
        self._check_marked(plugin, who, mounts)
        self._check_complete(plugin, who, rows)
        return rows

    def _hook(
        self, mark: Mark, method: Callable[..., Any], options: Options, mounts: dict[str, MountPoint], whose: str
    ) -> PluginHook:
        event = mark.pointcut or method.__name__
        mount = mounts.get(event)
        if mount is None:
            hint = "; weave(plugin) is for pointcuts" if ":" in event else ""
            raise PluginError(
                f"{whose} is for {event!r}, but {self.label} has no event of that name; {self._events(event)}{hint}"
            )
        if "name" in mark.options:
            raise PluginError(f"{whose} has name=; all hooks of a plugin have the plugin's name, so remove it")
        return PluginHook(event, mount, mark, method, options, self.gate(event))

    def _check_marked(self, plugin: object, who: str, mounts: dict[str, MountPoint]) -> None:
        for name, function in _methods(plugin).items():
            if marks_of(function):
                continue
            if name in mounts and mounts[name].function is not function:
                raise PluginError(f"{who} has {name!r}, which is not marked; write @on above it, or rename it")
            for base in type(plugin).__mro__:
                if marks_of(vars(base).get(name)):
                    raise PluginError(
                        f"{who} has {name!r}, which overrides a marked method of {base.__name__} and is not marked; "
                        f"mark it too, or set {name} = None"
                    )

    def _check_complete(self, plugin: object, who: str, rows: list[PluginHook]) -> None:
        has = {row.event for row in rows if row.mark.kind == "on" or row.mount.emission is None}
        for name in self.required:
            if name not in has:
                near = nearest(name, [other for other, one in _methods(plugin).items() if not marks_of(one)])
                what = "@on for" if self.mount(name).emission is not None else "hook on"
                raise PluginError(f"{who} has no {what} {name!r}, as every plugin of {self.label} must{near}")
        if not rows:
            names = ", ".join(self.mounts())
            hint = "; a plugin is an object or a module" if isinstance(plugin, FunctionType) else ""
            raise PluginError(f"{who} has no marked methods; write @on above its methods for {names}{hint}")


def _is_mounted(function: object) -> bool:
    return isinstance(function, FunctionType) and mount_of(function) is not None


def _methods(plugin: object) -> dict[str, FunctionType]:
    """Return the functions of a plugin by name; of a module, those that it defines itself."""
    found = {name: function_of(getattr_static(plugin, name, None)) for name in attribute_names(plugin)}
    return {name: one for name, one in found.items() if isinstance(one, FunctionType) and _is_own(plugin, one)}


def _is_own(plugin: object, method: Callable[..., Any]) -> bool:
    """Whether a plugin that is a module or package defines a function itself; it may import those of other plugins."""
    return not isinstance(plugin, ModuleType) or f"{method.__module__}.".startswith(f"{plugin.__name__}.")


def name_of_plugin(plugin: object, label: str) -> object:
    """Return the name of a plugin that was registered without one."""
    if isinstance(plugin, ModuleType):
        return plugin.__name__
    name = _attribute(plugin, "name", f"{label}: a plugin of type {type(plugin).__name__}")
    return name if isinstance(name, str) and name else type(plugin).__name__


def _attribute(plugin: object, name: str, who: str) -> object:
    try:
        return getattr(plugin, name, None)
    except Exception as error:
        raise PluginError(
            f"{who} has an attribute {name!r} that fails with {brief(error)}; register it with {name}="
        ) from error


def _options(plugin: object, mark: Mark, given: Options, name: str, who: str) -> Options:
    options: dict[str, Any] = {**mark.options, "name": name}
    if "priority" in given:
        options["priority"] = given["priority"]
    elif "priority" not in options:
        own = _attribute(plugin, "priority", who)
        if own is not None:
            options["priority"] = priority_of(own, who)
    for word in ("before", "after"):
        had = options.get(word)
        options[word] = [*(() if had is None else several(had)), *cast("list[str]", given.get(word, ()))]
    return cast("Options", options)


def read_names(value: object, who: str, word: str) -> list[str]:
    """Return the names of other plugins, given as one or several, or raise a `PluginError` if one is not a string."""
    many = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    row: list[Any] = [] if value is None else list(cast("Iterable[Any]", value)) if many else [value]
    for one in row:
        if not isinstance(one, str):
            raise PluginError(f"{who} has {word}={brief(one)}; give the name of another plugin")
    return row
