"""Checks of the options that training hooks and callbacks are given, by scripts and by config files.

Each raises a HookTypeError for a value of another type, and a HookOptionError for one that is impossible.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import Any, TypeVar, cast

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest

Choice = TypeVar("Choice")


def whole_number(who: str, name: str, value: object, least: float = -inf) -> int:
    """Return a whole number that is not less than `least`; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise HookTypeError(f"{who}: {name}={brief(value)} is not a whole number")
    if value < least:
        raise HookOptionError(f"{who}: {name}={value}; give a number from {least} up")
    return value


def optional_number(who: str, name: str, value: object, least: int) -> int | None:
    """Return None, or a whole number that is not less than `least`; raise like `whole_number`."""
    return None if value is None else whole_number(who, name, value, least)


def flag(who: str, name: str, value: object) -> bool:
    """Return True or False; a string from a config, such as "no", is neither."""
    if not isinstance(value, bool):
        raise HookTypeError(f"{who}: {name}={brief(value)} is neither True nor False; give one of them")
    return value


def finite_number(
    who: str, name: str, value: object, *, above: float = -inf, below: float = inf, least: float = -inf
) -> float:
    """Return a finite int or float between two bounds, which are not allowed themselves, and from `least` up."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise HookTypeError(f"{who}: {name}={brief(value)} is not a number")
    if value < least:
        raise HookOptionError(f"{who}: {name}={value}; give a number from {least:g} up")
    if not above < value < below:
        bounds = [f"above {above:g}"] * (above > -inf) + [f"below {below:g}"] * (below < inf)
        wanted = f"{'a number' if isfinite(value) else 'a finite number'} {' and '.join(bounds)}".rstrip()
        raise HookOptionError(f"{who}: {name}={value}; give {wanted}")
    return value


def share(who: str, name: str, value: object) -> float:
    """Return a number from 0 to 1."""
    number = finite_number(who, name, value)
    if not 0 <= number <= 1:
        raise HookOptionError(f"{who}: {name}={value}; give a number from 0 to 1")
    return number


# Any: a function of whatever the hook calls it with.
def function(who: str, name: str, value: Any, advice: str = "give a function") -> Any:
    """Return a value that can be called; the error ends with the advice."""
    if not callable(value):
        raise HookTypeError(f"{who}: {name}={brief(value)} is not callable; {advice}")
    return value


def one_of(who: str, name: str, value: object, choices: Sequence[Choice]) -> Choice:
    """Return a value that is one of the choices; the error names the nearest one."""
    if value in choices:
        return cast("Choice", value)
    *first, last = map(repr, choices)
    near = nearest(str(value), [str(choice) for choice in choices])
    raise HookOptionError(f"{who}({name}={brief(value)}): give {', '.join(first)} or {last}{near}")


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with that many arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a builtin may have no signature
        return True
    return True
