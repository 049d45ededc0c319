"""Events whose subscribers run at once, on the event loop that runs us."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from .tally import Tally, cut_off

if TYPE_CHECKING:
    from .answers import Values
    from .call import Call
    from .hook import Hook

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


async def gathered(ask: Callable[..., Any], hooks: tuple[Hook, ...], call: Call, values: Values) -> Any:
    """Await the subscribers of an event all at once; their answers come in the order of the subscribers.

    If one fails, the others are cancelled; or, if failures are grouped, run to their end. `ask` asks one of them.
    """
    tally = Tally(call._site, values)
    answers: dict[Hook, object] = {}
    slips: dict[Hook, Exception] = {}
    left: dict[Hook, BaseException] = {}

    async def one(hook: Hook) -> None:
        try:
            answers[hook] = await ask(hook, call, values=values)
        except Exception as slip:
            tally.slip(slip)
            slips[hook] = slip
        except BaseException as error:
            left[hook] = error
            raise

    try:
        await at_once([partial(one, hook) for hook in hooks])
        tally.slips = [slips[hook] for hook in hooks if hook in slips]
        if left:  # a task group passes over tasks that were cancelled by themselves
            raise cut_off(call._site, [*left.values(), *tally.slips])
        for hook in hooks:
            tally.take(hook, answers.get(hook))
        return tally.close()
    finally:
        tally.slips = []
        slips.clear()
        left.clear()


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
