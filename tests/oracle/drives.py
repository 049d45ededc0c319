"""How the caller of a stream or of a coroutine function may make a call: read it in parts, close it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

from tests.oracle.guests import MARK, PlannedError
from tests.oracle.recording import CANCEL, CLOSE, NEXT, SEND, THROW, Note, is_astream, resume

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


# How a call may be made by its caller; what is read is then read to its end.
_READINGS = ("next send", "next throw", "next close", "close", "next next send", "next next throw", "next next close")
_DRIVES = {
    "generator": (*_READINGS, "at once"),
    "async generator": (*_READINGS, "cancel", "next cancel", "at once"),
    "coroutine": ("cancel", "wait cancel", "at once"),
}
AT_ONCE = "at once"


def drives_of(style: str) -> list[str]:
    """Return the ways in which a call may be made, the simplest first."""
    return list(_DRIVES.get(style, ()))


async def read_stream(stream: Any, drive: Sequence[str], note: Note) -> AsyncGenerator[None]:
    """Read a stream as `drive` says, and then to its end; yield after each time that it was resumed.

    A sync stream is read without waiting for anything. A step that is cancelled is one of a task of its own.

    Raises:
        BaseException: What comes out of the stream.
    """
    for how in chain(drive, repeat(NEXT)):
        value = PlannedError("thrown") if how == THROW else MARK if how == SEND else None
        resumed = note(how, value)
        answer = None
        try:
            if how == CANCEL:
                answer = await cancelled_after(partial(stream.asend, None), 1)
            else:
                answer = resume(stream, how, value)
                answer = await answer if is_astream(stream) else answer
        except (StopIteration, StopAsyncIteration) as stop:
            resumed.give("end", getattr(stop, "value", None))
            return
        except BaseException as error:
            resumed.give("raised", None, error)
            raise
        resumed.give("end" if how == CLOSE else "item", answer)
        if how == CLOSE:
            return
        yield


# Any: an awaitable of anything.
async def cancelled_after(call: Callable[[], Awaitable[Any]], turns: int) -> Any:
    """Await something in a task that is cancelled after some turns of the event loop, if it still waits then.

    Another event loop than asyncio's waits for it to end.
    """
    came: list[Any] = []
    raised: list[BaseException] = []

    async def settled() -> None:
        try:
            came.append(await call())
        except BaseException as error:  # as it is: a task may make another of it
            raised.append(error)

    if not _is_asyncio():
        return await call()
    task = asyncio.ensure_future(settled())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if raised:
        raise raised[0]
    return came[0]


def _is_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
