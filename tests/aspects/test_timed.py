"""Times: histograms by function, and which calls are slow."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookLookupError, weave
from aspecthook.aspects import Timing, timed
from tests.aspects.conftest import Clock, Targets
from tests.aspects.test_log import Logged, line_here


@given(st.lists(st.floats(1e-8, 1e5), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_near_the_value_that_has_its_rank(times: list[float], share: float) -> None:
    timing = Timing()
    for seconds in times:
        timing.add(seconds, failed=False)
    exact = sorted(times)[max(0, math.ceil(share * len(times) - 1e-9) - 1)]
    assert exact / 1.05 <= timing.quantile(share) <= exact * 1.05
    assert timing.count == len(times) and timing.slowest == max(times)
    assert timing.mean == pytest.approx(sum(times) / len(times))


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
    [label] = timings
    timing = timings[label]
    assert (timing.count, timing.errors, timing.total, timing.slowest) == (3, 1, 9.0, 5.0)
    assert str(timings).splitlines()[1].split()[:3] == [label, "3", "1"]


def test_the_time_of_a_generator_is_that_of_its_own_steps(clock: Clock) -> None:
    def rows(nap: Callable[[float], None]) -> object:
        for _ in range(3):
            nap(2)
            yield

    timings = timed(clock=clock)
    with weave(rows, aspect=timings):
        for _ in rows(clock.sleep):
            clock.now += 100  # what is done with its items
    [label] = timings
    assert timings[label].total == 6.0


def test_slow_calls_are_logged_with_the_line_of_the_caller(style: str, clock: Clock) -> None:
    target, call = Targets(clock.sleep).all[style]
    logger = Logged()
    with weave(target, aspect=timed(slow=2, logger=logger, clock=clock)):
        call(2)
        call(3)
    [record] = logger.kept.records
    assert record.levelname == "WARNING" and record.getMessage().endswith(" has taken 3 s")


def test_the_line_of_the_caller_is_that_of_the_call(clock: Clock) -> None:
    target, _ = Targets(clock.sleep).all["function"]
    logger = Logged()
    with weave(target, aspect=timed(slow=2, logger=logger, clock=clock)):
        target(3)
        line = line_here() - 1
    assert [(record.pathname, record.lineno) for record in logger.kept.records] == [(__file__, line)]


def test_timings_stay_when_the_weaving_is_removed_and_a_wrong_label_names_the_nearest() -> None:
    target, call = Targets().all["function"]
    timings = timed()
    with weave(target, aspect=timings):
        call(1)
    [label] = timings
    assert timings[label].count == 1 and len(timings) == 1
    with pytest.raises(HookLookupError, match="no calls of .* were timed; did you mean"):
        timings[label[1:]]
