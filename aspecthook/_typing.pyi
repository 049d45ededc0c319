"""What a hookable function is to a type checker; at run time it is the plain function that it was.

The return type of a target (``R``) tells its style, and the result that its hooks see: of a coroutine function what is
awaited, of a generator function what it returns. Each attribute, such as ``pre``, is a descriptor that reads this once,
and returns a decorator, ``Adds[A]``, where ``A`` is all that a hook may answer. A hook with another answer is an error;
on an async generator function this is known of items alone. The decorator returns a function with the hook's own
parameters, whose answer is Any: so one hook may be added to targets with different results.
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
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeAlias, Unpack, final, overload

from typing_extensions import TypeVar, deprecated

from ._core.law.answers import Args, Return
from ._core.law.hook import Maker
from ._core.law.options import Adding
from ._core.mount.point import MountPoint

P = ParamSpec("P")
Q = ParamSpec("Q")  # the parameters of a hook; what it asks for is checked when it is added
A = TypeVar("A")
S = TypeVar("S")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)
# Any: what mypy makes of a method that returns `Self`, which it cannot follow through `__get__`. Without the default it
# would infer Never, and take everything after a call for unreachable.
R = TypeVar("R", default=Any)

AnyHook = TypeVar("AnyHook", bound=Callable[..., object])
Made = TypeVar("Made", bound=Maker)
# Any: the items of a stream say nothing about what it answers.
StreamHook = TypeVar("StreamHook", bound=Callable[..., Iterator[Any]])

# Any: what is sent into a coroutine or a generator concerns it and its caller alone.
Coro: TypeAlias = Coroutine[Any, Any, T]
Gen: TypeAlias = Generator[Any, Any, T]
AsyncGen: TypeAlias = AsyncGenerator[Any, Any]
Streamed: TypeAlias = Exactly[Iterable[Any]] | Exactly[AsyncIterable[Any]]
Unclear: TypeAlias = Exactly[Iterator[Any]] | Exactly[AsyncIterator[Any]] | Exactly[AsyncGen] | Streamed

Types: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]

class Exactly(Generic[R]):
    """``R`` and none of its subtypes: the type variable is invariant."""

# What hooks may answer. Hooks of async targets may be async too, or answer something to be awaited.
Soon: TypeAlias = T | Awaitable[T]
PreAnswer: TypeAlias = Args | Return[T] | None
PostAnswer: TypeAlias = T | Return[T] | None
ExceptAnswer: TypeAlias = Return[T] | None
OneYield: TypeAlias = Generator[Any, Any, T | Return[T] | None]
AroundAnswer: TypeAlias = T | Return[T] | OneYield[T]

class Adds(Generic[A]):
    """``f.pre``, ``f.post`` and ``f.item``: a decorator for hooks that answer ``A``."""

    @overload
    def __call__(self, /, **options: Unpack[Adding]) -> Self: ...
    @overload
    def __call__(self, hook: Callable[Q, A], /, **options: Unpack[Adding]) -> Callable[Q, Any]: ...

class AddsExcept(Generic[A]):
    """``f.exception``: the options of the decorator begin with exception types."""

    @overload
    def __call__(self, /, *types: Types, **options: Unpack[Adding]) -> Self: ...
    @overload
    def __call__(self, hook: Callable[Q, A], /, **options: Unpack[Adding]) -> Callable[Q, Any]: ...

class AddsAround(Generic[A]):
    """``f.around``: a function answers the result or ``Return(result)``, a generator what a post hook may."""

    @overload
    def __call__(self, /, **options: Unpack[Adding]) -> Self: ...
    @overload  # `around.wrap(...)`
    def __call__(self, hook: Made, /, **options: Unpack[Adding]) -> Made: ...
    @overload
    def __call__(self, hook: Callable[Q, A], /, **options: Unpack[Adding]) -> Callable[Q, Any]: ...
    # A generator function with another answer, or one that is not annotated as a generator.
    @overload
    @deprecated("its answer is not known to be a result: annotate Generator[None, Any, what it answers]")
    def __call__(self, hook: StreamHook, /, **options: Unpack[Adding]) -> StreamHook: ...
    @overload  # once more, as mypy has the first one in its messages, and pyright the last one
    def __call__(self, hook: Callable[Q, A], /, **options: Unpack[Adding]) -> Callable[Q, Any]: ...

class Always:
    """``f.always``: a hook may answer anything."""

    @overload
    def __call__(self, /, **options: Unpack[Adding]) -> Self: ...
    @overload
    def __call__(self, hook: AnyHook, /, **options: Unpack[Adding]) -> AnyHook: ...

class On(Always):
    """``e.on``: a subscriber may answer anything, too."""

# The attributes of a target. They have its return type twice: as it is, to find the `Coroutine` in whatever a type
# checker infers for an `async def`, and as `Exactly[R]`, to tell an `Iterator` from a `Generator`, which is one too. A
# target that is annotated with exactly an `Iterator` or the like may be a generator function, or may return an iterator
# that it has, so hooks may answer anything. The overloads look at `self` and not at `target`: if R is Any, mypy would
# take every attribute for Any.

class PreOf(Generic[R_co, E_co]):
    """``pre`` of a target that returns ``R``."""

    @overload
    def __get__(self: PreOf[Any, Unclear], target: object, owner: object, /) -> Adds[Any]: ...
    @overload
    def __get__(self: PreOf[Coro[T], Any], target: object, owner: object, /) -> Adds[Soon[PreAnswer[T]]]: ...
    @overload
    def __get__(self: PreOf[Gen[T], Any], target: object, owner: object, /) -> Adds[PreAnswer[T]]: ...
    @overload
    def __get__(self: PreOf[T, Any], target: object, owner: object, /) -> Adds[PreAnswer[T]]: ...

class AroundOf(Generic[R_co, E_co]):
    """``around`` of a target that returns ``R``."""

    @overload
    def __get__(self: AroundOf[Any, Unclear], target: object, owner: object, /) -> AddsAround[Any]: ...
    @overload  # it may return what `proceed()` returns, without awaiting it
    def __get__(
        self: AroundOf[Coro[T], Any], target: object, owner: object, /
    ) -> AddsAround[Coro[T | Return[T] | Coro[T]] | OneYield[T] | AsyncIterator[Any]]: ...
    @overload  # around generators, a stream and a generator with one `yield` cannot be told apart
    def __get__(
        self: AroundOf[Gen[T], Any], target: object, owner: object, /
    ) -> AddsAround[T | Return[T] | Iterator[Any]]: ...
    @overload
    def __get__(self: AroundOf[T, Any], target: object, owner: object, /) -> AddsAround[AroundAnswer[T]]: ...

class NoGenerator:
    """``f.item`` of what is not a generator function: not callable, as there are no items for hooks."""

class ItemOf(Generic[R_co, E_co]):
    """``item`` of a target that returns ``R``."""

    @overload
    def __get__(self: ItemOf[Any, Streamed], target: object, owner: object, /) -> Adds[Any]: ...
    @overload
    def __get__(self: ItemOf[Iterator[T], Any], target: object, owner: object, /) -> Adds[PostAnswer[T]]: ...
    @overload
    def __get__(self: ItemOf[AsyncIterator[T], Any], target: object, owner: object, /) -> Adds[Soon[PostAnswer[T]]]: ...
    @overload
    def __get__(self: ItemOf[Any, Any], target: object, owner: object, /) -> NoGenerator: ...

class ExceptOf(Generic[R_co, E_co]):
    """``exception`` of a target that returns ``R``."""

    @overload
    def __get__(self: ExceptOf[Any, Unclear], target: object, owner: object, /) -> AddsExcept[Any]: ...
    @overload
    def __get__(
        self: ExceptOf[Coro[T], Any], target: object, owner: object, /
    ) -> AddsExcept[Soon[ExceptAnswer[T]]]: ...
    @overload
    def __get__(self: ExceptOf[Gen[T], Any], target: object, owner: object, /) -> AddsExcept[ExceptAnswer[T]]: ...
    @overload
    def __get__(self: ExceptOf[T, Any], target: object, owner: object, /) -> AddsExcept[ExceptAnswer[T]]: ...

class PostOf(Generic[R_co, E_co]):
    """``post`` of a target that returns ``R``."""

    @overload
    def __get__(self: PostOf[Any, Unclear], target: object, owner: object, /) -> Adds[Any]: ...
    @overload
    def __get__(self: PostOf[Coro[T], Any], target: object, owner: object, /) -> Adds[Soon[PostAnswer[T]]]: ...
    @overload
    def __get__(self: PostOf[Gen[T], Any], target: object, owner: object, /) -> Adds[PostAnswer[T]]: ...
    @overload
    def __get__(self: PostOf[T, Any], target: object, owner: object, /) -> Adds[PostAnswer[T]]: ...

class Mounted(Generic[P, R]):
    """What a hookable function and a bound method of one have in common."""

    __name__: str
    __qualname__: str
    __code__: CodeType
    # Any: defaults are objects of any type.
    __defaults__: tuple[Any, ...] | None
    __kwdefaults__: dict[str, Any] | None

    # The docstrings below are what an editor shows for the attributes.
    pre: PreOf[R, Exactly[R]]
    """Add a hook that runs before the function: ``@f.pre`` or ``@f.pre(priority=...)``.

    It returns None, ``Args(qty=3)`` to replace arguments, or ``Return(value)`` to skip the function. It asks for
    arguments of the call by name.
    """
    around: AroundOf[R, Exactly[R]]
    """Add a hook that runs instead of the function: ``@f.around`` or ``@f.around(priority=...)``.

    It asks for ``proceed``, calls the function with ``proceed()``, and returns the result. Or it is a generator
    function with one ``yield``, at which the function runs.
    """
    item: ItemOf[R, Exactly[R]]
    """Add a hook that runs for each item of a generator: ``@f.item`` or ``@f.item(priority=...)``.

    It asks for ``item``, and returns None or another item.
    """
    exception: ExceptOf[R, Exactly[R]]
    """Add a hook that runs when the function raises: ``@f.exception`` or ``@f.exception(KeyError)``.

    It asks for ``exc``, and returns None to let the exception propagate, or ``Return(value)`` to handle it.
    """
    post: PostOf[R, Exactly[R]]
    """Add a hook that runs after the function has returned: ``@f.post`` or ``@f.post(priority=...)``.

    It asks for ``result``, and returns None or another result.
    """
    always: Always
    """Add a hook that runs when the call ends, however it ends: ``@f.always`` or ``@f.always(priority=...)``.

    It asks for ``result`` and ``exc``, one of which is None. What it returns is ignored.
    """
    hooks: MountPoint
    """The mount point: the hooks of the function, to look at them, to find one by its name, to remove them."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

