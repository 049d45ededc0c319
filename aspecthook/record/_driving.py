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


def _driven(turns: Turns, source: Any) -> Generator[Any, Any, Any]:
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


_awaited: Callable[[Turns, Any], Any] = coroutine(_driven)


async def _driven_coroutine(turns: Turns, source: Any) -> Any:
    """Drive what is awaited; of what is no coroutine, such as a future, there are no turns."""
    return await (_awaited(turns, source) if hasattr(source, "send") else source)


async def _driven_async_generator(turns: Turns, source: Any) -> AsyncGenerator[Any, Any]:
    step: Any = start(source)
    while True:
        try:
            item = await _awaited(turns, step)
        except StopAsyncIteration:
            return
        finally:
            step = None
        try:
            sent = yield item
        except GeneratorExit:
            await _awaited(turns, source.aclose())
            raise
        except BaseException as error:
            step = source.athrow(error)
        else:
            step = source.asend(sent)


# By the style of what is driven.
DRIVES: dict[str, Callable[[Turns, Any], Any]] = {
    "coroutine": _driven_coroutine,
    "generator": _driven,
    "async generator": _driven_async_generator,
}
