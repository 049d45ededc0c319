"""Limits: how many calls begin in some time, and how many run at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import weave
from aspecthook.aspects import LimitError, limited
from tests.aspects.conftest import Clock, Targets


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