class Bound(Mounted[P, R]):
    """A bound method whose function is hookable."""

    __self__: object

@final
class Nobody:
    """What no parameter accepts but one that accepts everything, and no function returns but one that returns Any."""

class Hookable(Mounted[P, R]):
    """A hookable function, which the class or the instance that it is taken from binds as far as it is a method.

    Only its first parameter tells whether it is in a classmethod or a staticmethod. Take a staticmethod from the class:
    from an instance, mypy binds it in any case, and pyright if it takes any object.
    """

    # Callable, as mypy compares no first parameters of generic classes. First from a class; then a classmethod.
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[Nobody, ...], object], instance: None, owner: type | None = None, /
    ) -> Hookable[P, R]: ...
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[type[S], Q], T], instance: S | None, owner: type[S], /
    ) -> Bound[Q, T]: ...
    # Any: as above, what mypy makes of a classmethod that returns `Self`.
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[type[Any], Q], object], instance: None, owner: type, /
    ) -> Bound[Q, Any]: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> Self: ...
    # From an instance: a method, a staticmethod.
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
    """Add a subscriber of all instances: ``@e.on`` or ``@e.on(priority=...)``; of one: ``@hooks(instance.e).on``."""

class Event(Mounted[P, R]):
    """An event; ``R`` is what a call returns."""

    on: On
    """Add a subscriber, which runs when the event is called: ``@e.on`` or ``@e.on(priority=...)``.

    It asks for arguments of the call by name. What it returns goes into what the call returns.
    """

    # As above, for what is a method: from the class it is the event of all instances.
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[Nobody, ...], object], instance: None, owner: type | None = None, /
    ) -> Event[P, R]: ...
    @overload
    def __get__(  # type: ignore[misc]
        self: Callable[Concatenate[type[S], Q], T], instance: S | None, owner: type[S], /
    ) -> BoundEvent[Q, T]: ...
    @overload
    def __get__(
        self: Callable[Concatenate[S, Q], T], instance: S, owner: type | None = None, /
    ) -> BoundEvent[Q, T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None, /) -> Self: ...

