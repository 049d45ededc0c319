"""Aspects: objects of any class whose marked methods are hooks, woven together; methods without a mark stay out."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getattr_static
from types import FunctionType

from aspecthook._core.law.callables import unwrap
from aspecthook._core.law.hook import Maker
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Options
from aspecthook._errors import WeaveError, brief
from aspecthook._hints import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, Unpack, cast, overload

if TYPE_CHECKING:
    from ._decorators import Decorator, Wrap

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

MARKS = "__aspecthook_marks__"  # the attribute of a function that holds its marks

Method = TypeVar("Method", bound=Callable[..., Any])


class Mark(NamedTuple):
    """One mark on a method: what kind of hook it is, and where."""

    kind: Kind
    pointcut: str | None
    types: tuple[type[BaseException], ...]
    options: Options


class _Decorator(Protocol):
    def __call__(self, method: Method, /) -> Method: ...


class Marker(Protocol):
    """A decorator that marks methods: bare, or with a pointcut and options."""

    @overload
    def __call__(self, method: Method, /) -> Method: ...
    @overload
    def __call__(self, pointcut: str = ..., /, **options: Unpack[Options]) -> _Decorator: ...


class ExceptionMarker(Protocol):
    """The same, with the types of exceptions that the hook takes."""

    @overload
    def __call__(self, method: Method, /) -> Method: ...
    @overload
    def __call__(self, type_: type[BaseException], /, *types: type[BaseException]) -> _Decorator: ...
    @overload
    def __call__(
        self, pointcut: str = ..., /, *types: type[BaseException], **options: Unpack[Options]
    ) -> _Decorator: ...


class AroundMarker(Marker, Protocol):
    """The same; and what makes around hooks of decorators."""

    wrap: Callable[[Decorator], Wrap]


def _marker(kind: Kind, noun: str) -> Any:
    def mark(*args: Any, **options: Unpack[Options]) -> Any:
        pointcut, given = (args[0], args[1:]) if args and isinstance(args[0], str) else (None, args)
        types = tuple([one for one in given if isinstance(one, type) and issubclass(one, BaseException)])
        others = [one for one in given if one not in types]
        if types and kind != "exception":
            raise WeaveError(f"the mark {kind!r} takes no exception types; only 'exception' does")

        def decorate(method: Any) -> Any:
            function = function_of(method)
            if not isinstance(function, (FunctionType, Maker)):
                raise WeaveError(
                    f"{brief(method)} cannot be marked {kind!r}: it is not a method; put the mark on a function"
                )
            # Decorators run from the inside out; marks are read from the top down.
            function.__dict__[MARKS] = (Mark(kind, pointcut, types, options), *marks_of(function))
            return method

        if not others:
            return decorate
        if len(others) > 1 or not callable(unwrap(others[0])) or pointcut is not None or options:
            raise WeaveError(
                f"the mark {kind!r} takes a pointcut, for 'exception' also exception types, and options by name; it "
                f"was given {brief(others[0])}"
            )
        return decorate(others[0])

    mark.__name__ = mark.__qualname__ = kind
    mark.__doc__ = f"""Mark a method of an aspect as {noun}.

    Example:
        >>> from aspecthook import {kind}, weave
        >>> class Audit:
        ...     @{kind}("json:dumps", priority="LOW")
        ...     def note(self, call):
        ...         print(call.function.__name__)
        >>> audit = Audit()  # to be woven with weave(audit)
    """
    return mark


def wrap(decorator: Decorator, /) -> Wrap:
    """Return an around hook made of a decorator: of a retry, a cache, a validator.

    The decorator is applied once for each mount point, to a function with the target's name, signature, annotations and
    docstring. So what it keeps belongs to that mount point, and goes with the hook. ``hook.decorated(f)`` is what it
    has returned for `f`.

    Args:
        decorator: What would stand after the ``@``.

    Raises:
        HookTypeError: When the hook is added: the decorator cannot work on such a target.

    Example:
        >>> from functools import lru_cache
        >>> @hookable
        ... def square(n):
        ...     return n * n
        >>> cache = square.around(around.wrap(lru_cache))
        >>> square(3), square(3), cache.decorated(square).cache_info().hits
        (9, 9, 1)
    """
    from ._decorators import Wrap

    return Wrap(decorator)


pre: Marker = _marker("pre", "a pre hook")
around: AroundMarker = _marker("around", "an around hook")
around.wrap = wrap
on: Marker = _marker("on", "a subscriber of an event; in a plugin, by default of the event with the method's name")
item: Marker = _marker("item", "an item hook, for generators")
exception: ExceptionMarker = _marker("exception", "an exception hook, for the types that are named or for `Exception`")
post: Marker = _marker("post", "a post hook")
always: Marker = _marker("always", "an always hook")


def marks_of(value: Any) -> tuple[Mark, ...]:
    """Return the marks of a function or method, from the top down."""
    function = function_of(value)
    return function.__dict__.get(MARKS, ()) if isinstance(function, (FunctionType, Maker)) else ()


def marked(aspect: object) -> list[tuple[Mark, Callable[..., Any]]]:
    """Return the marked methods of an aspect in the order in which they are written, those of base classes first.

    A hook that is made for each mount point, such as one of `aspecthook.aspects`, is an aspect by itself.
    """
    if isinstance(aspect, Maker):
        return [(Mark(aspect.kind, None, (), {}), aspect)]
    return [
        (mark, getattr(aspect, name))
        for name in attribute_names(aspect)
        for mark in marks_of(getattr_static(aspect, name, None))
    ]


def attribute_names(aspect: object) -> list[str]:
    """Return the names of an aspect's attributes, those of its base classes first."""
    classes = reversed(type(aspect).__mro__[:-1])  # `object` has no marks, and many attributes
    own: dict[str, Any] = getattr(aspect, "__dict__", {})
    return list(dict.fromkeys(name for space in (*map(vars, classes), own) for name in space))


def has_marks(cls: type[Any]) -> bool:
    """Whether a class defines an aspect, of which an instance is to be woven."""
    return any(marks_of(value) for base in cls.__mro__ for value in list(vars(base).values()))


def function_of(value: Any) -> object:
    """Return the function in a method, as `getattr_static` gives it."""
    return unwrap(cast("Any", value).__func__ if isinstance(value, classmethod) else value)
