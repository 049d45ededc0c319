"""What a hookable function is to a type checker; at run time it is the plain function that it was.

A hook is given back as it was given, so each form of answer is an overload of its own (None; a new value; ``Return``;
both), with a sync and an async edition where the target awaits its hooks. An answer that fits none of them is an error.
(One whose signature mentions ``Any`` fits several: mypy checks its answer, and gives back a function of anything.)

What a target gives (``R``) tells what its hooks see. A coroutine function's hooks see what is awaited, a generator
function's what it returns, an async generator's None. A function annotated with ``Iterator`` or ``Iterable`` may be
a generator function or may just give an iterator, which is not to be known from outside: there any answer is taken.

The classes of hooks take ``R`` twice: as it is, to find the ``Coroutine`` in whatever an ``async def`` is said to give,
and as ``Exactly[R]``, to tell an ``Iterator`` from a ``Generator``, which is an ``Iterator`` too.
"""

# Overloads overlap on purpose: the first that fits is the most exact one. tests/typing reaches each of them.
# mypy: disable-error-code="overload-overlap, overload-cannot-match"
# pyright: reportOverlappingOverload=false

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from functools import cached_property
from types import CodeType
from typing import Any, Concatenate, Generic, Never, ParamSpec, Protocol, Self, TypeAlias, Unpack, final, overload

from typing_extensions import TypeVar, deprecated

from ._core.law.answers import Args, Return
from ._core.law.options import Adding
from ._core.mount.point import MountPoint
from .events._history import History

P = ParamSpec("P")
Q = ParamSpec("Q")  # the parameters of a hook; what it asks for is checked when it is added
S = TypeVar("S")
T = TypeVar("T")
Y = TypeVar("Y")
Z = TypeVar("Z")
# Any: what mypy makes of a method that gives `Self`, which it cannot follow through `__get__`; else it would say Never,
# and take all that comes after a call for unreachable.
R = TypeVar("R", default=Any)
R_co = TypeVar("R_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)

# What an answer may be besides; their names are what an error message shows. Never: nothing else.
OrNone = TypeVar("OrNone", bound=None, default=Never)
ArgsOrNone = TypeVar("ArgsOrNone", bound=Args | None, default=Never)

# Any: which items a stream yields tells nothing of what it answers.
AnyHook = TypeVar("AnyHook", bound=Callable[..., object])
StreamHook = TypeVar("StreamHook", bound=Callable[..., Iterator[Any]])
AsyncStreamHook = TypeVar("AsyncStreamHook", bound=Callable[..., AsyncIterator[Any]])

# Any: what goes through a coroutine or a generator on its way is between it and its caller.
Coro: TypeAlias = Coroutine[Any, Any, T]
Gen: TypeAlias = Generator[Any, Any, T]
AsyncGen: TypeAlias = AsyncGenerator[Any, Any]
Streamed: TypeAlias = Exactly[Iterable[Any]] | Exactly[AsyncIterable[Any]]
Unclear: TypeAlias = Exactly[Iterator[Any]] | Exactly[AsyncIterator[Any]] | Streamed

Hook: TypeAlias = Callable[Q, T]
AsyncHook: TypeAlias = Callable[Q, Coroutine[Any, Any, T]]
YieldHook: TypeAlias = Callable[Q, Generator[Y, Z, T]]
Types: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]

class Exactly(Generic[R]):
    """``R`` and none of its subtypes: the type variable is invariant."""

