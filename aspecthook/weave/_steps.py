"""Streams of which each step is made by a function: in a span, in a turn that is recorded, in limited time.

The invariant: the function is given the step as something to call, with its arguments, and what the stream does is what
the function lets out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from types import coroutine

from aspecthook._core.law.streams import start
from aspecthook._errors import unblamed
from aspecthook._hints import Any, TypeAlias

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# Any: streams of anything. The turn of an async stream is async, and awaits what the step returns.
Turn: TypeAlias = Callable[..., Any]
# Called once, with the result or the exception; with `GeneratorExit` if the stream is left early.
End: TypeAlias = Callable[[Any, BaseException | None], None]


def _ignore(result: Any, exc: BaseException | None) -> None:
    """Do nothing at the end."""


@unblamed
def stepped(source: Any, turn: Turn, end: End = _ignore) -> Generator[Any, Any, Any]:
    """Drive a generator, or a coroutine, as ``yield from`` does (PEP 380)."""
    step, given, result = source.send, None, None
    try:
        while True:
            try:
                item = turn(step, given)
            except StopIteration as stop:
                result = stop.value
                break
            finally:
                given = None  # else the exception that was thrown in and this frame would keep each other alive
            try:
                given = yield item
            except GeneratorExit:
                turn(source.close)
                raise
            except BaseException as error:
                step, given = source.throw, error
            else:
                step = source.send
    except BaseException as exc:
        end(None, exc)
        raise
    end(result, None)
    return result


@unblamed
async def astepped(source: Any, turn: Turn, end: End = _ignore) -> AsyncGenerator[Any, Any]:
    """Drive an async generator, as `stepped` does a generator."""
    step, given = start, source
    try:
        while True:
            try:
                item = await turn(step, given)
            except StopAsyncIteration:
                break
            finally:
                given = None  # for the same reason
            try:
                given = yield item
            except GeneratorExit:
                await turn(source.aclose)
                raise
            except BaseException as error:
                step, given = source.athrow, error
            else:
                step = source.asend
    except BaseException as exc:
        end(None, exc)
        raise
    end(None, None)


# Any: a coroutine, of which each part between two awaits is a step.
awaited: Callable[[Any, Turn], Any] = coroutine(stepped)
