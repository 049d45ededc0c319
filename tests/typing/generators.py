"""A generator function: item hooks see what it yields, post hooks what it returns; an async one returns nothing."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
)
from typing import assert_type

from aspecthook import Args, Return, hookable


@hookable
def count(upto: int) -> Generator[int, str, float]:
    yield from range(upto)
    return float(upto)


assert_type(count(3), Generator[int, str, float])
assert_type(next(count(3)), int)


def run(stream: Generator[int, str, float]) -> tuple[list[int], float]:
    items: list[int] = []
    try:
        while True:
            items.append(next(stream))
    except StopIteration as stop:
        result: float = stop.value
        return items, result


@count.pre
def at_least_one(upto: int) -> Args | None:
    return Args(upto=1) if upto < 1 else None


@count.pre
def nothing_at_all(upto: int) -> Return[float] | None:
    return Return(7.0) if upto > 100 else None


@count.item
def doubled(item: int) -> int:
    return item * 2


@count.post
def one_more(result: float) -> float:
    return result + 1


@count.exception
def maybe_handled(exc: Exception) -> Return[float] | None:
    return None


assert run(count(3)) == ([0, 2, 4], 4.0)
assert run(count(101)) == ([], 8.0)
count.hooks.clear()


# Around hooks of a generator function: a stream, one `yield`, or the return value alone.


@count.around
def stream(proceed: Callable[[], Generator[int, str, float]]) -> Generator[int, str, float]:
    return (yield from proceed())


@count.around
def one_yield() -> Generator[None, float, float]:
    result = yield
    return result + 1


assert run(count(2)) == ([0, 1], 3.0)


@count.around(priority="HIGHEST")
def none_of_it(proceed: Callable[[], Generator[int, str, float]]) -> float:
    return -1.0


def other_than_the_rest(proceed: Callable[[], Generator[int, str, float]]) -> str:
    return ""


count.around(other_than_the_rest)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
assert run(count(2)) == ([], -1.0)


# Annotated with Iterator: it may also be a plain function, so that post hooks may answer anything.


@hookable
def letters(word: str) -> Iterator[str]:
    yield from word


@letters.item
def upper(item: str) -> str:
    return item.upper()


@letters.post
def ended(result: None) -> None:
    assert result is None


@letters.pre
def none_at_all(word: str) -> Return[None] | None:
    return None


@letters.around
def one_yield_too() -> Iterator[None]:
    yield


def other_letter(item: str) -> int:
    return 3


assert list(letters("ab")) == ["A", "B"]
letters.item(other_letter)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# Async generators


@hookable
async def watch(upto: int) -> AsyncGenerator[int]:
    for number in range(upto):
        yield number


@hookable
async def follow(upto: int) -> AsyncIterator[int]:
    for number in range(upto):
        yield number


@watch.pre
async def later_at_least_one(upto: int) -> Args | None:
    return Args(upto=max(upto, 1))


@watch.pre
async def later_nothing(upto: int) -> Return[None] | None:
    return Return(None) if upto > 100 else None


@watch.post
async def later_ended() -> None:
    pass


@watch.exception
async def later_failed(exc: Exception) -> Return[None] | None:
    return None


@watch.item
async def later_double(item: int) -> int:
    return item * 2


@follow.item
def more(item: int) -> int:
    return item + 1


@watch.around
async def astream(proceed: Callable[[], AsyncGenerator[int]]) -> AsyncGenerator[int]:
    async for item in proceed():
        yield item


@watch.around
async def async_one_yield() -> AsyncIterator[None]:
    yield


@watch.around
def sync_one_yield() -> Iterator[None]:
    yield


async def all_of(items: AsyncIterable[int]) -> list[int]:
    return [item async for item in items]


assert asyncio.run(all_of(watch(3))) == [0, 2, 4]
assert asyncio.run(all_of(follow(3))) == [1, 2, 3]