class Pre(Generic[R_co, E_co]):
    """``f.pre``: a hook answers None, ``Args(...)`` or ``Return(value)``."""

    @overload
    def __call__(self, /, **options: Unpack[Adding]) -> Self: ...
    @overload
    def __call__(self, hook: Hook[Q, ArgsOrNone], /, **options: Unpack[Adding]) -> Hook[Q, ArgsOrNone]: ...
    # It may be a generator function or not.
    @overload
    def __call__(self: Pre[Any, Unclear], hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...
    # Functions.
    @overload
    def __call__(
        self: Pre[T, Any], hook: Hook[Q, Return[T] | ArgsOrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | ArgsOrNone]: ...
    # Generator functions.
    @overload
    def __call__(
        self: Pre[Gen[T], Any], hook: Hook[Q, Return[T] | ArgsOrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | ArgsOrNone]: ...
    # Coroutine functions.
    @overload
    def __call__(
        self: Pre[Coro[T], Any], hook: AsyncHook[Q, ArgsOrNone], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, ArgsOrNone]: ...
    @overload
    def __call__(
        self: Pre[Coro[T], Any], hook: AsyncHook[Q, Return[T] | ArgsOrNone], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, Return[T] | ArgsOrNone]: ...
    @overload
    def __call__(
        self: Pre[Coro[T], Any], hook: Hook[Q, Awaitable[Args | Return[T] | None]], /, **options: Unpack[Adding]
    ) -> Hook[Q, Awaitable[Args | Return[T] | None]]: ...
    @overload
    def __call__(
        self: Pre[Coro[T], Any], hook: Hook[Q, Return[T] | ArgsOrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | ArgsOrNone]: ...
    # Async generator functions.
    @overload
    def __call__(
        self: Pre[AsyncGen, Any], hook: AsyncHook[Q, ArgsOrNone], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, ArgsOrNone]: ...
    @overload
    def __call__(
        self: Pre[AsyncGen, Any], hook: AsyncHook[Q, Return[None] | ArgsOrNone], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, Return[None] | ArgsOrNone]: ...
    @overload
    def __call__(
        self: Pre[AsyncGen, Any], hook: Hook[Q, Return[None] | ArgsOrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[None] | ArgsOrNone]: ...

class Post(Generic[R_co, E_co]):
    """``f.post``: a hook answers None, the new result or ``Return(result)``."""

    @overload
    def __call__(self, /, **options: Unpack[Adding]) -> Self: ...
    # It may be a generator function or not.
    @overload
    def __call__(self: Post[Any, Unclear], hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...
    # Generator functions; what mypy shows of it comes first.
    @overload
    def __call__(self: Post[Gen[T], Any], hook: Hook[Q, T], /, **options: Unpack[Adding]) -> Hook[Q, T]: ...
    # Functions.
    @overload
    def __call__(self: Post[T, Any], hook: Hook[Q, T], /, **options: Unpack[Adding]) -> Hook[Q, T]: ...
    @overload
    def __call__(self: Post[T, Any], hook: Hook[Q, None], /, **options: Unpack[Adding]) -> Hook[Q, None]: ...
    @overload
    def __call__(self: Post[T, Any], hook: Hook[Q, T | None], /, **options: Unpack[Adding]) -> Hook[Q, T | None]: ...
    @overload
    def __call__(
        self: Post[T, Any], hook: Hook[Q, Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Post[T, Any], hook: Hook[Q, T | Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | Return[T] | OrNone]: ...
    # Generator functions.
    @overload
    def __call__(
        self: Post[Gen[T], Any], hook: Hook[Q, T | None], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | None]: ...
    @overload
    def __call__(
        self: Post[Gen[T], Any], hook: Hook[Q, Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Post[Gen[T], Any], hook: Hook[Q, T | Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | Return[T] | OrNone]: ...
    # Coroutine functions.
    @overload
    def __call__(
        self: Post[Coro[T], Any], hook: AsyncHook[Q, None], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, None]: ...
    @overload
    def __call__(
        self: Post[Coro[T], Any], hook: AsyncHook[Q, T | None], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, T | None]: ...
    @overload
    def __call__(
        self: Post[Coro[T], Any], hook: AsyncHook[Q, Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Post[Coro[T], Any], hook: AsyncHook[Q, T | Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, T | Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Post[Coro[T], Any], hook: Hook[Q, Awaitable[T | Return[T] | None]], /, **options: Unpack[Adding]
    ) -> Hook[Q, Awaitable[T | Return[T] | None]]: ...
    @overload
    def __call__(self: Post[Coro[T], Any], hook: Hook[Q, T], /, **options: Unpack[Adding]) -> Hook[Q, T]: ...
    @overload
    def __call__(
        self: Post[Coro[T], Any], hook: Hook[Q, T | None], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | None]: ...
    @overload
    def __call__(
        self: Post[Coro[T], Any], hook: Hook[Q, Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Post[Coro[T], Any], hook: Hook[Q, T | Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | Return[T] | OrNone]: ...
    # Async generator functions, which give nothing that could be replaced.
    @overload
    def __call__(
        self: Post[AsyncGen, Any], hook: AsyncHook[Q, None], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, None]: ...

class Except(Generic[R_co, E_co]):
    """``f.exception``: a hook answers None or ``Return(value)``."""

    @overload
    def __call__(self, /, *types: Types, **options: Unpack[Adding]) -> Self: ...
    # It may be a generator function or not.
    @overload
    def __call__(self: Except[Any, Unclear], hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...
    # Generator and coroutine functions; what mypy shows of them comes first.
    @overload
    def __call__(
        self: Except[Gen[T], Any], hook: Hook[Q, Return[T]], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T]]: ...
    @overload
    def __call__(
        self: Except[Coro[T], Any], hook: AsyncHook[Q, Return[T]], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, Return[T]]: ...
    # Functions.
    @overload
    def __call__(
        self: Except[T, Any], hook: Hook[Q, Return[T]], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T]]: ...
    @overload
    def __call__(self: Except[T, Any], hook: Hook[Q, None], /, **options: Unpack[Adding]) -> Hook[Q, None]: ...
    @overload
    def __call__(
        self: Except[T, Any], hook: Hook[Q, Return[T] | None], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | None]: ...
    # Generator functions.
    @overload
    def __call__(
        self: Except[Gen[T], Any], hook: Hook[Q, Return[T] | None], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | None]: ...
    # Coroutine functions.
    @overload
    def __call__(
        self: Except[Coro[T], Any], hook: AsyncHook[Q, None], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, None]: ...
    @overload
    def __call__(
        self: Except[Coro[T], Any], hook: AsyncHook[Q, Return[T] | None], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, Return[T] | None]: ...
    @overload
    def __call__(
        self: Except[Coro[T], Any], hook: Hook[Q, Awaitable[Return[T] | None]], /, **options: Unpack[Adding]
    ) -> Hook[Q, Awaitable[Return[T] | None]]: ...
    @overload
    def __call__(
        self: Except[Coro[T], Any], hook: Hook[Q, Return[T]], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T]]: ...
    @overload
    def __call__(
        self: Except[Coro[T], Any], hook: Hook[Q, Return[T] | None], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | None]: ...
    # Async generator functions.
    @overload
    def __call__(
        self: Except[AsyncGen, Any], hook: AsyncHook[Q, None], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, None]: ...
    @overload
    def __call__(
        self: Except[AsyncGen, Any], hook: AsyncHook[Q, Return[None] | OrNone], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, Return[None] | OrNone]: ...
    @overload
    def __call__(
        self: Except[AsyncGen, Any], hook: Hook[Q, Return[None] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[None] | OrNone]: ...

class Around(Generic[R_co, E_co]):
    """``f.around``: a function answers the result or ``Return(result)``, a generator what a post hook may."""

    @overload
    def __call__(self, /, **options: Unpack[Adding]) -> Self: ...
    # It may be a generator function or not.
    @overload
    def __call__(self: Around[Any, Unclear], hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...
    # Generator functions. A stream and a generator with one `yield` cannot be told apart.
    @overload
    def __call__(self: Around[Gen[T], Any], hook: Hook[Q, T], /, **options: Unpack[Adding]) -> Hook[Q, T]: ...
    @overload
    def __call__(
        self: Around[Gen[T], Any], hook: Hook[Q, Return[T]], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T]]: ...
    @overload
    def __call__(
        self: Around[Gen[T], Any], hook: Hook[Q, T | Return[T]], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | Return[T]]: ...
    @overload
    def __call__(self: Around[Gen[T], Any], hook: StreamHook, /, **options: Unpack[Adding]) -> StreamHook: ...
    # Functions.
    @overload
    def __call__(self: Around[T, Any], hook: Hook[Q, T], /, **options: Unpack[Adding]) -> Hook[Q, T]: ...
    @overload
    def __call__(
        self: Around[T, Any], hook: Hook[Q, Return[T]], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T]]: ...
    @overload
    def __call__(
        self: Around[T, Any], hook: YieldHook[Q, Y, Z, None], /, **options: Unpack[Adding]
    ) -> YieldHook[Q, Y, Z, None]: ...
    @overload
    def __call__(
        self: Around[T, Any], hook: YieldHook[Q, Y, Z, T | Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> YieldHook[Q, Y, Z, T | Return[T] | OrNone]: ...
    # Coroutine functions.
    @overload
    def __call__(
        self: Around[Coro[T], Any], hook: AsyncHook[Q, Return[T]], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, Return[T]]: ...
    @overload
    def __call__(
        self: Around[Coro[T], Any], hook: AsyncHook[Q, T | Return[T]], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, T | Return[T]]: ...
    @overload
    def __call__(
        self: Around[Coro[T], Any], hook: YieldHook[Q, Y, Z, T | Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> YieldHook[Q, Y, Z, T | Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Around[Coro[T], Any], hook: AsyncStreamHook, /, **options: Unpack[Adding]
    ) -> AsyncStreamHook: ...
    # One that hands on what `proceed()` gives.
    @overload
    def __call__(
        self: Around[Coro[T], Any], hook: AsyncHook[Q, T | Return[T] | Coro[T]], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, T | Return[T] | Coro[T]]: ...
    # Async generator functions: streams and generators with one `yield`.
    @overload
    def __call__(
        self: Around[AsyncGen, Any], hook: AsyncStreamHook, /, **options: Unpack[Adding]
    ) -> AsyncStreamHook: ...
    @overload
    def __call__(self: Around[AsyncGen, Any], hook: StreamHook, /, **options: Unpack[Adding]) -> StreamHook: ...
    # Only a generator function that answers something else, or that is not said to be one, comes as far as here.
    @overload
    @deprecated("its answer is not known to be a result: annotate Generator[None, Any, what it answers]")
    def __call__(self, hook: StreamHook, /, **options: Unpack[Adding]) -> StreamHook: ...
    # Functions again: what pyright shows comes last.
    @overload
    def __call__(
        self: Around[T, Any], hook: Hook[Q, T | Return[T]], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | Return[T]]: ...

class Item(Generic[R_co, E_co]):
    """``f.item``: a hook answers None, the item to yield instead or ``Return(item)``."""

    @overload
    def __call__(
        self: Item[Iterator[Any], Any] | Item[AsyncIterator[Any], Any] | Item[Any, Streamed],
        /,
        **options: Unpack[Adding],
    ) -> Item[R_co, E_co]: ...
    # It may be a generator function or not.
    @overload
    def __call__(self: Item[Any, Streamed], hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...
    # Generator functions.
    @overload
    def __call__(self: Item[Iterator[T], Any], hook: Hook[Q, T], /, **options: Unpack[Adding]) -> Hook[Q, T]: ...
    @overload
    def __call__(self: Item[Iterator[T], Any], hook: Hook[Q, None], /, **options: Unpack[Adding]) -> Hook[Q, None]: ...
    @overload
    def __call__(
        self: Item[Iterator[T], Any], hook: Hook[Q, T | None], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | None]: ...
    @overload
    def __call__(
        self: Item[Iterator[T], Any], hook: Hook[Q, Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Item[Iterator[T], Any], hook: Hook[Q, T | Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | Return[T] | OrNone]: ...
    # Async generator functions.
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: AsyncHook[Q, T], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, T]: ...
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: AsyncHook[Q, None], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, None]: ...
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: AsyncHook[Q, T | None], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, T | None]: ...
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: AsyncHook[Q, Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: AsyncHook[Q, T | Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> AsyncHook[Q, T | Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: Hook[Q, Awaitable[T | Return[T] | None]], /, **options: Unpack[Adding]
    ) -> Hook[Q, Awaitable[T | Return[T] | None]]: ...
    @overload
    def __call__(self: Item[AsyncIterator[T], Any], hook: Hook[Q, T], /, **options: Unpack[Adding]) -> Hook[Q, T]: ...
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: Hook[Q, None], /, **options: Unpack[Adding]
    ) -> Hook[Q, None]: ...
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: Hook[Q, T | None], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | None]: ...
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: Hook[Q, Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, Return[T] | OrNone]: ...
    @overload
    def __call__(
        self: Item[AsyncIterator[T], Any], hook: Hook[Q, T | Return[T] | OrNone], /, **options: Unpack[Adding]
    ) -> Hook[Q, T | Return[T] | OrNone]: ...

class Always:
    """``f.always``: what a hook answers is ignored."""

    @overload
    def __call__(self, /, **options: Unpack[Adding]) -> Self: ...
    @overload
    def __call__(self, hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...

class On:
    """``e.on``: a subscriber answers None, an answer or ``Return(answer)``."""

    @overload
    def __call__(self, /, **options: Unpack[Adding]) -> Self: ...
    @overload
    def __call__(self, hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...

class Mounted(Generic[P, R]):
    """What a hookable function and a bound method of one have in common."""

    __name__: str
    __qualname__: str
    __code__: CodeType
    # Any: defaults are objects of any type.
    __defaults__: tuple[Any, ...] | None
    __kwdefaults__: dict[str, Any] | None

    pre: Pre[R, Exactly[R]]
    around: Around[R, Exactly[R]]
    item: Item[R, Exactly[R]]
    exception: Except[R, Exactly[R]]
    post: Post[R, Exactly[R]]
    always: Always
    hooks: MountPoint

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

class Bound(Mounted[P, R]):
    """A bound method whose function is hookable."""

    __self__: object

@final
class Nobody:
    """What nothing accepts but a parameter that accepts everything."""

class Hookable(Mounted[P, R]):
    """A hookable function, which the class or the instance that it is taken from binds as far as it is a method.

    Whether it is in a classmethod or a staticmethod is not said, only its first parameter can tell. A staticmethod is
    best taken from the class: from an instance, mypy binds it in any case, and pyright if it takes any object.
    """

    # From a class. Callable, as mypy compares no first parameters of generic classes.
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[Nobody, ...], object], instance: None, owner: type | None = None, /
    ) -> Hookable[P, R]: ...
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[type[S], Q], T], instance: None, owner: type[S], /
    ) -> Bound[Q, T]: ...
    # Any: as above, what mypy makes of a classmethod that gives `Self`.
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[type[Any], Q], object], instance: None, owner: type, /
    ) -> Bound[Q, Any]: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> Self: ...
    # From an instance: a classmethod, a method, a staticmethod.
    @overload
    def __get__(
        self: Hookable[Concatenate[type[S], Q], T], instance: S, owner: type | None = None, /
    ) -> Bound[Q, T]: ...
    @overload
    def __get__(self: Hookable[Concatenate[S, Q], T], instance: S, owner: type | None = None, /) -> Bound[Q, T]: ...
    @overload
    def __get__(
        self: Hookable[Concatenate[S, Q], T], instance: object, owner: type | None = None, /
    ) -> Hookable[Concatenate[S, Q], T]: ...
    @overload
    def __get__(self: Hookable[[], T], instance: object, owner: type | None = None, /) -> Hookable[[], T]: ...

class BoundEvent(Bound[P, R]):
    """An event that is bound as a method is; its subscribers are still those of all instances."""

    on: On

class Event(Mounted[P, R]):
    """An event. Its call gives a list of answers; or, if it gives the first or folds, what its stub is said to give."""

    on: On
    history: History

    # As above, for what is a method: from the class it is the event of all instances.
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[Nobody, ...], object], instance: None, owner: type | None = None, /
    ) -> Event[P, R]: ...
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[type[S], Q], T], instance: None, owner: type[S], /
    ) -> BoundEvent[Q, T]: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> Self: ...
    @overload
    def __get__(
        self: Event[Concatenate[type[S], Q], T], instance: S, owner: type | None = None, /
    ) -> BoundEvent[Q, T]: ...
    @overload
    def __get__(self: Event[Concatenate[S, Q], T], instance: S, owner: type | None = None, /) -> BoundEvent[Q, T]: ...
    @overload
    def __get__(
        self: Event[Concatenate[S, Q], T], instance: object, owner: type | None = None, /
    ) -> Event[Concatenate[S, Q], T]: ...
    @overload
    def __get__(self: Event[[], T], instance: object, owner: type | None = None, /) -> Event[[], T]: ...

class ToEvent(Protocol):
    """``event(errors=...)``: the decorator that is still to be given its stub."""

    @overload
    def __call__(self, stub: Callable[P, Coro[None]], /) -> Event[P, Coro[list[Any]]]: ...
    @overload
    def __call__(self, stub: Callable[P, None], /) -> Event[P, list[Any]]: ...
    @overload
    def __call__(self, stub: Callable[P, R], /) -> Event[P, R]: ...

class ToAnswer(Protocol):
    """``event(first=True)`` and ``event(fold=...)``: a call gives what the stub is said to give."""

    @overload
    def __call__(self, stub: Callable[P, Coro[None]], /) -> Event[P, Coro[Any]]: ...
    @overload
    def __call__(self, stub: Callable[P, None], /) -> Event[P, Any]: ...
    @overload
    def __call__(self, stub: Callable[P, R], /) -> Event[P, R]: ...

# Any: whatever a method takes and gives, it is given back as it was.
Method: TypeAlias = classmethod[Any, ..., Any] | staticmethod[..., Any] | property | cached_property[Any]
Mountable: TypeAlias = Callable[..., object] | Method | MountPoint
AnyClass = TypeVar("AnyClass", bound=type)
AnyMethod = TypeVar("AnyMethod", bound=Method)

class ToHookable(Protocol):
    """``hookable(name=...)`` and ``hookable(only=...)``: the decorator that is still to be given its target."""

    @overload
    def __call__(self, target: AnyClass, /) -> AnyClass: ...
    @overload
    def __call__(self, target: AnyMethod, /) -> AnyMethod: ...
    @overload
    def __call__(self, target: Callable[P, R], /) -> Hookable[P, R]: ...
