"""Subscribers that are awaited concurrently, on asyncio and trio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
import trio

from aspecthook import hooks
from aspecthook._core.law import law
from aspecthook._core.law.call import Call
from aspecthook._core.law.order import Chain
from tests.events.samples import amade, failing, gathered, gathered_all
from tests.threads import at_once

pause = {"asyncio": asyncio.sleep, "trio": trio.sleep}


def run(loop: str, function: Callable[..., Any], *args: Any) -> Any:
    return asyncio.run(function(*args)) if loop == "asyncio" else trio.run(function, *args)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_gather_runs_subscribers_concurrently_and_keeps_their_order(loop: str) -> None:
    trail: list[str] = []

    async def slow(who: str) -> str:
        trail.append("slow begins")
        await pause[loop](0.02)
        trail.append("slow ends")
        return f"slow {who}"

    async def quick() -> str:
        trail.append("quick begins")
        await pause[loop](0)
        trail.append("quick ends")
        return "quick"

    gathered.on(slow)
    gathered.on(quick)
    gathered.on(lambda: "sync")
    gathered.on(lambda: None)
    gathered.on(lambda: "never", when=lambda who: who == "eve")
    assert run(loop, gathered, "ann") == ["slow ann", "quick", "sync"]
    assert sorted(trail[:2]) == ["quick begins", "slow begins"] and trail[2:] == ["quick ends", "slow ends"]
    assert run(loop, gathered_all, "ann") == []


@pytest.mark.parametrize("way", ["compiled", "interpreted"])
def test_the_law_gathers_as_the_compiled_call_does(way: str) -> None:
    mount = hooks(gathered)
    began = 0

    async def meets(who: str) -> str:
        nonlocal began
        began += 1
        while began < 2:  # alone, it would wait for ever
            await asyncio.sleep(0)
        return who

    gathered.on(meets)
    gathered.on(meets, again=True)
    call = Call(mount.site(), ("ann",))
    made = gathered("ann") if way == "compiled" else law.run(Chain(tuple(mount)), call, gathered)
    assert asyncio.run(asyncio.wait_for(made, 30)) == ["ann", "ann"]


def test_gather_with_isolated_subscribers(caplog: pytest.LogCaptureFixture) -> None:
    said = amade(gather=True, errors="isolate")

    async def bad() -> None:
        raise ValueError("one")

    said.on(bad)
    said.on(lambda: "good")
    assert asyncio.run(said()) == ["good"] and "ValueError: one" in caplog.text


def test_gather_passes_context_and_changed_arguments() -> None:
    who_calls: ContextVar[str] = ContextVar("who_calls")
    gathered.on(lambda who: (who, who_calls.get()))

    @gathered.around
    async def louder(proceed: Callable[..., Any], who: str) -> Any:
        return await proceed(who=who.upper())

    async def main() -> list[Any]:
        who_calls.set("main")
        return list(await gathered("ann"))

    assert asyncio.run(main()) == [("ANN", "main")]


def test_gather_in_several_threads() -> None:
    done: list[Any] = []
    gathered_all.on(lambda who: who)
    at_once(*[lambda n=n: done.append(asyncio.run(gathered_all(str(n)))) for n in range(4)])
    assert sorted(done) == [["0"], ["1"], ["2"], ["3"]]


# Failures and cancellation


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_gather_first_failure_cancels_the_others_unless_grouped(loop: str) -> None:
    trail: list[str] = []
    error, other = ValueError("one"), KeyError("two")

    async def slow() -> str:
        try:
            await pause[loop](0.02)
        except BaseException:
            trail.append("cancelled")
            raise
        trail.append("done")
        raise other

    async def bad() -> None:
        await pause[loop](0)
        raise error

    for one in (gathered, gathered_all):
        one.on(slow)
        one.on(bad)
    with pytest.raises(ExceptionGroup) as caught:
        run(loop, gathered, "ann")
    assert caught.value.exceptions == (error,) and trail == ["cancelled"]
    with pytest.raises(ExceptionGroup, match="2 subscribers failed") as both:
        run(loop, gathered_all, "ann")
    assert both.value.exceptions == (other, error) and trail == ["cancelled", "done"]


def test_gather_cancelled_by_timeout_cancels_its_subscribers() -> None:
    trail: list[str] = []

    @gathered.on
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            trail.append("cancelled")
            raise

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await gathered("ann")

    asyncio.run(main())
    assert trail == ["cancelled"]


def test_gather_whose_task_is_cancelled() -> None:
    said = amade(gather=True)
    said.on(lambda: asyncio.sleep(10))

    async def main() -> None:
        task = asyncio.ensure_future(said())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


async def cancelled() -> None:
    raise asyncio.CancelledError


def test_gather_raises_the_cancellation_of_a_subscriber() -> None:
    # One after another, the caller gets the CancelledError; at once, the event seemed to have gone well.
    said = amade(gather=True)
    said.on(cancelled)
    with pytest.raises((asyncio.CancelledError, BaseExceptionGroup)):
        asyncio.run(said())


def test_gather_groups_a_cancellation_with_the_other_failures() -> None:
    said = amade(gather=True, errors="group")
    said.on(cancelled)
    said.on(failing)
    with pytest.raises(BaseExceptionGroup, match="said: a subscriber was cancelled") as caught:
        asyncio.run(said())
    assert [type(one) for one in caught.value.exceptions] == [asyncio.CancelledError, ValueError]
