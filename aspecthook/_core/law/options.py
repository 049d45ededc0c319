"""The options of a hook, and the conditions that they are read into.

The invariant: options are checked when a hook is added. `_READERS` is the one table of how each option is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest, printable
from aspecthook._hints import Any, NamedTuple, Protocol, TypeAlias, TypedDict, cast

from .callables import identity, name_of, who_is


class Priority(IntEnum):
    """The names of priorities; the lowest number runs first.

    Example:
        >>> Priority.HIGH < Priority.NORMAL
        True
    """

    HIGHEST = 0
    VERY_HIGH = 10
    HIGH = 30
    ABOVE_NORMAL = 40
    NORMAL = 50
    BELOW_NORMAL = 60
    LOW = 70
    VERY_LOW = 90
    LOWEST = 100


class _Callable(Protocol):
    """Anything that can be called, whatever it takes."""

    @property
    def __call__(self) -> Callable[..., object]: ...


# Any callable: what it asks for is checked when it is added. In a union, pyright takes the types of the parameters of a
# lambda from the member with as many, here Any; those of `Callable[..., object]` alone would be Unknown, an error in
# its strict mode. And `_Callable` is a protocol with a property because a plain `Callable[...]` would win over them.
Asking: TypeAlias = (
    Callable[[], object]
    | Callable[[Any], object]
    | Callable[[Any, Any], object]
    | Callable[[Any, Any, Any], object]
    | Callable[[Any, Any, Any, Any], object]
    | _Callable
)


class Options(TypedDict, total=False):
    """The options of a hook, all optional."""

    name: str
    priority: int | str
    before: object
    after: object
    when: Asking
    once: bool
    times: int
    every: int
    isolate: bool
    reentrant: bool


OPTIONS = tuple(Options.__annotations__)


class Adding(Options, total=False):
    """What a hook may be added with: its options, and whether it may be added a second time."""

    again: bool


class Conditions(NamedTuple):
    """The options of a hook, checked and with defaults filled in."""

    priority: int = int(Priority.NORMAL)
    # Keys of the hooks that `before` and `after` name: names, or the identities of handles and callables.
    before: tuple[object, ...] = ()
    after: tuple[object, ...] = ()
    # The predicate; of a hook that was added, its identity.
    when: Any = None
    times: int | None = None
    every: int | None = None
    reentrant: bool = True
    isolate: bool = False


def meaning(name: str, conditions: Conditions) -> dict[str, object]:
    """Return what the options of a hook come to, however they were written, so that two hooks can be compared."""
    orders = {"before": frozenset(conditions.before), "after": frozenset(conditions.after)}
    return {"name": name, **conditions._asdict(), **orders}


class Handle:
    """The base of `Hook`, which is defined above this module: `before` and `after` may name a hook by its handle."""

    __slots__ = ()

    def remove(self) -> None:
        """Remove the hook from its mount point."""
        raise NotImplementedError


def read(options: Options, who: object) -> Conditions:
    """Return the conditions that the options of a hook mean; `who` names the hook in messages.

    Raises:
        HookTypeError: An option is unknown, or has the wrong type.
        HookOptionError: An option has a value that it cannot have.
    """
    if not options:
        return DEFAULTS
    given = cast("Mapping[str, object]", options)
    unknown = sorted(given.keys() - set(OPTIONS))
    if unknown:
        raise HookTypeError(
            f"{who} has an option {unknown[0]!r}, which does not exist; the options are {', '.join(OPTIONS)}"
            f"{nearest(unknown[0], list(OPTIONS))}"
        )
    conditions = {option: _READERS[option](value, who, option) for option, value in given.items() if option != "name"}
    if conditions.pop("once", False):
        if conditions.get("times") not in (None, 1):
            raise HookOptionError(
                f"{who} has once=True and times={conditions['times']}, which contradict each other; remove one of them"
            )
        conditions["times"] = 1
    return Conditions(**conditions)


def read_name(options: Options, function: object, kind: str, label: str) -> str:
    """Return the name of a hook: the option ``name``, or else the name of the callable.

    Raises:
        HookTypeError: It is not a string, or empty.
    """
    name = cast("Mapping[str, object]", options).get("name") if options else None
    if name is None:
        return name_of(function)
    if not isinstance(name, str) or not name:
        who = who_is(kind, name_of(function), function)
        raise HookTypeError(f"{label}: {who} has the name {brief(name)}; give a string that is not empty")
    return printable(name)


def priority_of(value: object, who: object, option: str = "priority") -> int:
    """Return the number of a priority: an int from 0 to 100, or a name in any case.

    Raises:
        HookTypeError: It is neither an int nor a string.
        HookOptionError: It is out of range, or no priority has that name.
    """
    if isinstance(value, str):
        names = list(Priority.__members__)
        if value.upper() not in names:
            raise HookOptionError(
                f"{who} has the {option} {brief(value)}, which does not exist; the names are "
                f"{', '.join(names)}{nearest(value.upper(), names)}"
            )
        return Priority[value.upper()].value
    if not isinstance(value, int) or isinstance(value, bool):
        raise HookTypeError(f"{who} has a {option} of type {type(value).__name__}; give an int from 0 to 100 or a name")
    if not 0 <= value <= 100:
        raise HookOptionError(f"{who} has the {option} {brief(value)}; give an int from 0 (first) to 100 (last)")
    return int(value)


def several(value: object) -> tuple[object, ...]:
    """Return what `before` or `after` name, one or several, as a tuple."""
    many = isinstance(value, (list, tuple, set, frozenset))
    return tuple(cast("Iterable[object]", value)) if many else (value,)


def key_of(one: object) -> object:
    """Return the key of what `before` or `after` name: a hook, its callable or its name."""
    return printable(one) if isinstance(one, str) else id(one) if isinstance(one, Handle) else identity(one)


def _keys(value: object, who: object, option: str) -> tuple[object, ...]:
    if value is None:
        return ()
    for one in several(value):
        if not isinstance(one, (str, Handle)) and not callable(one):
            raise HookTypeError(f"{who} has {option}={brief(one)}; give the name of a hook, or the hook itself")
    return tuple([key_of(one) for one in several(value)])


def _predicate(value: object, who: object, option: str) -> object:
    if value is not None and not callable(value):
        raise HookTypeError(f"{who} has a `{option}` that is not callable: {brief(value)}; give a predicate")
    return value


def _flag(value: object, who: object, option: str) -> bool:
    if not isinstance(value, bool):
        raise HookTypeError(f"{who} has {option}={brief(value)}; give True or False")
    return value


def _every(value: object, who: object, option: str) -> int | None:
    number = _count(value, who, option)
    return None if number == 1 else number  # each call, as without the option


def _count(value: object, who: object, option: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise HookTypeError(f"{who} has {option}={brief(value)}; give a whole number")
    if value < 1:
        raise HookOptionError(f"{who} has {option}={brief(value)}; give a number from 1 up")
    return value


DEFAULTS = Conditions()
_READERS: dict[str, Callable[[object, object, str], Any]] = {
    "priority": priority_of,
    "before": _keys,
    "after": _keys,
    "when": _predicate,
    "once": _flag,
    "times": _count,
    "every": _every,
    "isolate": _flag,
    "reentrant": _flag,
}
