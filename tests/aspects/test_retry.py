"""Retries: which calls are made again, how long is waited, and what the caller gets in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aspecthook import HookTypeError, weave
from aspecthook.aspects import retry
from tests.aspects.conftest import Clock, Targets


@pytest.fixture(params=["function", "coroutine"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("style", ["generator", "async generator"])
def test_generators_are_refused(style: str) -> None:
    with pytest.raises(HookTypeError, match=f"retry cannot be woven on this {style}: its items may have been used"):
        weave(Targets().all[style][0], aspect=retry())


def failing(*outcomes: object) -> Callable[[int], object]:
    """Return a function that raises or returns one outcome after another."""
    left = list(outcomes)

    def act(n: int) -> object:
        outcome = left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return act


OUTCOMES = st.lists(st.sampled_from(["page", "bad", ConnectionError, KeyError]), min_size=10, max_size=10)
LIMITS = st.sampled_from([{"attempts": 1}, {"attempts": 3, "timeout": 1000}, {"attempts": 5}, {"timeout": 1000}])


@given(OUTCOMES, LIMITS, st.booleans(), st.booleans())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_call_is_made_again_for_what_is_worth_it_until_the_limit(
    kind: str, drawn: list[Any], limits: dict[str, Any], minds: bool, sleeps_async: bool
) -> None:
    outcomes = [one() if isinstance(one, type) else one for one in [*drawn, "page"]]
    targets, clock = Targets(failing(*outcomes)), Clock()
    target, call = targets.all[kind]

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)
        clock.sleep(seconds)

    waits = {"sleep": sleep if sleeps_async and kind == "coroutine" else clock.sleep}
    on_result = (lambda result: result == "bad") if minds else None
    with weave(target, aspect=retry(on="ConnectionError", on_result=on_result, **{"attempts": None} | limits, **waits)):
        while len(targets.calls) < 8:
            begun, naps = len(targets.calls), len(clock.naps)
            left = outcomes[begun : begun + (limits.get("attempts") or 100)]
            worth = [isinstance(one, ConnectionError) or (minds and one == "bad") for one in left]
            last = left[worth.index(False) if False in worth else -1]
            if isinstance(last, Exception):
                with pytest.raises(type(last)) as caught:
                    call(5)
                assert caught.value is last  # the very object, or the last result, as it is
            else:
                assert call(5) == last
            tries = len(targets.calls) - begun
            assert tries == (worth.index(False) + 1 if False in worth else len(left))
            assert len(clock.naps) - naps == tries - 1
    assert {*targets.calls} == {5}


def test_no_attempt_follows_what_is_no_exception_of_a_program(kind: str, clock: Clock) -> None:
    targets = Targets(failing(KeyboardInterrupt()))
    target, call = targets.all[kind]
    with weave(target, aspect=retry(sleep=clock.sleep)), pytest.raises(KeyboardInterrupt):
        call(5)
    assert targets.calls == [5]


def test_waits_double_up_to_the_most_and_the_jitter_is_added(clock: Clock) -> None:
    targets = Targets(failing(*[ConnectionError()] * 5))
    target, call = targets.all["function"]
    aspect = retry(attempts=5, wait=1, max_wait=5, jitter=0.5, sleep=clock.sleep)
    with weave(target, aspect=aspect), pytest.raises(ConnectionError):
        call(5)
    assert [int(nap) for nap in clock.naps] == [1, 2, 4, 5] and all(nap % 1 <= 0.5 for nap in clock.naps)


def test_async_functions_wait_on_the_loop_that_runs_them() -> None:
    tries: list[float] = []

    async def fetch() -> str:
        tries.append(trio.current_time())
        if len(tries) < 3:
            raise ConnectionError
        return "page"

    with weave(fetch, aspect=retry(wait=10, max_wait=60, jitter=0)):
        assert trio.run(fetch, clock=trio.testing.MockClock(autojump_threshold=0)) == "page"
    assert [round(time - tries[0]) for time in tries] == [0, 10, 30]
