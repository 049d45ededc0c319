"""Hooks that keep nothing alive: ``weak=True``.

The invariant: nothing here refers strongly to a hook's function, nor to the object whose method it is. Once that is
gone, calling the hook returns None.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import BuiltinMethodType, MethodType, ModuleType

from aspecthook._errors import HookTypeError, unblamed
from aspecthook._hints import Any

from .callables import CODE, code_of, name_of

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def is_ending(finalizing: Callable[[], bool] = sys.is_finalizing, system: ModuleType = sys) -> bool:
    """Whether the interpreter is being torn down, so that a callback of a weak reference finds empty modules."""
    # Bound as defaults, since this module may be empty, too. A subinterpreter that ends does not count as finalizing;
    # its `sys.meta_path` is gone by then, which importlib looks at as well.
    return finalizing() or getattr(system, "meta_path", None) is None


def weakly(
    function: Callable[..., Any], who: object, gone: Callable[[object], None]
) -> tuple[Callable[[], Any], Callable[..., Any] | str | None, Callable[..., Any]]:
    """Return a callable in weak form: its parts, and the function that is the hook and calls it.

    The first part returns the object whose method it is, or the callable itself; None once that is gone. The second is,
    for a method, the function that is called with the object; for a method of C, its name.

    Args:
        function: The callable.
        who: The hook, in messages.
        gone: Called when the callable, or the object whose method it is, has been garbage collected.

    Raises:
        HookTypeError: It does not support weak references.
    """
    owner, inner = _parts(function)
    try:
        ref: Callable[[], Any] = weakref.ref(owner, gone)
    except TypeError:
        raise HookTypeError(
            f"{who} cannot be held weakly: {type(owner).__name__} objects do not support weak references; remove "
            f"weak=True, or add '__weakref__' to the __slots__ of the class"
        ) from None
    return ref, inner, _wrapper(ref, inner, function)


def weak_predicate(predicate: Callable[..., Any], ref: Callable[[], Any]) -> Callable[..., Any]:
    """Return a predicate; one that is a method of the object that is held weakly, in weak form."""
    owner, inner = _parts(predicate)
    return predicate if inner is None or owner is not ref() else _wrapper(ref, inner, predicate)


def _parts(function: Any) -> tuple[Any, Callable[..., Any] | str | None]:
    if isinstance(function, MethodType):
        return function.__self__, function.__func__
    if isinstance(function, BuiltinMethodType) and not isinstance(function.__self__, (ModuleType, type(None))):
        return function.__self__, function.__name__
    return function, None


def together(owner: Any, inner: Callable[..., Any] | str | None) -> Any:
    """Return the callable that has these parts."""
    return owner if inner is None else getattr(owner, inner) if isinstance(inner, str) else MethodType(inner, owner)


@unblamed
def _wrapper(ref: Callable[[], Any], inner: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls what is left of a callable, and is named in messages as that is."""

    def call(*args: Any, **kwargs: Any) -> Any:
        owner = ref()
        return None if owner is None else owner(*args, **kwargs)

    def call_method(*args: Any, **kwargs: Any) -> Any:
        owner = ref()
        return None if owner is None else inner(owner, *args, **kwargs)

    def call_named(*args: Any, **kwargs: Any) -> Any:
        owner = ref()
        return None if owner is None else getattr(owner, inner)(*args, **kwargs)

    made: Any = call if inner is None else call_named if isinstance(inner, str) else call_method
    made.__name__ = made.__qualname__ = name_of(function)
    made.__dict__[CODE] = code_of(function)
    return made  # type: ignore[no-any-return]
