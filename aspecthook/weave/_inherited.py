"""Functions that a class inherits, or shares with others: which calls of them are meant, and how they are known."""

from __future__ import annotations

from types import FunctionType

from aspecthook._core.law.callables import type_of
from aspecthook._hints import Any, Literal, TypeAlias

from ._members import ACCESSORS, Member, function_in, member_of

# All calls are meant; those whose first argument is of the class; or those through a proxy in the class.
Calls: TypeAlias = Literal["all", "by first argument", "through the class"]
_FIRST = frozenset(("self", "cls", "mcs", "mcls", "metacls"))


def calls_meant(function: FunctionType, member: Member) -> Calls:
    """Return which calls of a function are meant by a member of a class."""
    if member.heir is not None:
        return "through the class" if isinstance(member.value, staticmethod) else "by first argument"
    if not isinstance(member.owner, type) or _is_written_in(member.owner, function):
        return "all"
    if _takes_class(function, member):
        return "by first argument"
    found = member_of(function)
    known = found is not None and any(function_in(found.value, word) is function for word in ACCESSORS)
    # A function that no other name leads to was made for this class, as a decorator makes a closure around a method.
    return "through the class" if known else "all"


def _is_written_in(cls: type[Any], function: FunctionType) -> bool:
    """Whether a function is one of a class's own, as its name says."""
    if function.__module__ == cls.__module__ and function.__qualname__.rpartition(".")[0] == cls.__qualname__:
        return True
    found = member_of(function)
    return found is not None and found.owner is cls


def _takes_class(function: FunctionType, member: Member) -> bool:
    """Whether the first argument of a function in a class is an instance of that class, or a class."""
    static = isinstance(member.value, staticmethod)
    if member.name == "__new__" or not (static or type_of(member.value) is FunctionType):
        return True  # a class method and a property, too
    # Called as `Shop.add(1, 2)`, an ordinary function is not passed the class.
    first = function.__code__.co_varnames[: function.__code__.co_argcount][:1]
    return not static and bool(first) and first[0].strip("_") in _FIRST
