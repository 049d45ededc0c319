"""Registries: names for classes and functions, by which configs (mappings, TOML files) say what to build.

The invariant: what a registry knows is a dict and a tuple that are replaced, never changed, under the one lock of the
package; no user code runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

from aspecthook._core.law.callables import identity
from aspecthook._core.law.options import priority_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._errors import ConfigError, HookLookupError, HookTypeError, add_note, brief, nearest

from ._configs import entries_of, listed, load_toml, outline, read_entry, shown_path, string, strings
from ._factories import Factory, check_arguments, check_callable, defined_at, names_of, parameters_of, set_priority
from ._import_paths import import_path, read_imports

if TYPE_CHECKING:
    from aspecthook.plugins._entry_points import EntryPoint

    from ._import_paths import Imports

Registered = TypeVar("Registered", bound=Factory)

_ABSENT: Any = object()
_MANY = 20


@final
class Registry:
    """Names for classes and functions, in the order of registration; those of entry points come last.

    Args:
        name: The name of the registry, for messages.
        imports: Which import paths ``"package.module:Class"`` a config may name besides what is registered: none
            (False); those whose module and definition are in certain packages, as ``imports=("mypackage",)``; or all
            (True), which lets a config run any code: trust it as you trust a script.

    Example:
        >>> HOOKS = Registry("hooks")
        >>> @HOOKS.register
        ... class Ema:
        ...     def __init__(self, momentum=0.1):
        ...         self.momentum = momentum
        >>> ema = HOOKS.build_from_config({"type": "Ema", "momentum": 0.2, "priority": "LOW"})
        >>> ema.momentum, ema.priority, HOOKS
        (0.2, 'LOW', <Registry 'hooks': 'Ema'>)
    """

    __slots__ = ("__weakref__", "_known", "_points", "_who", "imports", "name")

    def __init__(self, name: str, *, imports: bool | str | Iterable[str] = False) -> None:
        self.name: str = string(name, "a registry has the name")
        self._who = f"registry {self.name!r}"
        self.imports: Imports = read_imports(imports, self._who)
        self._known: dict[str, Factory] = {}
        self._points: tuple[EntryPoint, ...] = ()

    @overload
    def register(
        self, target: Registered, /, *, name: str | Iterable[str] | None = ..., force: bool = ...
    ) -> Registered: ...
    @overload
    def register(
        self, /, *, name: str | Iterable[str] | None = ..., force: bool = ...
    ) -> Callable[[Registered], Registered]: ...
    def register(self, target: Any = _ABSENT, /, *, name: Any = None, force: bool = False) -> Any:
        """Register a class or function, as a decorator or by a call, and return it unchanged.

        Args:
            target: The class or function; left out where this is a decorator with options.
            name: Its name in the registry, or several names; by default its own name.
            force: Whether to take the name from whatever has it.

        Raises:
            HookTypeError: It is not callable, or has no name of its own and is given none.
            ConfigError: Something else has the name; of several names none is registered then.

        Example:
            >>> HOOKS = Registry("hooks")
            >>> @HOOKS.register(name=("early_stop", "EarlyStopping"))
            ... class Stop: ...
            >>> HOOKS.register(dict)
            <class 'dict'>
            >>> list(HOOKS)
            ['early_stop', 'EarlyStopping', 'dict']
        """
        names = None if name is None else strings(name, f"{self._who}: something is given the name")

        def add(target: Any) -> Any:
            if not callable(target):
                hint = f"; to give a name, write name={brief(target)}" if isinstance(target, str) else ""
                raise HookTypeError(
                    f"{self._who}: {brief(target)} is not callable; register a class or a function{hint}"
                )
            self._add(target, names or [self._own_name(target)], force)
            return target

        return add if target is _ABSENT else add(target)

    def _add(self, target: Factory, names: list[str], force: bool) -> None:
        while True:
            known = self._known
            for name in () if force else names:
                holder = known.get(name, target)
                if identity(holder) != identity(target):
                    raise ConfigError(
                        f"{self._who}: {defined_at(target)} cannot have the name {name!r}: {defined_at(holder)} has "
                        "it; give another by name=, or replace that one with force=True"
                    )
            if self._replace(known, {**known, **dict.fromkeys(names, target)}):  # else another thread was faster
                return

    @under_lock
    def _replace(self, known: dict[str, Factory], by: dict[str, Factory]) -> bool:
        if self._known is not known:
            return False
        self._known = by
        return True

    def _own_name(self, target: object) -> str:
        name = getattr(target, "__name__", None)
        if not isinstance(name, str) or not name.isidentifier():  # a lambda is called "<lambda>"
            raise HookTypeError(f"{self._who}: {brief(target)} has no name of its own; give one by name=")
        return str.__str__(name)

    def unregister(self, name: str) -> None:
        """Remove what was registered under a name; an entry point of that name then counts again.

        Where nothing was registered under it, the entry points of that name are removed.

        Raises:
            HookLookupError: Nothing has that name.

        Example:
            >>> HOOKS = Registry("hooks")
            >>> _ = HOOKS.register(dict, name="plain")
            >>> HOOKS.unregister("plain")
            >>> "plain" in HOOKS
            False
        """
        name = string(name, f"{self._who}: unregister is given the name")
        if not self._drop(name):
            raise HookLookupError(self._unknown(name, self._who))

    @under_lock
    def _drop(self, name: str) -> bool:
        known, points = dict(self._known), self._points
        if known.pop(name, None) is None:
            points = tuple([point for point in points if point.name != name])
        found = len(known) < len(self._known) or len(points) < len(self._points)
        self._known, self._points = known, points
        return found

    def load_entry_points(self, group: str) -> tuple[str, ...]:
        """Register the entry points of a group, and return their names; each is imported when it is first used.

        What `register` registers comes before an entry point of the same name. Another call reads the group anew.

        Example:
            >>> Registry("hooks").load_entry_points("a.group.that.no.package.has")
            ()
        """
        from aspecthook.plugins._entry_points import entry_points_of

        group = string(group, f"{self._who}: load_entry_points is given the group")
        found = entry_points_of(group)
        self._replace_group(group, tuple(found))
        return tuple(dict.fromkeys(point.name for point in found))

    @under_lock
    def _replace_group(self, group: str, points: tuple[EntryPoint, ...]) -> None:
        self._points = (*[point for point in self._points if point.group != group], *points)

    def build_from_config(self, config: Mapping[str, Any] | str, /, **defaults: Any) -> Any:
        """Build what a config says.

        Args:
            config: Its ``"type"`` is a registered name, a callable, or, where ``imports`` allows it, an import path
                ``"package.module:Class"``; the other keys are keyword arguments. A ``"priority"`` that the constructor
                does not take is set on what it made. A string is the type alone.
            **defaults: Arguments for keys that the config does not have.

        Raises:
            ConfigError: The type or an argument is missing, unknown or unusable.
            Exception: What the constructor raises, with a note that says what was being built.
            HookTypeError: The priority to set is neither an int nor a string.
            HookOptionError: The priority is out of range, or no priority has that name.

        Example:
            >>> Registry("numbers", imports="fractions").build_from_config(
            ...     {"type": "fractions:Fraction", "numerator": 1}, denominator=3
            ... )
            Fraction(1, 3)
        """
        return build(self, config, defaults, self._who)

    def takes(self, config: Mapping[str, Any] | str, option: str) -> bool:
        """Whether what a config names has a parameter of this name.

        Example:
            >>> Registry("numbers", imports="fractions").takes({"type": "fractions:Fraction"}, "numerator")
            True
        """
        kind = read_entry(config, {}, self._who)["type"]
        return option in names_of(parameters_of(_factory(self, kind, self._who)))

    def build_from_toml(self, path: str | PathLike[str], table: str = "hooks") -> list[Any]:
        r"""Build each entry of a table in a TOML file, in the order of the file.

        The table is an array, ``[[hooks]]``, or a table of tables, ``[hooks.Ema]``, whose names are the types unless
        they give a ``type``. A table inside others is named with dots.

        Raises:
            ConfigError: It is not valid TOML, has no such table, or an entry cannot be built; the message says which.
            OSError: The file cannot be read.

        Example:
            >>> from pathlib import Path
            >>> from tempfile import TemporaryDirectory
            >>> with TemporaryDirectory() as folder:
            ...     path = Path(folder, "run.toml")
            ...     _ = path.write_text('[[train.hooks]]\ntype = "fractions:Fraction"\nnumerator = 2')
            ...     Registry("numbers", imports="fractions").build_from_toml(path, table="train.hooks")
            [Fraction(2, 1)]
        """
        who = f"{self._who}, {shown_path(path)}"
        entries = entries_of(load_toml(path), string(table, f"{who}: the table is"), who)
        return [build(self, config, {}, f"{who}, {place}") for place, config in entries]

    def _find(self, name: str, who: str) -> Factory | None:
        known = self._known.get(name)
        if known is not None:
            return known
        points = [point for point in self._points if point.name == name]
        if len(points) > 1:
            raise ConfigError(
                f"{who}: {len(points)} entry points have the same name: {'; '.join(map(str, points))}; uninstall "
                f"all but one, or register {name!r} yourself, which comes before them"
            )
        if not points:
            return None
        try:
            found = points[0].load()
        except Exception as error:
            raise ConfigError(f"{who}: {points[0]} fails with {brief(error, 200)}; fix or uninstall it") from error
        return check_callable(found, f"{who}: {points[0]}", "fix or uninstall it")

    def _unknown(self, name: object, who: str) -> str:
        module, dot, attribute = str(name).rpartition(".")
        is_path = dot and attribute and self.imports is not False
        path = f"; an import path is written {brief(f'{module}:{attribute}')}" if is_path else ""
        near = nearest(str(name), list(self))
        # Where there are many names and one is meant, a list would only hide it.
        known = "" if near and len(list(self)) > _MANY else f"; registered are: {listed(self)}"
        return f"{who}: {brief(name)} is not registered{known}{path}{near}"

    def __getitem__(self, name: str) -> Factory:
        found = self._find(name, self._who)
        if found is None:
            raise HookLookupError(self._unknown(name, self._who))
        return found

    def _names(self) -> dict[str, None]:
        return dict.fromkeys([*self._known, *[point.name for point in self._points]])

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<Registry {self.name!r}: {listed(self)}>"


def build(registry: Registry, config: object, defaults: dict[str, Any], who: str) -> Any:
    """Build what a config says, by what a registry knows; `who` begins the messages."""
    given = read_entry(config, defaults, who)
    kind = given.pop("type")
    what = f"{who}: the type {brief(kind)}"
    factory = _factory(registry, kind, who)
    takes = parameters_of(factory)
    sets_priority = "priority" in given and "priority" not in names_of(takes)
    priority = given.pop("priority") if sets_priority else None
    if sets_priority:
        priority_of(priority, what)
    check_arguments(takes, given, what)
    try:
        built = factory(**given)
    except Exception as error:
        add_note(error, f"{who}: while building {outline(config)}")
        raise
    if sets_priority:
        set_priority(built, priority, what)
    return built


def _factory(registry: Registry, kind: object, who: str) -> Factory:
    if not isinstance(kind, str):
        advice = "give a registered name, a class or function, or an import path"
        return check_callable(kind, f"{who}: the type", advice)
    found = registry._find(kind, who)
    if found is not None:
        return found
    if ":" not in kind:
        raise ConfigError(registry._unknown(kind, who))
    what, advice = f"{who}: the type {brief(kind)}", "give the path of a class or function"
    return check_callable(import_path(kind, registry.imports, who), what, advice)
