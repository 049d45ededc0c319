"""What a callable is: its code, its name, whether two are the same, what is inside it."""

from __future__ import annotations

from functools import partial
from types import BuiltinMethodType, CodeType, FunctionType, MethodType
from typing import Any, cast

from aspecthook._errors import printable

# Where a function that calls another notes whose code it calls, for messages.
CODE = "__aspecthook_code__"


def identity(function: object) -> object:
    """Return a key for a callable; two accesses of one bound method have the same key."""
    if isinstance(function, MethodType):
        return (id(function.__self__), id(function.__func__))
    if isinstance(function, BuiltinMethodType):
        return (id(function.__self__), function.__name__)
    return id(function)


def type_of(value: object) -> type[Any]:
    """Return the type of an object, whatever its `__class__` says."""
    return type(value)


def unwrap(function: object) -> object:
    """Return the function inside a bound method, a partial or a static method; else the object itself."""
    # Any: isinstance cannot tell what such a wrapper takes and returns.
    inner: Any = function
    while isinstance(inner, (partial, MethodType, staticmethod)):
        inner = cast("Any", inner).func if isinstance(inner, partial) else cast("Any", inner).__func__
    return cast("object", inner)


def code_of(function: object) -> CodeType | None:
    """Return the code that a callable runs, as it is written; None if it is not Python code."""
    inner = unwrap(function)
    if type(inner) is not FunctionType:
        owner: Any = inner if isinstance(inner, type) else type(inner)
        inner = owner.__init__ if isinstance(inner, type) else getattr(owner, "__call__", None)  # noqa: B004
        if type(inner) is not FunctionType:
            return None
    if CODE in inner.__dict__:
        return cast("CodeType | None", inner.__dict__[CODE])
    wrapped = inner.__dict__.get("__wrapped__")
    return wrapped.__code__ if type(wrapped) is FunctionType else inner.__code__


def name_of(function: object) -> str:
    """Return the `__name__` of a callable or of the function inside it, or else the name of its type."""
    name = getattr(unwrap(function), "__name__", None)
    return printable(name if isinstance(name, str) else type(function).__name__)


def who_is(kind: str, name: str, function: object) -> str:
    """Return a hook as messages describe it: kind, name, file and line."""
    code = code_of(function)
    return f"{kind} hook {name!r}" + (f" ({printable(code.co_filename)}:{code.co_firstlineno})" if code else "")