class ToEvent(Protocol):
    """``event(errors=...)``: a call returns a list of answers.

    The stub is annotated with that list, or with what a subscriber answers; None says that subscribers may answer
    anything.
    """

    @overload
    def __call__(self, stub: Callable[P, Nobody], /) -> Event[P, list[Any]]: ...
    @overload
    def __call__(self, stub: Callable[P, Coro[list[T]]], /) -> Event[P, Coro[list[T]]]: ...
    @overload
    def __call__(self, stub: Callable[P, list[T]], /) -> Event[P, list[T]]: ...
    @overload
    def __call__(self, stub: Callable[P, Coro[R | None]], /) -> Event[P, Coro[list[R]]]: ...
    @overload
    def __call__(self, stub: Callable[P, R | None], /) -> Event[P, list[R]]: ...

class ToAnswer(Protocol):
    """``event(first=True)`` and ``event(fold=...)``: a call returns what the stub is annotated with."""

    @overload
    def __call__(self, stub: Callable[P, Nobody], /) -> Event[P, Any]: ...
    @overload
    def __call__(self, stub: Callable[P, Coro[None]], /) -> Event[P, Coro[Any]]: ...
    @overload
    def __call__(self, stub: Callable[P, None], /) -> Event[P, Any]: ...
    @overload
    def __call__(self, stub: Callable[P, R], /) -> Event[P, R]: ...

# Any: a method is returned as it was, whatever it takes and returns.
Method: TypeAlias = classmethod[Any, ..., Any] | staticmethod[..., Any] | property | cached_property[Any]
Mountable: TypeAlias = Callable[..., object] | Method | MountPoint
AnyClass = TypeVar("AnyClass", bound=type)
AnyMethod = TypeVar("AnyMethod", bound=Method)

class ToHookable(Protocol):
    """``hookable(name=...)``: the decorator for the target."""

    @overload
    def __call__(self, target: AnyClass, /) -> AnyClass: ...
    @overload
    def __call__(self, target: AnyMethod, /) -> AnyMethod: ...
    @overload
    def __call__(self, target: Callable[P, R], /) -> Hookable[P, R]: ...
