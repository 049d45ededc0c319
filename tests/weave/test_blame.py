"""A warning is blamed on a line of the program, however many frames of ours lie between a target and its caller."""

from __future__ import annotations

import asyncio
import functools
import itertools
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aspecthook
from aspecthook import HookTypeError, around, weave

OURS = str(Path(aspecthook.__file__).parent)


def warn(level: int) -> None:
    warnings.warn("old", stacklevel=level)


def plain(level: int) -> None:
    warn(level)


def generator(level: int) -> Iterator[int]:
    warn(level)
    yield 1


async def coroutine(level: int) -> None:
    warn(level)


async def async_generator(level: int) -> AsyncIterator[int]:
    warn(level)
    yield 1


class Shop:
    def price(self, level: int) -> None:
        warn(level)


@functools.cache
def cached(level: int, _number: int = 0) -> None:
    warn(level)


async def drain(source: AsyncIterator[int]) -> None:
    async for _ in source:
        pass


shop = Shop()
serial = itertools.count()
TARGETS: dict[str, tuple[Any, Callable[[int], object]]] = {
    "function": (plain, lambda level: plain(level)),
    "generator": (generator, lambda level: list(generator(level))),
    "coroutine": (coroutine, lambda level: asyncio.run(coroutine(level))),
    "async generator": (async_generator, lambda level: asyncio.run(drain(async_generator(level)))),
    "instance": (shop.price, lambda level: shop.price(level)),
    "proxy": (f"{__name__}:cached", lambda level: cached(level, next(serial))),
}


def one_yield() -> Any:
    yield


async def async_one_yield() -> Any:
    yield


def wrapper(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


def proceeds(proceed: Any) -> Any:
    return proceed()


async def aproceeds(proceed: Any) -> Any:
    return await proceed()


def true() -> bool:
    return True


KINDS: dict[str, dict[str, Any]] = {
    "pre, post": {"pre": lambda: None, "post": lambda: None, "always": lambda: None, "exception": lambda: None},
    "in a context": {"pre": lambda: None, "scope": "context"},
    "one yield": {"around": one_yield},
    "two of one yield": {"around": [one_yield, lambda: (yield)]},
    "one yield, guarded": {"around": one_yield, "when": true, "reentrant": False, "times": 5},
    "async one yield": {"around": async_one_yield},
    "proceed": {"around": proceeds},
    "async proceed": {"around": aproceeds},
    "proceed, guarded": {"around": proceeds, "when": true, "reentrant": False},
    "wrap": {"around": around.wrap(wrapper)},
    "item": {"item": lambda item: item},
    "item, guarded": {"item": lambda item: item, "when": true, "around": one_yield},
}


@pytest.mark.parametrize("given", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(("target", "call"), TARGETS.values(), ids=TARGETS)
def test_no_line_of_ours_is_blamed(target: Any, call: Callable[[int], object], given: dict[str, Any]) -> None:
    # Around a generator, a warning two frames below it was blamed on a line of `streams.py`.
    try:
        weaving = weave(target, **given)
    except HookTypeError:
        return  # a kind that this target does not take
    with weaving:
        for level in (1, 2, 3, 4):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call(level)
            (blamed,) = [one.filename for one in caught]
            assert not blamed.startswith((OURS, "<"))
