"""Aspects: objects of any class whose marked methods are hooks, woven together; what is not marked stays out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import getattr_static
from types import FunctionType
from typing import Any, NamedTuple, Protocol, TypeVar, Unpack, cast, overload

from aspecthook._core.law.asks import Kind
from aspecthook._core.law.callables import unwrap
from aspecthook._core.law.options import Options
from aspecthook._errors import WeaveError, brief

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_MARKS = "__aspecthook_marks__"

Method = TypeVar("Method", bound=Callable[..., Any])


class _Decorator(Protocol):
    def __call__(self, method: Method, /) -> Method: ...


class Mark(NamedTuple):
    """One mark on a method: what kind of hook it is, and where."""

    kind: Kind
    pointcut: str | None
    types: tuple[type[BaseException], ...]
    options: Options


class Marked(NamedTuple):
    """A marked method of one aspect, bound to it."""

    mark: Mark
    method: Callable[..., Any]


def _mark(kind: Kind, args: tuple[Any, ...], options: Options) -> Any:
    rest = list(args)
    pointcut = rest.pop(0) if rest and isinstance(rest[0], str) else None
    types = tuple([one for one in rest if isinstance(one, type) and issubclass(one, BaseException)])
    others = [one for one in rest if one not in types]
    if types and kind != "exception":
        raise WeaveError(f"the mark {kind!r} takes no exception types; only 'exception' does")

    def decorate(method: Any) -> Any:
        function = _inside(method)
        if not isinstance(function, FunctionType):
            raise WeaveError(f"{brief(method)} cannot be marked {kind!r}: it is no method; put the mark on a function")
        marks: tuple[Mark, ...] = function.__dict__.get(_MARKS, ())
        # Decorators run from the inside out; marks are read from the top down.
        function.__dict__[_MARKS] = (Mark(kind, pointcut, types, options), *marks)
        return method

    if not others:
        return decorate
    if len(others) > 1 or not callable(unwrap(others[0])) or pointcut is not None or options:
        raise WeaveError(
            f"the mark {kind!r} takes a pointcut, for 'exception' also exception types, and options by name; it was "
            f"given {brief(others[0])}"
        )
    return decorate(others[0])


@overload
def pre(method: Method, /) -> Method: ...
@overload
def pre(pointcut: str = ..., /, **options: Unpack[Options]) -> _Decorator: ...
def pre(*args: Any, **options: Any) -> Any:
    """Mark a method of an aspect as a pre hook.

    Example:
        >>> import json
        >>> from aspecthook import Args, pre, weave
        >>> class Sorted:
        ...     @pre("json:dumps")
        ...     def sort(self):
        ...         return Args(sort_keys=True)
        >>> with weave(Sorted()):
        ...     json.dumps({"b": 1, "a": 2})
        '{"a": 2, "b": 1}'
    """
    return _mark("pre", args, cast("Options", options))


@overload
def around(method: Method, /) -> Method: ...
@overload
def around(pointcut: str = ..., /, **options: Unpack[Options]) -> _Decorator: ...
def around(*args: Any, **options: Any) -> Any:
    """Mark a method of an aspect as an around hook; used as `pre` is.

    Example:
        >>> from aspecthook import around
        >>> class Twice:
        ...     @around("json:dumps")
        ...     def twice(self, proceed):
        ...         return proceed() + proceed()
    """
    return _mark("around", args, cast("Options", options))


@overload
def on(method: Method, /) -> Method: ...
@overload
def on(pointcut: str = ..., /, **options: Unpack[Options]) -> _Decorator: ...
def on(*args: Any, **options: Any) -> Any:
    """Mark a method as a subscriber of an event; used as `pre` is. In a plugin, of the event of the method's own name.

    Example:
        >>> from aspecthook import on
        >>> class Log:
        ...     @on("shop:sold", priority="LOW")
        ...     def note(self, item, price):
        ...         print(item, price)
    """
    return _mark("on", args, cast("Options", options))


@overload
def item(method: Method, /) -> Method: ...
@overload
def item(pointcut: str = ..., /, **options: Unpack[Options]) -> _Decorator: ...
def item(*args: Any, **options: Any) -> Any:
    """Mark a method of an aspect as an item hook, for generators; used as `pre` is.

    Example:
        >>> from aspecthook import item
        >>> class Count:
        ...     seen = 0
        ...
        ...     @item("os:fwalk")
        ...     def count(self):
        ...         self.seen += 1
    """
    return _mark("item", args, cast("Options", options))


@overload
def exception(method: Method, /) -> Method: ...
@overload
def exception(type_: type[BaseException], /, *types: type[BaseException]) -> _Decorator: ...
@overload
def exception(pointcut: str = ..., /, *types: type[BaseException], **options: Unpack[Options]) -> _Decorator: ...
def exception(*args: Any, **options: Any) -> Any:
    """Mark a method of an aspect as an exception hook, for the types that are named or else for `Exception`.

    Example:
        >>> import json
        >>> from aspecthook import Return, exception, weave
        >>> class Lenient:
        ...     @exception("json:loads", json.JSONDecodeError)
        ...     def nothing(self, exc):
        ...         return Return(None)
        >>> with weave(Lenient()):
        ...     print(json.loads("{"))
        None
    """
    return _mark("exception", args, cast("Options", options))


@overload
def post(method: Method, /) -> Method: ...
@overload
def post(pointcut: str = ..., /, **options: Unpack[Options]) -> _Decorator: ...
def post(*args: Any, **options: Any) -> Any:
    """Mark a method of an aspect as a post hook; used as `pre` is.

    Example:
        >>> from aspecthook import post
        >>> class Shout:
        ...     @post("json:dumps", priority="LOW")
        ...     def shout(self, result):
        ...         return result.upper()
    """
    return _mark("post", args, cast("Options", options))


@overload
def always(method: Method, /) -> Method: ...
@overload
def always(pointcut: str = ..., /, **options: Unpack[Options]) -> _Decorator: ...
def always(*args: Any, **options: Any) -> Any:
    """Mark a method of an aspect as an always hook; used as `pre` is.

    Example:
        >>> from aspecthook import always
        >>> class Audit:
        ...     @always("json:dumps")
        ...     def note(self, call, exc):
        ...         print(call.function.__name__, exc)
    """
    return _mark("always", args, cast("Options", options))


def marked(aspect: object) -> list[Marked]:
    """Give the marked methods of an aspect, those of its base classes first, in the order in which they are written."""
    return [Marked(mark, method) for name in _names(aspect) for mark, method in _of(aspect, name)]


def _names(aspect: object) -> list[str]:
    classes = reversed(type(aspect).__mro__[:-1])  # `object` has no marks, and many attributes
    own: dict[str, Any] = getattr(aspect, "__dict__", {})
    return list(dict.fromkeys(name for space in (*map(vars, classes), own) for name in space))


def _of(aspect: object, name: str) -> Iterator[tuple[Mark, Callable[..., Any]]]:
    static = getattr_static(aspect, name, None)
    function = _inside(static)
    marks: tuple[Mark, ...] = getattr(function, "__dict__", {}).get(_MARKS, ()) if callable(function) else ()
    if isinstance(function, FunctionType):
        for mark in marks:
            yield mark, getattr(aspect, name)


def _inside(value: Any) -> object:
    return unwrap(cast("Any", value).__func__ if isinstance(value, classmethod) else value)


def has_marks(cls: type[Any]) -> bool:
    """Say whether a class defines an aspect, which must be made before it is woven."""
    for base in cls.__mro__:
        for value in list(vars(base).values()):
            function = _inside(value)
            if isinstance(function, FunctionType) and _MARKS in function.__dict__:
                return True
    return False
