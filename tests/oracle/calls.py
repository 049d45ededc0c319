"""Traced calls that a caller makes in any way: streams that are read in parts, cancelled calls, two calls at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from functools import partial
from types import CodeType
from typing import Any

from aspecthook._core.mount.hookable import hooks
from aspecthook._core.mount.point import MountPoint
from aspecthook.testing._calls import Given, values_of
from aspecthook.testing._trace import held, untraced
from tests.oracle.drives import AT_ONCE, cancelled_after, read_stream
from tests.oracle.recording import NotedRecorder, NotedTrace, Resumption

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks
_ENDED: Any = object()
# A trace, and what makes its call. Any: whatever that returns.
Begun = tuple[NotedTrace, Callable[[], Any]]


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
    untraced(mount, given, trace)
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


async def _at_once(jobs: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run jobs concurrently, in a nursery of trio or in a task group of asyncio."""
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        async with trio.open_nursery() as nursery:
            for job in jobs:
                nursery.start_soon(job)
        return
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(job())


async def _awaited_at_once(begun: list[Begun], turns: int) -> NotedTrace:
    """Await the calls, each in a task of its own if there are several; cancel them after some turns of the loop."""

    async def one(trace: NotedTrace, call: Callable[[], Any]) -> None:
        with held(trace):
            trace.result = await (cancelled_after(call, turns) if turns else call())

    if len(begun) == 1:
        await one(*begun[0])
    else:
        await _at_once([partial(one, *each) for each in begun])
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


def attempt(act: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Return what a function returns, and what it raises."""
    try:
        return act(), None
    except BaseException as error:
        return None, error
