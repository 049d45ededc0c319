"""Limits: how many calls begin in some time, and how many run at once."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import weave
from aspecthook.aspects import LimitError, limited
from tests.aspects.conftest import Clock, Targets, run


@given(
    gaps=st.lists(st.floats(0, 3), min_size=1, max_size=20),
    rate=st.integers(1, 4),
    per=st.floats(0.5, 3),
)
def test_no_more_calls_begin_in_any_stretch_of_time(gaps: list[float], rate: int, per: float) -> None:
    clock = Clock()
    begun: list[float] = []

    def search() -> None:
        begun.append(clock.now)

    with weave(search, aspect=limited(rate, per=per, clock=clock, sleep=clock.sleep)):
        for gap in gaps:
            clock.now += gap
            search()
    for first, later in zip(begun, begun[rate:], strict=False):
        assert later - first >= per - 1e-9


def test_calls_wait_until_there_is_room(style: str, clock: Clock) -> None:
    target, call = Targets().all[style]
    with weave(target, aspect=limited(2, per=10, clock=clock, sleep=clock.sleep)):
        assert [call(1), call(2), call(3), call(4)] == [1, 2, 3, 4]
    assert clock.naps == [10]


def test_calls_that_may_not_wait_are_refused_and_take_no_place(style: str, clock: Clock) -> None:
    targets = Targets()
    target, call = targets.all[style]
    with weave(target, aspect=limited(1, per=10, wait=False, clock=clock)):
        call(1)
        clock.now += 4
        for _ in range(2):
            with pytest.raises(LimitError, match="is limited to 1 call in 10 s; try again in 6 s") as caught:
                call(2)
            assert caught.value.retry_after == 6
        clock.now += 6
        call(3)
    assert targets.calls == [1, 3]


@pytest.mark.parametrize("wait", [True, False])
def test_so_many_calls_run_at_once_in_threads(wait: bool) -> None:
    most = running = refused = 0
    lock, begun, go_on = threading.Lock(), threading.Semaphore(0), threading.Event()

    def work() -> None:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        begun.release()
        go_on.wait()
        with lock:
            running -= 1

    def call() -> None:
        nonlocal refused
        try:
            work()
        except LimitError:
            with lock:
                refused += 1

    with weave(work, aspect=limited(concurrency=2, wait=wait)):
        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        begun.acquire(), begun.acquire()
        late = [threading.Thread(target=call) for _ in range(3)]
        for thread in late:
            thread.start()
        if not wait:
            for thread in late:
                thread.join()
        go_on.set()
        for thread in [*threads, *late]:
            thread.join()
    assert most == 2 and refused == (0 if wait else 3)


def test_so_many_calls_run_at_once_on_a_loop_and_on_the_next_one() -> None:
    most = running = 0

    async def work() -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    async def several() -> None:
        await asyncio.gather(*(work() for _ in range(7)))

    with weave(work, aspect=limited(concurrency=3)):
        for _ in range(2):
            run(several())
    assert most == 3


def test_a_cancelled_call_gives_its_slot_back() -> None:
    async def work() -> str:
        await asyncio.sleep(1)
        return "done"

    async def several() -> str:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(work(), 0.1)
        return await work()

    with weave(work, aspect=limited(concurrency=1)):
        assert run(several()) == "done"


def test_a_call_that_fails_gives_its_slot_back(style: str) -> None:
    target, call = Targets(lambda n: 1 // n).all[style]
    with weave(target, aspect=limited(concurrency=1, wait=False)):
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                call(0)
        assert call(1) == 1
