"""Hooks that keep nothing alive: ``weak=True``."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import BuiltinMethodType, MethodType, ModuleType
from typing import Any, NamedTuple

from ._errors import HookTypeError

# Where the code is noted that such a function calls, for messages.
CODE = "__aspecthook_code__"


class Weak(NamedTuple):
    """A callable that is not kept alive: its parts, for compiled calls, and a function that puts them together."""

    # Gives the object whose method it is, or the callable itself; None once that is gone.
    ref: Callable[[], Any]
    # Of a method, the function that is called with the object.
    inner: Callable[..., Any] | None
    call: Callable[..., Any]


def weakly(function: Callable[..., Any], name: str, who: object, gone: Callable[[object], None]) -> Weak:
    """Give what calls another callable, and keeps neither it nor the object whose method it is alive.

    Args:
        function: What is called; once it is gone, calling gives None.
        name: What it is called in messages.
        who: The hook, in messages.
        gone: Called when it has gone.

    Raises:
        HookTypeError: It cannot be referred to weakly.
    """
    owner, inner = _parts(function)
    try:
        ref: Callable[[], Any] = weakref.ref(owner, gone)
    except TypeError:
        raise HookTypeError(
            f"{who} cannot be held weakly: {type(owner).__name__} objects cannot be referred to weakly; leave "
            f"weak=True out, or add '__weakref__' to its __slots__"
        ) from None
    made = _method(ref, inner) if inner is not None else _function(ref)
    made.__name__ = made.__qualname__ = name
    made.__dict__[CODE] = getattr(function, "__code__", None)
    return Weak(ref, inner, made)


def _parts(function: Any) -> tuple[Any, Callable[..., Any] | None]:
    """Give what is held, and for a bound method the function that is called with it."""
    if isinstance(function, MethodType):
        return function.__self__, function.__func__
    if isinstance(function, BuiltinMethodType) and not isinstance(function.__self__, (ModuleType, type(None))):
        return function.__self__, getattr(type(function.__self__), function.__name__)
    return function, None


def _method(ref: Callable[[], Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        owner = ref()
        return None if owner is None else inner(owner, *args, **kwargs)

    return call


def _function(ref: Callable[[], Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        function = ref()
        return None if function is None else function(*args, **kwargs)

    return call
