"""Running several things at once, on whichever event loop runs us."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import Any

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


async def at_once(jobs: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run jobs at once, by the structured concurrency of the loop that runs us: asyncio's, or trio's."""
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        async with trio.open_nursery() as nursery:
            for job in jobs:
                nursery.start_soon(job)
        return
    from asyncio import TaskGroup

    async with TaskGroup() as group:
        for job in jobs:
            group.create_task(job())
