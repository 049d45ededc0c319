"""Faults on purpose: how often, how slow, and with which exception."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import weave
from aspecthook.aspects import faults, retry
from tests.aspects.conftest import Clock, Targets


class Down(Exception):
    """Needs an argument."""

    def __init__(self, host: str) -> None:
        super().__init__(host)


@pytest.mark.parametrize("error", [ConnectionError, "ConnectionError", "builtins:ConnectionError"])
def test_a_fault_is_raised_in_the_place_of_the_call(style: str, error: type[Exception] | str) -> None:
    targets = Targets()
    target, call = targets.all[style]
    with weave(target, aspect=faults(error)), pytest.raises(ConnectionError) as caught:
        call(1)
    assert targets.calls == [] and caught.value.__notes__ == ["raised by aspecthook.aspects.faults"]


def test_a_function_can_make_the_exceptions() -> None:
    target, call = Targets().all["function"]
    found: list[Down] = []
    with weave(target, aspect=faults(lambda: Down("db1"))):
        for _ in range(2):
            with pytest.raises(Down) as caught:
                call(1)
            found.append(caught.value)
    assert found[0] is not found[1] and found[0].args == ("db1",)


def test_calls_are_delayed(style: str, clock: Clock) -> None:
    target, call = Targets().all[style]
    with weave(target, aspect=faults(latency=(1, 3), seed=1, sleep=clock.sleep)):
        assert [call(n) for n in range(20)] == [*range(20)]
    assert all(1 <= nap <= 3 for nap in clock.naps) and len({*clock.naps}) == 20


def test_async_functions_wait_on_the_loop_that_runs_them() -> None:
    async def fetch() -> float:
        return float(trio.current_time())

    async def main() -> float:
        return await fetch() - trio.current_time()

    clock = trio.testing.MockClock(autojump_threshold=0)
    with weave(fetch, aspect=faults(latency=5)):
        begin = clock.current_time()
        trio.run(main, clock=clock)
    assert clock.current_time() - begin >= 5


@given(seed=st.integers(0, 1000), probability=st.floats(0, 1))
def test_the_same_seed_meets_the_same_faults_about_as_often_as_it_should(seed: int, probability: float) -> None:
    def outcomes() -> list[bool]:
        target, call = Targets().all["function"]
        found: list[bool] = []
        with weave(target, aspect=faults(ConnectionError, probability=probability, seed=seed)):
            for n in range(200):
                try:
                    call(n)
                    found.append(False)
                except ConnectionError:
                    found.append(True)
        return found

    first = outcomes()
    assert first == outcomes()
    assert abs(sum(first) - 200 * probability) < 60  # eight standard deviations


def test_retries_that_are_woven_first_are_around_the_faults(style: str, clock: Clock) -> None:
    target, call = Targets().all[style]
    with (
        weave(target, aspect=retry(attempts=50, sleep=clock.sleep)),
        weave(target, aspect=faults(ConnectionError, probability=0.5, seed=3)),
    ):
        assert [call(n) for n in range(20)] == [*range(20)]
    assert clock.naps
