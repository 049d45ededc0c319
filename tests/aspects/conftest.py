"""Functions of the four kinds to weave aspects on, and a clock that moves only when it is told to."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any

import pytest


class Clock:
    """A clock in seconds; its `sleep` moves it and returns at once."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.naps: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


class _Jumping(selectors.SelectSelector):
    """Waits for nothing: the loop's time jumps to its next timer instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return super().select(0)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on an asyncio loop whose time jumps."""
    selector = _Jumping()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)


class Targets:
    """Functions of the four kinds, which call `act` first; each is driven by a plain function of the same name."""

    def __init__(self, act: Callable[[int], object] = lambda n: n) -> None:
        self.calls: list[int] = []

        def did(n: int) -> object:
            self.calls.append(n)
            return act(n)

        def function(n: int) -> object:
            return did(n)

        async def coroutine(n: int) -> object:
            await asyncio.sleep(0)
            return did(n)

        def generator(n: int) -> Generator[object, Any, object]:
            yield did(n)
            return n

        async def async_generator(n: int) -> AsyncGenerator[object, Any]:
            await asyncio.sleep(0)
            yield did(n)

        async def first(n: int) -> object:
            items = [item async for item in async_generator(n)]
            return items[0]

        self.all: dict[str, tuple[Any, Callable[[int], object]]] = {
            "function": (function, lambda n: function(n)),
            "coroutine": (coroutine, lambda n: run(coroutine(n))),
            "generator": (generator, lambda n: list(generator(n)).pop()),
            "async generator": (async_generator, lambda n: run(first(n))),
        }


STYLES = ("function", "coroutine", "generator", "async generator")


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)
