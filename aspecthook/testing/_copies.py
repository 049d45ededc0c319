"""Copies of what a call is given, so that the same call can be made again though hooks change arguments in place."""

from __future__ import annotations

import copy
from typing import Any

from aspecthook._core.law.callables import type_of

# What a bound method passes by itself, the arguments, the keyword arguments. Any: they are of any type.
Everything = tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]

_ATOMS = (type(None), bool, int, float, complex, str, bytes)


def kept_of(everything: Everything) -> Everything:
    """Return what is to be kept of a call before it is made.

    Only plain data is copied now. Copying another object may be slow and may run code of the user's, and most traced
    calls are never made again; such an object is copied as the first call has left it.
    """
    bound, args, kwargs = everything
    return tuple(map(_kept, bound)), tuple(map(_kept, args)), {name: _kept(value) for name, value in kwargs.items()}


def _kept(value: Any) -> Any:
    try:
        return copy.deepcopy(value) if _is_data(value) else value
    except RecursionError:  # a list that contains itself
        return value


def _is_data(value: Any) -> bool:
    kind: type[Any] = type_of(value)
    if kind in (list, tuple, set, frozenset):
        return all(map(_is_data, value))
    if kind is dict:
        return all(map(_is_data, value)) and all(map(_is_data, value.values()))
    return kind in _ATOMS


def copy_of(everything: Everything) -> Everything:
    """Return a deep copy, in which objects that cannot be copied are themselves."""
    try:
        return copy.deepcopy(everything)
    except Exception:
        bound, args, kwargs = everything
        named = {name: _copied(value) for name, value in kwargs.items()}
        return tuple(map(_copied, bound)), tuple(map(_copied, args)), named


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a file, a lock, a generator
        return value
