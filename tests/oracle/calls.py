"""Traced calls that a caller makes in any way: streams that are read in parts, cancelled calls, two calls at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from types import CodeType
from typing import Any, cast

from aspecthook._core.law.order import Chain
from aspecthook._core.mount.hookable import hooks
from aspecthook._core.mount.point import MountPoint
from aspecthook.testing._calls import Given
from aspecthook.testing._steps import Trace
from aspecthook.testing._streams import Resumption
from aspecthook.testing._trace import Begun, held
from aspecthook.testing._trace import begun as begin
from tests.oracle.drives import AT_ONCE, cancelled_after, read_stream
from tests.oracle.streams import finish

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks
_ENDED: Any = object()


def make_call(mount: MountPoint, given: Given, chain: Chain | None = None) -> Trace | Awaitable[Trace]:
    """Make one call with the hooks that act now, or with those of a chain, which then do not count their runs.

    The order of that chain need not be that of law 2. Of two calls that are made at once, the first is returned.
    """
    begun = [begin(mount, given, chain)]
    trace, call = begun[0]
    drive = given.drive.split()
    if given.drive == AT_ONCE:
        begun.append(begin(mount, given, chain))
        trace._beside, drive = begun[1][0], []
    style = mount.site().signature.style
    if style == "coroutine":
        return _awaited_at_once(begun, len(drive))
    if "generator" in style:
        reading = _read_in_turn(begun, drive)
        return reading if style == "async generator" else cast("Trace", finish(reading))
    with held(trace):
        trace.result = call()
    return trace


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


async def _awaited_at_once(begun: list[Begun], turns: int) -> Trace:
    """Await the calls, each in a task of its own if there are several; cancel them after some turns of the loop."""

    async def one(trace: Trace, call: Callable[[], Any]) -> None:
        with held(trace):
            trace.result = await (cancelled_after(call, turns) if turns else call())

    if len(begun) == 1:
        await one(*begun[0])
    else:
        await _at_once([partial(one, *each) for each in begun])
    return begun[0][0]


async def _read_in_turn(begun: list[Begun], drive: Sequence[str]) -> Trace:
    """Read streams to their ends, a step of each in turn; sync ones wait for nothing."""

    async def one(trace: Trace, call: Callable[[], Any]) -> AsyncGenerator[None]:
        def note(how: str, value: object) -> Resumption:
            resumed = Resumption(how, value, trace.steps)
            trace._resumed.append(resumed)
            return resumed

        with held(trace):
            async for _ in read_stream(call(), drive, note):
                yield
            trace.result = [resumed.answer for resumed in trace._resumed if resumed.came == "item"]

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
