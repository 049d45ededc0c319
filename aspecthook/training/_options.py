"""Checks of the options that training hooks and callbacks are given, by scripts and by config files."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TypeVar, cast

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest

Choice = TypeVar("Choice")


def whole_number(who: str, name: str, value: object, least: int) -> int:
    """Return a whole number that is not less than `least`.

    Raises:
        HookTypeError: The value is not an int; True and False are not either.
        HookOptionError: It is too small.

    Example:
        >>> whole_number("EvalHook", "interval", 5, 1)
        5
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise HookTypeError(f"{who}: {name}={brief(value)} is not a whole number")
    if value < least:
        raise HookOptionError(f"{who}: {name}={value}; give a number from {least} up")
    return value


def optional_number(who: str, name: str, value: object, least: int) -> int | None:
    """Return None, or a whole number that is not less than `least`; raise like `whole_number`."""
    return None if value is None else whole_number(who, name, value, least)


def finite_number(who: str, name: str, value: object, *, above: float = -inf, below: float = inf) -> float:
    """Return a finite number between two bounds, which are not allowed themselves.

    Raises:
        HookTypeError: The value is neither an int nor a float; True and False are not either.
        HookOptionError: It is infinite, NaN or out of bounds.

    Example:
        >>> finite_number("EMAHook", "momentum", 0.1, above=0, below=1)
        0.1
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise HookTypeError(f"{who}: {name}={brief(value)} is not a number")
    if not above < value < below:
        bounds = [f"above {above:g}"] * (above > -inf) + [f"below {below:g}"] * (below < inf)
        raise HookOptionError(f"{who}: {name}={value}; give a number {' and '.join(bounds) or 'that is finite'}")
    return value


def one_of(who: str, name: str, value: object, choices: Sequence[Choice]) -> Choice:
    """Return a value that is one of the choices.

    Raises:
        HookOptionError: It is none of them; the message names the nearest one.

    Example:
        >>> one_of("NanGuardHook", "action", "skip", ["raise", "skip", "stop"])
        'skip'
    """
    if value in choices:
        return cast("Choice", value)
    *first, last = map(repr, choices)
    near = nearest(str(value), [str(choice) for choice in choices])
    raise HookOptionError(f"{who}({name}={brief(value)}): give {', '.join(first)} or {last}{near}")
