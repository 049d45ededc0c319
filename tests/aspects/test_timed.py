"""Times: a table by function, and which calls are slow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aspecthook import HookLookupError, weave
from aspecthook.aspects import timed
from tests.aspects.conftest import Clock, Targets


def test_calls_and_failures_are_counted(style: str, clock: Clock) -> None:
    def act(n: int) -> int:
        clock.now += n
        return 1 // (n - 3)

    target, call = Targets(act).all[style]
    timings = timed(clock=clock)
    with weave(target, aspect=timings):
        call(1)
        call(5)
        with pytest.raises(ZeroDivisionError):
            call(3)
    [row] = timings.table()
    assert row[1:] == (3, 1, 9.0, 9.0, 3.0, 5.0) and timings[row.name] == row
    assert str(timings).splitlines()[1].split()[:3] == [row.name, "3", "1"]


def test_the_time_of_a_generator_is_that_of_its_own_steps(clock: Clock) -> None:
    def rows(nap: Callable[[float], None]) -> object:
        for _ in range(3):
            nap(2)
            yield

    timings = timed(clock=clock)
    with weave(rows, aspect=timings):
        for _ in rows(clock.sleep):
            clock.now += 100  # what is done with its items
    assert [row.total for row in timings.table()] == [6.0]


@pytest.mark.parametrize(("is_through", "total"), [(False, 20.0), (True, 23.0)])
@pytest.mark.parametrize("style", ["function", "generator"])
def test_time_inside_measured_calls_is_not_counted_twice(
    style: str, is_through: bool, total: float, clock: Clock
) -> None:
    def act(n: int) -> object:
        clock.now += n
        leaf(n - 1 if is_through else 0)
        return call(n - 1) if n > 1 and not is_through else n

    def leaf(n: int) -> None:
        clock.now += 5
        if n:
            call(n)

    target, call = Targets(act).all[style]
    timings = timed(clock=clock)
    with weave(target, aspect=timings), weave(leaf, aspect=timings):
        call(3)
        call(1)
    assert [row[1:5] for row in timings.table()] == [(4, 0, total, 20.0), (4, 0, 27.0, 7.0)]


def test_timings_stay_when_the_weaving_is_removed_and_a_wrong_label_names_the_nearest() -> None:
    target, call = Targets().all["function"]
    timings = timed()
    with weave(target, aspect=timings):
        call(1)
    [row] = timings.table()
    assert row.calls == 1
    with pytest.raises(HookLookupError, match="no calls of .* were timed; did you mean"):
        timings[row.name[1:]]
