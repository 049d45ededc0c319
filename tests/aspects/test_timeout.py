"""Time-outs: of what is async, and of sync functions in threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
import trio
import trio.testing

from aspecthook import HookTypeError, weave
from aspecthook.aspects import timeout
from tests.aspects.conftest import Targets, run


async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


def test_a_coroutine_that_takes_too_long_is_cancelled() -> None:
    ends: list[str] = []

    async def fetch(seconds: float) -> str:
        try:
            return await slow(seconds)
        except asyncio.CancelledError:
            await asyncio.sleep(1)  # what it does to clean up is not cancelled again
            ends.append("cleaned up")
            raise

    with weave(fetch, aspect=timeout(2)):
        assert run(fetch(1.9)) == "done"
        with pytest.raises(TimeoutError, match="fetch has taken more than 2 s"):
            run(fetch(2.1))
    assert ends == ["cleaned up"]


def test_a_task_on_trio_that_takes_too_long_is_cancelled() -> None:
    async def fetch(seconds: float) -> str:
        await trio.sleep(seconds)
        return "done"

    clock = trio.testing.MockClock(autojump_threshold=0)
    with weave(fetch, aspect=timeout(2)):
        assert trio.run(fetch, 1.9, clock=clock) == "done"
        with pytest.raises(TimeoutError, match="fetch has taken more than 2 s"):
            trio.run(fetch, 2.1, clock=clock)


def test_a_timeout_of_the_function_itself_passes_as_it_is() -> None:
    own = TimeoutError("own")
    with weave(slow, aspect=timeout(2)):
        assert run(slow(0)) == "done"

    async def fetch() -> None:
        raise own

    with weave(fetch, aspect=timeout(2)), pytest.raises(TimeoutError) as caught:
        run(fetch())
    assert caught.value is own


def test_an_async_generator_has_the_time_for_each_item() -> None:
    async def pages(*waits: float) -> AsyncGenerator[float]:
        for seconds in waits:
            await asyncio.sleep(seconds)
            yield seconds

    async def slowly(*waits: float) -> list[float]:
        found: list[float] = []
        async for item in pages(*waits):
            await asyncio.sleep(10)  # the time that its items are used for does not count
            found.append(item)
        return found

    with weave(pages, aspect=timeout(2)):
        assert run(slowly(1, 1.5, 1)) == [1, 1.5, 1]
        with pytest.raises(TimeoutError):
            run(slowly(1, 2.5))


def test_cancellation_from_outside_is_no_timeout() -> None:
    async def main() -> None:
        task = asyncio.create_task(slow(1))
        await asyncio.sleep(0.1)
        task.cancel()
        await task

    with weave(slow, aspect=timeout(2)), pytest.raises(asyncio.CancelledError):
        run(main())


@pytest.mark.parametrize("style", ["function", "generator"])
def test_sync_functions_are_refused_as_nothing_can_interrupt_them(style: str) -> None:
    with pytest.raises(HookTypeError, match="nothing can interrupt it"):
        weave(Targets().all[style][0], aspect=timeout(1))
