"""Hooks that keep nothing alive: ``weak=True``.

The invariant: nothing here refers strongly to a hook's function, nor to the object whose method it is. Once that is
gone, calling the hook returns None.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from operator import call
from types import BuiltinMethodType, MethodType, ModuleType

from aspecthook._errors import HookTypeError, unblamed
from aspecthook._hints import Any, NamedTuple, final

from .callables import CODE, code_of, name_of

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def is_ending(finalizing: Callable[[], bool] = sys.is_finalizing, system: ModuleType = sys) -> bool:
    """Whether the interpreter is being torn down, so that a callback of a weak reference finds empty modules."""
    # Bound as defaults, since this module may be empty, too. A subinterpreter that ends does not count as finalizing;
    # its `sys.meta_path` is gone by then, which importlib looks at as well.
    return finalizing() or getattr(system, "meta_path", None) is None


@final
class Weakly(NamedTuple):
    """A callable that is held weakly."""

    # Returns the object whose method it is, or the callable itself; None once that is gone.
    ref: Callable[[], Any]
    # What is called with that object: the function that is the method, or, for the callable itself, `operator.call`.
    inner: Callable[..., Any]

    @classmethod
    def of(cls, function: Callable[..., Any], who: object, gone: Callable[[object], None]) -> Weakly:
        """Hold a callable weakly; `gone` is called when it, or the object whose method it is, has been collected.

        Raises:
            HookTypeError: It does not support weak references.
        """
        owner, inner = _parts(function)
        try:
            return cls(weakref.ref(owner, gone), inner)
        except TypeError:
            raise HookTypeError(
                f"{who} cannot be held weakly: {type(owner).__name__} objects do not support weak references; remove "
                f"weak=True, or add '__weakref__' to the __slots__ of the class"
            ) from None

    def callable(self) -> Callable[..., Any] | None:
        """Return the callable; None once it is gone."""
        owner: Any = self.ref()
        inner: Any = self.inner
        found: Callable[..., Any] | None = owner if owner is None or inner is call else inner.__get__(owner)
        return found

    def predicate(self, predicate: Callable[..., Any]) -> Callable[..., Any]:
        """Return a predicate; a method of the object that is held weakly in the same form."""
        owner, inner = _parts(predicate)
        return predicate if inner is call or owner is not self.ref() else Weakly(self.ref, inner).calling(predicate)

    @unblamed
    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls what is left of the callable, and has the name of `function` in messages."""
        ref, inner = self

        def weakly(*args: Any, **kwargs: Any) -> Any:
            owner = ref()
            return None if owner is None else inner(owner, *args, **kwargs)

        weakly.__name__ = weakly.__qualname__ = name_of(function)
        weakly.__dict__[CODE] = code_of(function)
        return weakly


def _parts(function: Any) -> tuple[Any, Callable[..., Any]]:
    if isinstance(function, MethodType):
        return function.__self__, function.__func__
    if isinstance(function, BuiltinMethodType) and not isinstance(function.__self__, (ModuleType, type(None))):
        return function.__self__, getattr(type(function.__self__), function.__name__)
    return function, call
