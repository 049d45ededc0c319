"""Functions of every sort to be copied and pickled, and how hooks come to them."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

from aspecthook import Weaving, event, hookable, hooks, weave

OFFSET = 100


class Made(NamedTuple):
    """A function, and what a call of it, or of what was made of it, gives."""

    function: Any
    use: Callable[[Any], object]
    # How the undecorated function is decorated, if not by `hookable`.
    decorate: Callable[[Any], Any] = hookable


def twice(function: Any) -> object:
    return function(3), function(4)


def plain() -> Made:
    def add(n: int) -> int:
        return n + OFFSET

    return Made(add, twice)


def with_defaults() -> Made:
    def add(n: int, /, m: int = 2, *rest: int, k: int = 5, **more: int) -> object:
        return n, m, rest, k, more

    return Made(add, lambda function: (function(1), function(1, 3, 4, k=6, x=7)))


def with_attributes() -> Made:
    def read(n: int) -> int:
        return n

    read.author, read.tags = "ann", ["a", "b"]
    return Made(read, lambda function: (function(1), function.author, function.tags))


def recursive() -> Made:
    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    return Made(factorial, twice)


def mutual() -> Made:
    def even(n: int) -> bool:
        return n == 0 or odd(n - 1)

    def odd(n: int) -> bool:
        return n != 0 and even(n - 1)

    weave(odd, pre=unpicklable())
    return Made(even, twice)


def counting() -> Made:
    total = 0

    def count(n: int) -> int:
        nonlocal total
        total += n
        return total

    # Each of these begins where the count is when it is made.
    return Made(count, lambda function: function(1) - function(0) + function(2) - function(0))


def wrapping() -> Made:
    def inner(n: int) -> int:
        return n + 1

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    return Made(outer, lambda function: (function(1), function.__wrapped__(2)))


def generator() -> Made:
    def numbers(n: int) -> Iterator[int]:
        yield from range(n)
        return "done"

    return Made(numbers, lambda function: list(function(3)))


def coroutine() -> Made:
    async def later(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    return Made(later, lambda function: asyncio.run(function(1)))


def stream() -> Made:
    async def numbers(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    async def collected(function: Any) -> list[int]:
        return [number async for number in function(3)]

    return Made(numbers, lambda function: asyncio.run(collected(function)))


def stub() -> Made:
    def rang(n: int) -> Any: ...

    return Made(rang, lambda function: function(1) or [], event)


def folding() -> Made:
    def fold(n: int) -> Any:
        return n

    return Made(fold, twice, event(fold="n"))


MAKERS: list[Callable[[], Made]] = [
    plain,
    with_defaults,
    with_attributes,
    recursive,
    mutual,
    counting,
    wrapping,
    generator,
    coroutine,
    stream,
    stub,
    folding,
]


def unpicklable() -> Callable[[], None]:
    """Make a hook that no pickler could send."""
    lock = threading.Lock()

    def hook() -> None:
        with lock:
            pass

    return hook


class Unhashable:
    """A hook that no pickler could send, and no dict could have as a key."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self) -> None:
        with self.lock:
            pass


class Carried(NamedTuple):
    """A way in which hooks are on a function, and how they come off."""

    put: Callable[[Made], None]
    off: Callable[[Made], None]


def decorated(made: Made) -> None:
    if not hasattr(made.function, "hooks"):
        made.decorate(made.function)


def hooked(made: Made) -> None:
    decorated(made)
    made.function.pre(unpicklable())
    made.function.post(Unhashable())
    if made.decorate is not hookable:
        made.function.on(unpicklable())


def called(made: Made) -> None:
    hooked(made)
    made.use(made.function)
    made.use(made.function)


def cleared(made: Made) -> None:
    called(made)
    hooks(made.function).clear()


def paused(made: Made) -> None:
    called(made)
    hooks(made.function).set_paused(hooks(made.function).members, paused=True)


def nothing(made: Made) -> None: ...


def clear(made: Made) -> None:
    hooks(made.function).clear()


_weavings: dict[int, Weaving] = {}


def woven(made: Made) -> None:
    _weavings[id(made.function)] = weave(made.function, pre=unpicklable(), always=unpicklable())


def woven_and_called(made: Made) -> None:
    woven(made)
    made.use(made.function)
    made.use(made.function)


def woven_and_paused(made: Made) -> None:
    woven_and_called(made)
    _weavings[id(made.function)].pause()


def woven_and_removed(made: Made) -> None:
    woven_and_called(made)
    unwoven(made)


def unwoven(made: Made) -> None:
    _weavings.pop(id(made.function)).remove()


def both(made: Made) -> None:
    called(made)
    woven_and_called(made)


def both_off(made: Made) -> None:
    unwoven(made)
    clear(made)


WAYS: dict[str, Carried] = {
    "untouched": Carried(nothing, nothing),
    "decorated": Carried(decorated, clear),
    "hooked": Carried(hooked, clear),
    "called": Carried(called, clear),
    "cleared": Carried(cleared, clear),
    "paused": Carried(paused, clear),
    "woven": Carried(woven, unwoven),
    "woven and called": Carried(woven_and_called, unwoven),
    "woven and paused": Carried(woven_and_paused, unwoven),
    "woven and removed": Carried(woven_and_removed, nothing),
    "both": Carried(both, both_off),
}
