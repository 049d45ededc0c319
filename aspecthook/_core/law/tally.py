"""The answers and failures of an event's subscribers, and the result that they add up to, concurrently or not.

The invariant: once a call is over, nothing here refers to an exception any more. An exception refers to the frames that
it went through, and these refer to the tally: the two would keep each other alive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import partial

from aspecthook._hints import TYPE_CHECKING, Any, final

from .answers import Values, settled
from .call import Call, Site

if TYPE_CHECKING:
    from .hook import Hook

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class Tally:
    """The answers and failures of an event's subscribers in one interpreted call; the compiled call does the same."""

    __slots__ = ("_emission", "_site", "answered", "failures", "result", "values")

    def __init__(self, site: Site, values: Values) -> None:
        assert site.signature.emission is not None
        self._site = site
        self._emission = site.signature.emission
        # The arguments for the next subscriber.
        self.values = values
        self.answered = False
        self.failures: list[Exception] = []
        gives = self._emission.gives
        self.result: Any = [] if gives == "list" else values[self._emission.fold] if gives == "fold" else None

    def add_answer(self, hook: Hook, answer: Any) -> bool:
        """Add an answer; return whether no further subscriber runs."""
        if answer is None:
            return False
        value = settled(self._site, "on", hook.function, answer)
        if self._emission.checked and self._site.fits is not None:
            folded = self.result if self._emission.gives == "fold" else None
            value = self._site.fits(self._site, hook.function, value, folded)
        self.answered = True
        if self._emission.gives == "list":
            self.result.append(value)
            return False
        self.result = value
        if self._emission.gives == "fold":
            place = self._emission.fold
            self.values = (*self.values[:place], value, *self.values[place + 1 :])
        return self._emission.gives == "first"

    def add_failure(self, error: Exception) -> None:
        """Keep a failure until all have run, if failures are grouped; else raise it, in its `except` block."""
        try:
            if not self._emission.group:
                raise error
            self.failures.append(error)
        finally:
            del error  # else this frame, which is in its traceback, and the exception would keep each other alive

    def add_failure_of_body(self, error: Exception) -> None:
        """Keep a failure of the stub's body with those of the subscribers; if there are none, raise it as it is."""
        try:
            if not self.failures:
                raise error
            self.failures.append(error)
        finally:
            del error  # for the reason in `add_failure`

    @property
    def wants_body(self) -> bool:
        """Whether the stub's own body runs, because nobody has answered."""
        return self._emission.gives == "first" and self._emission.default and not self.answered

    def close(self) -> Any:
        """Return the result, or raise the failures that were kept."""
        failures, self.failures = self.failures, []
        try:
            if failures:
                raise together(self._site, failures)
            return self.result
        finally:
            del failures


def together(site: Site, failures: list[Exception]) -> ExceptionGroup[Exception]:
    """Return one error for all failures of subscribers."""
    count = len(failures)
    return ExceptionGroup(f"{site.label}: {count} subscriber{'s' * (count > 1)} failed", failures)


def cut_off(site: Site, errors: list[BaseException]) -> BaseExceptionGroup[BaseException]:
    """Return one error for concurrent subscribers that were cancelled, and for the failures of the others."""
    return BaseExceptionGroup(f"{site.label}: a subscriber was cancelled", errors)


# Subscribers that came too late.


def missed(
    ask: Callable[..., Any], hooks: tuple[Hook, ...], call: Call, failures: list[Exception] | None = None
) -> None:
    """Replay a call to subscribers that came too late to be in its chain; their answers are ignored.

    Args:
        ask: Asks one subscriber (`law_sync.ask`).
        hooks: The late subscribers.
        call: The call that they missed.
        failures: The failures of the other subscribers, to which theirs are added; None: they are raised.
    """
    tally = Tally(call._site, call._values)
    try:
        for hook in hooks:
            try:
                ask(hook, call)
            except Exception as error:
                tally.add_failure(error)
        if failures is None:
            tally.close()
        else:
            failures += tally.failures
    finally:
        del tally, failures


# Subscribers that run concurrently, on the event loop of the call: asyncio's, or trio's.


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
