"""Driving generators, coroutines and async generators from outside, so that each turn is seen to begin and to end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from types import coroutine

from aspecthook._core.law.streams import start
from aspecthook._hints import Any, Protocol

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class Turns(Protocol):
    """What sees the turns."""

    def enter(self) -> None:
        """Note that a turn begins."""
        ...

    def leave(self) -> None:
        """Note that it ends."""
        ...


def driven(turns: Turns, source: Any) -> Generator[Any, Any, Any]:
    """Drive a generator, or a coroutine, as ``yield from`` does (PEP 380)."""
    step, sent = source.send, None
    while True:
        turns.enter()
        try:
            item = step(sent)
        except StopIteration as stop:
            return stop.value
        finally:
            sent = None  # else the exception that was thrown in and this frame would keep each other alive
            turns.leave()
        try:
            sent = yield item
        except GeneratorExit:
            turns.enter()
            try:
                source.close()
            finally:
                turns.leave()
            raise
        except BaseException as error:
            step, sent = source.throw, error
        else:
            step = source.send


# The same for what is awaited.
awaited: Callable[[Turns, Any], Any] = coroutine(driven)


async def adriven(turns: Turns, source: Any) -> AsyncGenerator[Any, Any]:
    """Drive an async generator."""
    step: Any = start(source)
    while True:
        try:
            item = await awaited(turns, step)
        except StopAsyncIteration:
            return
        finally:
            step = None
        try:
            sent = yield item
        except GeneratorExit:
            await awaited(turns, source.aclose())
            raise
        except BaseException as error:
            step = source.athrow(error)
        else:
            step = source.asend(sent)
