"""Events whose subscribers run concurrently, on the event loop of the call: asyncio's, or trio's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import partial

from aspecthook._hints import TYPE_CHECKING, Any

from .tally import Tally, cut_off

if TYPE_CHECKING:
    from .answers import Values
    from .call import Call
    from .hook import Hook

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


async def gathered(ask: Callable[..., Any], hooks: tuple[Hook, ...], call: Call, values: Values) -> Any:
    """Run the subscribers of an event concurrently; return the result, with the answers in the order of subscribers.

    If one fails, the others are cancelled; or, if failures are grouped, run to their end.

    Args:
        ask: Asks one subscriber (`law.ask`).
        hooks: The subscribers.
        call: The call.
        values: Its arguments, which around hooks may have replaced.
    """
    tally = Tally(call._site, values)
    answers: dict[Hook, object] = {}
    failures: dict[Hook, Exception] = {}
    cancelled: dict[Hook, BaseException] = {}

    async def one(hook: Hook) -> None:
        try:
            answers[hook] = await ask(hook, call, values=values)
        except Exception as error:
            tally.add_failure(error)
            failures[hook] = error
        except BaseException as error:
            cancelled[hook] = error
            raise

    try:
        await at_once([partial(one, hook) for hook in hooks])
        tally.failures = [failures[hook] for hook in hooks if hook in failures]
        if cancelled:  # a task group ignores tasks that were cancelled from within
            raise cut_off(call._site, [*cancelled.values(), *tally.failures])
        for hook in hooks:
            tally.add_answer(hook, answers.get(hook))
        return tally.close()
    finally:  # else the exceptions and this frame, which is in their tracebacks, would keep each other alive
        tally.failures = []
        failures.clear()
        cancelled.clear()


async def at_once(jobs: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run jobs concurrently, in a nursery of trio or in a task group of asyncio."""
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
