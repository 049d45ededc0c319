"""Limits: how many calls begin in some time, and how many run at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import weave
from aspecthook.aspects import LimitError, limited
from tests.aspects.conftest import Clock, Targets


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=20), st.integers(1, 4), st.integers(1, 3))
def test_a_call_begins_as_soon_as_the_limit_of_its_mount_point_lets_it(
    steps: list[tuple[bool, int]], rate: int, per: int
) -> None:
    clock = Clock()
    begun: dict[bool, list[float]] = {False: [], True: []}
    several = {key: (lambda key=key: begun[key].append(clock.now)) for key in begun}
    aspect = limited(rate, per=per, clock=clock, sleep=clock.sleep)
    with weave(several[False], aspect=aspect), weave(several[True], aspect=aspect):
        for key, gap in steps:
            clock.now += gap
            soonest = clock.now if len(begun[key]) < rate else max(clock.now, begun[key][-rate] + per)
            several[key]()
            assert begun[key][-1] == soonest


def test_calls_wait_until_there_is_room(style: str, clock: Clock) -> None:
    target, call = Targets().all[style]
    with weave(target, aspect=limited(2, per=10, clock=clock, sleep=clock.sleep)):
        assert [call(1), call(2), call(3), call(4)] == [1, 2, 3, 4]
    assert clock.naps == [10]


def test_a_call_that_is_cancelled_as_it_waits_takes_no_place(clock: Clock) -> None:
    """After a burst of calls with a timeout, no call could begin any more."""

    def sleep(seconds: float) -> None:
        if seconds > 10:
            raise TimeoutError
        clock.sleep(seconds)

    begun: list[float] = []
    call = lambda: begun.append(clock.now)
    with weave(call, aspect=limited(1, per=10, clock=clock, sleep=sleep)):
        call()
        call()  # waits
        clock.now = 1000  # meanwhile two others give up
        for _ in range(2):
            with pytest.raises(TimeoutError):
                call()
        clock.now = 1010
        call()
    assert begun == [1000, 1010, 1020]


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
