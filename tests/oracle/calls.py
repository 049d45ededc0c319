"""Traced calls that a caller makes in any way: streams that are read in parts, cancelled calls, two calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from functools import partial
from itertools import chain, repeat
from types import CodeType
from typing import Any

from aspecthook._core.mount.hookable import hooks
from aspecthook._core.mount.point import MountPoint
from aspecthook.testing._calls import Given, values_of
from aspecthook.testing._trace import held, untraced
from tests.oracle.guests import MARK, PlannedError
from tests.oracle.recording import (
    CANCEL,
    CLOSE,
    NEXT,
    SEND,
    THROW,
    Note,
    NotedRecorder,
    NotedTrace,
    Resumption,
    is_astream,
    resume,
)

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks
_ENDED: Any = object()
# A trace, and what makes its call. Any: whatever that returns.
Begun = tuple[NotedTrace, Callable[[], Any]]


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
    """Await something in a task that is cancelled after some turns of the event loop, if it still waits then."""
    came: list[Any] = []
    raised: list[BaseException] = []

    async def settled() -> None:
        try:
            came.append(await call())
        except BaseException as error:  # as it is: a task may make another of it
            raised.append(error)

    task = asyncio.ensure_future(settled())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if raised:
        raise raised[0]
    return came[0]


# Any: a trace, or an awaitable of it.
def make_call(mount: MountPoint, given: Given, drive: str = "") -> Any:
    """Make one call with the hooks that act now, and return its trace; of a coroutine function, an awaitable of it.

    ``drive`` says how a stream is read before it is read to its end, or when an awaited call is cancelled; or it is
    `AT_ONCE`, and of two calls that are made at once the first is returned.
    """
    begun = [_begin(mount, given)]
    trace, call = begun[0]
    steps = drive.split()
    if drive == AT_ONCE:
        begun.append(_begin(mount, given))
        trace.beside, steps = begun[1][0], []
    style = mount.site().signature.style
    if style == "coroutine":
        return _awaited_at_once(begun, len(steps))
    if "generator" in style:
        reading = _read_in_turn(begun, steps)
        return reading if style == "async generator" else _finish(reading)
    with held(trace):
        trace.result = call()
    return trace


def _begin(mount: MountPoint, given: Given) -> Begun:
    trace = NotedTrace(mount.name)
    untraced(trace, mount, given)
    trace.values = values_of(mount, given)
    call = NotedRecorder(mount, trace).call_of(None)
    return trace, lambda: call(*given.bound, *given.args, **given.kwargs)


# Any: a coroutine of anything.
def _finish(running: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end without an event loop."""
    try:
        while True:
            running.send(None)
    except StopIteration as stop:
        return stop.value


async def _awaited_at_once(begun: list[Begun], turns: int) -> NotedTrace:
    """Await the calls, each in a task of its own if there are several; cancel them after some turns of the loop."""

    async def one(trace: NotedTrace, call: Callable[[], Any]) -> None:
        with held(trace):
            trace.result = await (cancelled_after(call, turns) if turns else call())

    if len(begun) == 1:
        await one(*begun[0])
    else:
        async with asyncio.TaskGroup() as group:
            for each in begun:
                group.create_task(one(*each))
    return begun[0][0]


async def _read_in_turn(begun: list[Begun], drive: Sequence[str]) -> NotedTrace:
    """Read streams to their ends, a step of each in turn; sync ones wait for nothing."""

    async def one(trace: NotedTrace, call: Callable[[], Any]) -> AsyncGenerator[None]:
        def note(how: str, value: object) -> Resumption:
            resumed = Resumption(how, value, trace.steps)
            trace.resumed.append(resumed)
            return resumed

        with held(trace):
            async for _ in read_stream(call(), drive, note):
                yield
            trace.result = [resumed.answer for resumed in trace.resumed if resumed.came == "item"]

    readings = [one(*each) for each in begun]
    while readings:
        for each in [*readings]:
            if await anext(each, _ENDED) is _ENDED:
                readings.remove(each)
    return begun[0][0]


def code_in(mount: MountPoint) -> CodeType | None:
    """Return the code object that the target has now; None if it has no Python code."""
    return getattr(mount.function, "__code__", None)


def outcome(target: Any, given: Given) -> tuple[object, BaseException | None]:
    """Call a plain function, and return its result and what it raised."""
    function = target if callable(target) else hooks(target).function
    return attempt(lambda: function(*given.args, **given.kwargs))


# Any: a target of any sort, and what waits for anything.
def ended(target: Any, given: Given, style: str, wait_for: Callable[[Any], Any]) -> list[object]:
    """Call a target; return its result or its items, the type of what it raised, and what a sync stream returned."""
    function = target if callable(target) else hooks(target).function
    returned: list[object] = []

    # Any: items of any sort.
    def followed() -> Generator[Any, Any, None]:
        returned.append((yield from function(*given.args, **given.kwargs)))

    async def collected() -> list[object]:
        return [item async for item in function(*given.args, **given.kwargs)]

    ways: dict[str, Callable[[], object]] = {
        "generator": lambda: list(followed()),
        "async generator": lambda: wait_for(collected()),
        "coroutine": lambda: wait_for(function(*given.args, **given.kwargs)),
    }
    result, exc = attempt(ways.get(style, lambda: function(*given.args, **given.kwargs)))
    return [result, type(exc), *returned]


def attempt(act: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Return what a function returns, and what it raises."""
    try:
        return act(), None
    except BaseException as error:
        return None, error
