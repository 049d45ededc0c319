"""Hooks that keep nothing alive: ``weak=True``."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import BuiltinMethodType, ClassMethodDescriptorType, CodeType, MethodDescriptorType, MethodType, ModuleType
from typing import Any, final

from aspecthook._errors import HookTypeError

from .callables import CODE
from .records import NamedTuple

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class Weak(NamedTuple):
    """A callable that is not kept alive: its parts, for compiled calls, and a function that puts them together."""

    # Gives the object whose method it is, or the callable itself; None once that is gone.
    ref: Callable[[], Any]
    # Of a method, the function that is called with the object.
    inner: Callable[..., Any] | None
    call: Callable[..., Any]


def weakly(
    function: Callable[..., Any], name: str, code: CodeType | None, who: object, gone: Callable[[object], None]
) -> Weak:
    """Give what calls another callable, and keeps neither it nor the object whose method it is alive.

    Args:
        function: What is called; once it is gone, calling gives None.
        name: What it is called in messages.
        code: Where it is written, for messages.
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
    return Weak(ref, inner, _named(_method(ref, inner) if inner is not None else _function(ref), name, code))


def weakly_asked(
    predicate: Callable[..., Any], owner: object, name: str, code: CodeType | None, *, awaits: bool
) -> Callable[..., Any]:
    """Give a predicate without the object that it is a method of, if that is the one which is not kept alive."""
    if not isinstance(predicate, (MethodType, BuiltinMethodType)) or predicate.__self__ is not owner:
        return predicate
    _, inner = _parts(predicate)
    ref = weakref.ref(owner)
    if inner is None:
        return predicate
    return _named(_async_method(ref, inner) if awaits else _method(ref, inner), name, code)


@final
class Mention:
    """What `before` or `after` of a weak hook means: the same key, for as long as what is meant is there."""

    __slots__ = ("_inner", "_key", "_ref")

    def __init__(self, meant: Any, key: object) -> None:
        owner, self._inner = _parts(meant)
        try:
            self._ref: Callable[[], Any] = weakref.ref(owner)
        except TypeError:
            self._ref = lambda: owner
        self._key = key

    def __call__(self) -> Any:
        """Give what is meant, or None once that is gone."""
        owner = self._ref()
        return owner if owner is None or self._inner is None else together(owner, self._inner)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mention):
            return self._ref is other._ref and self._key == other._key  # an object has but one plain reference
        return self._key == other and self._ref() is not None

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self())


def _parts(function: Any) -> tuple[Any, Callable[..., Any] | None]:
    """Give what is held, and for a bound method the function that is called with it."""
    if isinstance(function, MethodType):
        return function.__self__, function.__func__
    if isinstance(function, BuiltinMethodType) and not isinstance(function.__self__, (ModuleType, type(None))):
        return _parts_of_c(function)
    return function, None


def _parts_of_c(function: BuiltinMethodType) -> tuple[Any, Callable[..., Any] | None]:
    owner: Any = function.__self__
    # Methods of classes are found in the class itself, those of other objects in their type; a class is both.
    for base in (*(owner.__mro__ if issubclass(type(owner), type) else ()), *type(owner).__mro__):
        found = vars(base).get(function.__name__)
        if isinstance(found, (MethodDescriptorType, ClassMethodDescriptorType)) and together(owner, found) == function:
            return owner, found
    return function, None  # one that a class or a module holds, such as dict.__new__


def together(owner: Any, inner: Any) -> Any:
    """Give the method that these are the parts of; None if they do not fit."""
    if isinstance(inner, ClassMethodDescriptorType):
        return inner.__get__(None, owner) if issubclass(type(owner), type) else None
    if isinstance(inner, MethodDescriptorType):
        return inner.__get__(owner) if isinstance(owner, inner.__objclass__) else None
    return MethodType(inner, owner)


def _named(made: Any, name: str, code: CodeType | None) -> Callable[..., Any]:
    made.__name__ = made.__qualname__ = name
    made.__dict__[CODE] = code
    return made  # type: ignore[no-any-return]


def _method(ref: Callable[[], Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        owner = ref()
        return None if owner is None else inner(owner, *args, **kwargs)

    return call


def _async_method(ref: Callable[[], Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        owner = ref()
        return None if owner is None else await inner(owner, *args, **kwargs)

    return call


def _function(ref: Callable[[], Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        function = ref()
        return None if function is None else function(*args, **kwargs)

    return call
