"""Retries: which calls are made again, how long is waited, and what the caller gets in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

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


def test_what_fails_is_called_again_with_the_same_arguments(kind: str, clock: Clock) -> None:
    targets = Targets(failing(ConnectionError(1), ConnectionError(2), "page"))
    target, call = targets.all[kind]
    with weave(target, aspect=retry(on=ConnectionError, sleep=clock.sleep)):
        assert call(5) == "page"
    assert targets.calls == [5, 5, 5] and len(clock.naps) == 2


def test_the_last_exception_reaches_the_caller_as_the_same_object(kind: str, clock: Clock) -> None:
    last = ConnectionError("last")
    targets = Targets(failing(ConnectionError("first"), last))
    target, call = targets.all[kind]
    with weave(target, aspect=retry(attempts=2, sleep=clock.sleep)), pytest.raises(ConnectionError) as caught:
        call(5)
    assert caught.value is last and len(clock.naps) == 1


def test_a_call_inside_an_attempt_has_attempts_of_its_own(clock: Clock) -> None:
    failing_twice: Any = failing(ConnectionError(1), ConnectionError(2), "page")
    targets = Targets(lambda n: failing_twice(n) if n == 0 else call(n - 1))
    target, call = targets.all["function"]
    with weave(target, aspect=retry(attempts=3, sleep=clock.sleep)):
        assert call(2) == "page"
    assert targets.calls == [2, 1, 0, 0, 0]


def test_other_exceptions_pass_at_once(kind: str, clock: Clock) -> None:
    targets = Targets(failing(KeyError("tea")))
    target, call = targets.all[kind]
    with weave(target, aspect=retry(on="ConnectionError", sleep=clock.sleep)), pytest.raises(KeyError):
        call(5)
    assert not clock.naps


def test_no_attempt_follows_what_is_no_exception_of_a_program(kind: str, clock: Clock) -> None:
    targets = Targets(failing(KeyboardInterrupt()))
    target, call = targets.all[kind]
    with weave(target, aspect=retry(sleep=clock.sleep)), pytest.raises(KeyboardInterrupt):
        call(5)
    assert targets.calls == [5]


def test_results_can_be_worth_another_attempt(kind: str, clock: Clock) -> None:
    targets = Targets(failing(503, 503, 503))
    target, call = targets.all[kind]
    with weave(target, aspect=retry(on_result=lambda result: result == 503, sleep=clock.sleep)):
        assert call(5) == 503  # the last one, as it is
    assert targets.calls == [5, 5, 5]


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
