"""Functions that a class has from elsewhere, inherited or shared with other classes: which calls of them are meant."""

from __future__ import annotations

from types import FunctionType
from typing import Any, Literal, TypeAlias

from aspecthook._core.law.callables import type_of

from ._members import ACCESSORS, Member, function_in, member_of

Sharing: TypeAlias = Literal["not shared", "by its first argument", "by its place"]
_FIRST = frozenset(("self", "cls", "mcs", "mcls", "metacls"))


def sharing(function: FunctionType, member: Member) -> Sharing:
    """Say how the calls of a function that are meant are told from those for others who have the same function.

    By the class of the first argument; or, where that is anything, by a proxy in the class that is meant.
    """
    if member.heir is not None:
        return "by its place" if isinstance(member.value, staticmethod) else "by its first argument"
    if not isinstance(member.owner, type) or _is_written_in(member.owner, function):
        return "not shared"
    if _is_told_its_class(function, member):
        return "by its first argument"
    found = member_of(function)
    known = found is not None and any(function_in(found.value, word) is function for word in ACCESSORS)
    # What is known by no other name was made for this class: a closure that a decorator has put around a method.
    return "by its place" if known else "not shared"


def _is_written_in(cls: type[Any], function: FunctionType) -> bool:
    """Say whether a function is one of a class's own, as its name says."""
    if function.__module__ == cls.__module__ and function.__qualname__.rpartition(".")[0] == cls.__qualname__:
        return True
    found = member_of(function)
    return found is not None and found.owner is cls


def _is_told_its_class(function: FunctionType, member: Member) -> bool:
    """Say whether the first argument of a function that a class has is an instance of that class, or a class."""
    static = isinstance(member.value, staticmethod)
    if member.name == "__new__" or not (static or type_of(member.value) is FunctionType):
        return True  # also a class method or a property
    # Whoever calls `Shop.add(1, 2)` has an ordinary function there, which is not told the class.
    first = function.__code__.co_varnames[: function.__code__.co_argcount][:1]
    return not static and bool(first) and first[0].strip("_") in _FIRST
