"""The hooks of a coroutine function see and answer what is awaited, and may be sync or async themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import assert_type

import pytest

from aspecthook import Args, HookTypeError, Return, hookable


@hookable
async def fetch(item: str, qty: int = 1) -> float:
    if not item:
        raise KeyError(item)
    return qty * 2.0


async def calls() -> None:
    assert_type(await fetch("tea"), float)
    await fetch(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def is_a_coroutine(call: Coroutine[object, object, float]) -> None:
    call.close()


is_a_coroutine(fetch("tea"))


# Sync hooks


@fetch.pre
def at_least_one(qty: int) -> Args:
    return Args(qty=max(qty, 1))


@fetch.pre
def free(item: str) -> Return[float] | Args | None:
    return Return(0.0) if item == "air" else None


@fetch.post
def note(result: float) -> None:
    assert result >= 0


@fetch.post
def double(result: float) -> float:
    return result * 2


@fetch.exception(KeyError)
def unknown(exc: KeyError) -> Return[float]:
    return Return(-1.0)


assert asyncio.run(fetch("tea", 6)) == 24.0
assert asyncio.run(fetch("")) == -1.0
assert asyncio.run(fetch("air")) == -1.0 + 1.0
fetch.hooks.clear()


# Async hooks


@fetch.pre
async def later_at_least_one(qty: int) -> Args:
    return Args(qty=max(qty, 1))


@fetch.post
async def later_double(result: float) -> float:
    return result * 2


@fetch.always
async def close(exc: BaseException | None) -> None:
    pass


assert asyncio.run(fetch("tea", 6)) == 24.0
fetch.hooks.clear()


# Sync hooks that answer something to be awaited


async def nothing() -> Return[float] | None:
    return None


@fetch.pre
def soon_free() -> Awaitable[Args | Return[float] | None]:
    return nothing()


assert asyncio.run(fetch("tea", 6)) == 12.0
fetch.hooks.clear()


# Around hooks: what `proceed()` gives is awaited.


@fetch.around
async def twice(proceed: Callable[[], Awaitable[float]]) -> float:
    return await proceed() + await proceed()


@fetch.around
async def as_needed(proceed: Callable[[], Awaitable[float]], qty: int) -> float | Return[float]:
    return await proceed() if qty else Return(0.0)


@fetch.around
def watched() -> Generator[None, float, None]:
    result = yield
    assert result >= 0


@fetch.around
def one_more() -> Generator[None, float, float | None]:
    result = yield
    return result + 1


@fetch.around
async def held() -> AsyncGenerator[None, float]:
    yield


def plain_number(proceed: Callable[[], Awaitable[float]]) -> float:
    return 1.0


def text_or_more(proceed: Callable[[], Awaitable[float]]) -> Awaitable[str]:
    raise NotImplementedError


async def later_text(proceed: Callable[[], Awaitable[float]]) -> str:
    return ""


def generator_of_text() -> Generator[None, float, str]:
    yield
    return ""


assert asyncio.run(fetch("tea")) == 6.0
with pytest.raises(HookTypeError):  # a sync hook that asks for `proceed`
    fetch.around(plain_number)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
with pytest.raises(HookTypeError):
    fetch.around(text_or_more)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
fetch.around(later_text)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
fetch.around(generator_of_text)  # type: ignore[deprecated]  # pyright: ignore[reportDeprecated]
