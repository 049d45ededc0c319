"""Hooks that keep nothing alive: ``weak=True``.

The invariant: nothing here refers strongly to a hook's function, nor to the object whose method it is. Once that is
gone, calling the hook returns None.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import BuiltinMethodType, ClassMethodDescriptorType, CodeType, MethodDescriptorType, MethodType, ModuleType

from aspecthook._errors import HookTypeError, unblamed
from aspecthook._hints import Any

from .callables import CODE

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def is_ending(finalizing: Callable[[], bool] = sys.is_finalizing, system: ModuleType = sys) -> bool:
    """Whether the interpreter is being torn down, so that a callback of a weak reference finds empty modules."""
    # Bound as defaults, since this module may be empty, too. A subinterpreter that ends does not count as finalizing;
    # its `sys.meta_path` is gone by then, which importlib looks at as well.
    return finalizing() or getattr(system, "meta_path", None) is None


def weakly(
    function: Callable[..., Any], name: str, code: CodeType | None, who: object, gone: Callable[[object], None]
) -> tuple[Callable[[], Any], Callable[..., Any] | None, Callable[..., Any]]:
    """Return a callable in weak form: its parts, and the function that is the hook and calls it.

    The first part returns the object whose method it is, or the callable itself; None once that is gone. The second is,
    for a method, the function that is called with the object.

    Args:
        function: The callable.
        name: Its name, for messages.
        code: Its code, for messages.
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
    return ref, inner, _named(_method(ref, inner) if inner is not None else _function(ref), name, code)


def weak_predicate(
    predicate: Callable[..., Any], owner: object, name: str, code: CodeType | None, *, awaits: bool
) -> Callable[..., Any]:
    """Return a predicate; one that is a method of `owner`, the object held weakly, in weak form."""
    is_own = isinstance(predicate, (MethodType, BuiltinMethodType)) and predicate.__self__ is owner
    inner = _parts(predicate)[1] if is_own else None
    if inner is None:
        return predicate
    ref = weakref.ref(owner)
    return _named(_async_method(ref, inner) if awaits else _method(ref, inner), name, code)


def _parts(function: Any) -> tuple[Any, Callable[..., Any] | None]:
    """Return the object to hold weakly, and for a bound method the function that is called with it."""
    if isinstance(function, MethodType):
        return function.__self__, function.__func__
    if isinstance(function, BuiltinMethodType) and not isinstance(function.__self__, (ModuleType, type(None))):
        return _parts_of_c(function)
    return function, None


def _parts_of_c(function: BuiltinMethodType) -> tuple[Any, Callable[..., Any] | None]:
    owner: Any = function.__self__
    # The methods of a class are in its own MRO, those of another object in the MRO of its type; a class has both.
    for base in (*(owner.__mro__ if issubclass(type(owner), type) else ()), *type(owner).__mro__):
        inner = vars(base).get(function.__name__)
        if isinstance(inner, (MethodDescriptorType, ClassMethodDescriptorType)) and together(owner, inner) == function:
            return owner, inner
    return function, None  # not a method of its `__self__`, such as dict.__new__


def together(owner: Any, inner: Any) -> Any:
    """Return the bound method of an object and a function; None if they do not fit."""
    if isinstance(inner, ClassMethodDescriptorType):
        return inner.__get__(None, owner) if issubclass(type(owner), type) else None
    if isinstance(inner, MethodDescriptorType):
        return inner.__get__(owner) if isinstance(owner, inner.__objclass__) else None
    return MethodType(inner, owner)


def _named(function: Any, name: str, code: CodeType | None) -> Callable[..., Any]:
    """Return a function, named in messages as the one that it calls."""
    function.__name__ = function.__qualname__ = name
    function.__dict__[CODE] = code
    return function  # type: ignore[no-any-return]


@unblamed
def _method(ref: Callable[[], Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        owner = ref()
        return None if owner is None else inner(owner, *args, **kwargs)

    return call


@unblamed
def _async_method(ref: Callable[[], Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        owner = ref()
        return None if owner is None else await inner(owner, *args, **kwargs)

    return call


@unblamed
def _function(ref: Callable[[], Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        function = ref()
        return None if function is None else function(*args, **kwargs)

    return call
