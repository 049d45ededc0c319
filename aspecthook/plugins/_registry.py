"""Registries: names for classes and functions, by which configs (mappings, TOML files) say what is to be built.

What a registry knows is a dict and a tuple that are replaced, never changed, under the lock of the house; no code of a
user runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

from aspecthook._core.law.callables import identity
from aspecthook._core.law.options import priority_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._errors import ConfigError, HookLookupError, HookTypeError, brief, nearest

from ._config import (
    Factory,
    callable_by,
    check_given,
    entries_of,
    given_by,
    imported,
    imports_of,
    listed,
    load_toml,
    loaded,
    names_taken,
    note,
    outline,
    place_of,
    set_priority,
    shown_path,
    string,
    strings,
    takes_of,
)

if TYPE_CHECKING:
    from ._entry_points import EntryPoint

Registered = TypeVar("Registered", bound=Factory)

_ABSENT: Any = object()


# Not in line: CPython 3.13 may handle a signal at a loop's jump back, and leave a `with` around it without its end.
def _others(points: tuple[EntryPoint, ...], is_out: Callable[[EntryPoint], bool]) -> tuple[EntryPoint, ...]:
    return tuple([point for point in points if not is_out(point)])


@final
class Registry:
    """Names for classes and functions, in the order in which they were registered; those of entry points come last.

    Args:
        name: What messages call it.
        imports: Which import paths ``"package.module:Class"`` configs may name besides what is registered: none; those
            whose module and definition are in one of some packages, as ``imports=("mypackage",)``; or with True all,
            which lets a config run any code, so that it must be trusted as a script is.

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
        self.name = string(name, "a registry has the name")
        self._who = f"registry {self.name!r}"
        self.imports = imports_of(imports, self._who)
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
        """Register a class or function, as a decorator or by a call, and give it back unchanged.

        Args:
            target: What is called to build; a decorator with options leaves it out.
            name: The name, or several; else its own.
            force: Take the name from what has it.

        Raises:
            HookTypeError: It cannot be called, or has no name of its own and is given none.
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
            return self._add(target, names, force)

        return add if target is _ABSENT else add(target)

    def _add(self, target: Any, names: list[str] | None, force: bool) -> Any:
        if not callable(target):
            hint = f"; a name is given as name={brief(target)}" if isinstance(target, str) else ""
            raise HookTypeError(f"{self._who}: {brief(target)} cannot be called; register a class or a function{hint}")
        names = names or [self._own_name(target)]
        while True:
            known = self._known
            for name in () if force else names:
                self._check_free(name, known.get(name, target), target)
            if self._replace(known, {**known, **dict.fromkeys(names, target)}):  # else another thread was faster
                return target

    @under_lock
    def _replace(self, known: dict[str, Factory], by: dict[str, Factory]) -> bool:
        if self._known is not known:
            return False
        self._known = by
        return True

    def _check_free(self, name: str, holder: Factory, target: Factory) -> None:
        if identity(holder) != identity(target):
            raise ConfigError(
                f"{self._who}: {place_of(target)} cannot have the name {name!r}: {place_of(holder)} has it; give "
                "another by name=, or replace that one with force=True"
            )

    def _own_name(self, target: object) -> str:
        name = getattr(target, "__name__", None)
        if not isinstance(name, str) or not name.isidentifier():  # a lambda's is none
            raise HookTypeError(f"{self._who}: {brief(target)} has no name of its own; give one by name=")
        return str.__str__(name)

    def unregister(self, name: str) -> None:
        """Take off what was registered by a name, so that an entry point of that name counts again; else that.

        Raises:
            HookLookupError: There is nothing of that name.

        Example:
            >>> HOOKS = Registry("hooks")
            >>> _ = HOOKS.register(dict, name="plain")
            >>> HOOKS.unregister("plain")
            >>> "plain" in HOOKS
            False
        """
        name = string(name, f"{self._who}: what is to be taken off has the name")
        if not self._drop(name):
            raise HookLookupError(self._unknown(name, self._who))

    @under_lock
    def _drop(self, name: str) -> bool:
        known, points = dict(self._known), self._points
        if known.pop(name, None) is None:
            points = _others(points, lambda point: point.name == name)
        found = len(known) < len(self._known) or len(points) < len(self._points)
        self._known, self._points = known, points
        return found

    def load_entry_points(self, group: str) -> tuple[str, ...]:
        """Register the entry points of a group by their names, and give these; each is imported at its first use.

        What `register` registers goes before an entry point of the same name. Another call reads the group anew.

        Example:
            >>> Registry("hooks").load_entry_points("a.group.that.no.package.has")
            ()
        """
        from ._entry_points import entry_points_of

        group = string(group, f"{self._who}: entry points are asked for by the group")
        found = entry_points_of(group)
        self._replace_group(group, tuple(found))
        return tuple(dict.fromkeys(point.name for point in found))

    @under_lock
    def _replace_group(self, group: str, points: tuple[EntryPoint, ...]) -> None:
        self._points = (*_others(self._points, lambda point: point.group == group), *points)

    def build_from_config(self, config: Mapping[str, Any] | str, /, **defaults: Any) -> Any:
        """Build what a config says.

        Args:
            config: Its ``"type"`` is a registered name, a callable, or, where ``imports`` allows it, an import path
                ``"package.module:Class"``; the other keys are keyword arguments. A ``"priority"`` that the constructor
                does not take is set on what it made. A string is the type alone.
            **defaults: Used where the config has no such key.

        Raises:
            ConfigError: The type or an argument is missing, unknown or unusable. What the constructor itself raises
                passes, with a note that says what was being built.
            HookTypeError: The priority to be set is neither an int nor a string.
            HookOptionError: It is out of range, or no priority has that name.

        Example:
            >>> Registry("numbers", imports="fractions").build_from_config(
            ...     {"type": "fractions:Fraction", "numerator": 1}, denominator=3
            ... )
            Fraction(1, 3)
        """
        return self._build(config, defaults, self._who)

    def build_from_toml(self, path: str | PathLike[str], table: str = "hooks") -> list[Any]:
        r"""Build each entry of a table in a TOML file, in the order of the file.

        A table inside others is named with dots. It is an array, ``[[hooks]]``, or a table of tables, ``[hooks.Ema]``,
        each named by its type unless it gives a ``type``.

        Raises:
            ConfigError: It is no TOML, has no such table, or an entry cannot be built; the message says which.
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
        return [self._build(config, {}, f"{who}, {place}") for place, config in entries]

    def _build(self, config: object, defaults: dict[str, Any], who: str) -> Any:
        given = given_by(config, defaults, who)
        kind = given.pop("type")
        what = f"{who}: the type {brief(kind)}"
        factory = self._factory(kind, who)
        takes = takes_of(factory)
        apart = "priority" in given and "priority" not in names_taken(takes)
        priority = given.pop("priority") if apart else None
        if apart:
            priority_of(priority, what)
        check_given(takes, given, what)
        try:
            built = factory(**given)
        except Exception as error:
            note(error, f"{who}: while building {outline(config)}")
            raise
        if apart:
            set_priority(built, priority, what)
        return built

    def _factory(self, kind: object, who: str) -> Factory:
        if not isinstance(kind, str):
            return callable_by(
                kind, f"{who}: the type", "give a registered name, a class or function, or an import path"
            )
        found = self._find(kind, who)
        if found is None and ":" not in kind:
            raise ConfigError(self._unknown(kind, who))
        if found is None:
            made = imported(kind, self.imports, who)
            found = callable_by(made, f"{who}: the type {brief(kind)}", "give the path of a class or function")
        return found

    def _find(self, name: str, who: str) -> Factory | None:
        known = self._known.get(name)
        if known is not None:
            return known
        points = [point for point in self._points if point.name == name]
        if len(points) > 1:
            raise ConfigError(
                f"{who}: {len(points)} entry points have one name: {'; '.join(map(str, points))}; uninstall "
                f"all but one, or register {name!r} yourself, which goes before them"
            )
        return loaded(points[0], who) if points else None

    def _unknown(self, name: object, who: str) -> str:
        module, dot, attribute = str(name).rpartition(".")
        is_path = dot and attribute and self.imports is not False
        path = f"; an import path is written {brief(f'{module}:{attribute}')}" if is_path else ""
        return f"{who}: {brief(name)} is not registered; what is: {listed(self)}{path}{nearest(str(name), list(self))}"

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
