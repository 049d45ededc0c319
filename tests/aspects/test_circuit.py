"""Circuit breakers: when they open, and how they close again."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from aspecthook import weave
from aspecthook.aspects import CircuitOpenError, circuit
from tests.aspects.conftest import Clock, Targets, run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("circuitbreaker.monotonic", clock)
    return clock


class Service:
    """Fails while it is down."""

    def __init__(self) -> None:
        self.down = True
        self.targets = Targets(self.act)

    def act(self, n: int) -> int:
        if self.down:
            raise ConnectionError(n)
        return n


def test_a_breaker_opens_after_failures_in_a_row_and_closes_after_a_trial(style: str, clock: Clock) -> None:
    service = Service()
    target, call = service.targets.all[style]
    breakers = circuit(ConnectionError, failures=2, reset=30)
    with weave(target, aspect=breakers):
        [label] = breakers.states()
        for n in 1, 2:
            with pytest.raises(ConnectionError):
                call(n)
        assert breakers.states() == {label: "open"}
        with pytest.raises(CircuitOpenError, match="is not called: it has failed 2 times; try again in 30 s") as caught:
            call(3)
        assert caught.value.retry_after == 30
        clock.now += 31
        assert breakers.states() == {label: "half_open"}
        with pytest.raises(ConnectionError):
            call(4)
        with pytest.raises(CircuitOpenError):
            call(5)
        clock.now += 31
        service.down = False
        assert call(6) == 6 and breakers.states() == {label: "closed"}
    assert service.targets.calls == [1, 2, 4, 6]


def test_a_success_between_failures_starts_the_count_anew(style: str, clock: Clock) -> None:
    service = Service()
    target, call = service.targets.all[style]
    breakers = circuit(failures=2)
    with weave(target, aspect=breakers):
        for service.down in (True, False, True):
            try:
                call(1)
            except ConnectionError:
                pass
        assert list(breakers.states().values()) == ["closed"]


def test_other_exceptions_mean_that_the_service_works(style: str, clock: Clock) -> None:
    target, call = Targets(lambda n: 1 // n).all[style]
    breakers = circuit("ConnectionError", failures=1)
    with weave(target, aspect=breakers):
        with pytest.raises(ZeroDivisionError):
            call(0)
        assert list(breakers.states().values()) == ["closed"]


def test_cancellation_is_neither_a_failure_nor_a_success(clock: Clock) -> None:
    async def fetch(*, fails: bool) -> None:
        if fails:
            raise ConnectionError
        await asyncio.sleep(1)

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(ConnectionError):
                await fetch(fails=True)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(fetch(fails=False), 0.1)

    breakers = circuit(failures=3)
    with weave(fetch, aspect=breakers):
        run(main())
        assert list(breakers.states().values()) == ["closed"]
        with pytest.raises(ConnectionError):
            run(fetch(fails=True))
        assert list(breakers.states().values()) == ["open"]


def test_one_call_is_let_through_while_a_breaker_is_half_open(clock: Clock) -> None:
    service = Service()
    begun, go_on = threading.Event(), threading.Event()
    results: list[int] = []

    def fetch(n: int) -> int:
        if n == 2:
            begun.set()
            go_on.wait()
        return service.act(n)

    with weave(fetch, aspect=circuit(failures=1, reset=30)):
        with pytest.raises(ConnectionError):
            fetch(1)
        clock.now += 31
        service.down = False
        trial = threading.Thread(target=lambda: results.append(fetch(2)))
        trial.start()
        begun.wait()
        with pytest.raises(CircuitOpenError):
            fetch(3)
        go_on.set()
        trial.join()
        assert results == [2] and fetch(4) == 4


def test_a_call_that_began_before_a_breaker_was_opened_does_not_close_it(clock: Clock) -> None:
    async def fetch(seconds: float, *, fails: bool) -> None:
        await asyncio.sleep(seconds)
        if fails:
            raise ConnectionError

    async def main() -> None:
        slow = asyncio.create_task(fetch(2, fails=False))
        with pytest.raises(ConnectionError):
            await fetch(1, fails=True)
        await slow

    breakers = circuit(failures=1)
    with weave(fetch, aspect=breakers):
        run(main())
        assert list(breakers.states().values()) == ["open"]
        breakers.reset()
        assert list(breakers.states().values()) == ["closed"]
    assert breakers.states() == {}


def test_the_last_failure_is_not_kept_alive(clock: Clock) -> None:
    class Failure(Exception):
        pass

    def fetch() -> None:
        raise Failure

    with weave(fetch, aspect=circuit(failures=1)):
        try:
            fetch()
        except Failure as error:
            kept = weakref.ref(error)
        gc.collect()
        assert kept() is None


def test_each_mount_point_has_a_breaker_of_its_own(clock: Clock) -> None:
    down, up = Service(), Service()
    up.down = False
    breakers = circuit(failures=1)
    with (
        weave(down.targets.all["function"][0], aspect=breakers),
        weave(up.targets.all["coroutine"][0], aspect=breakers),
    ):
        with pytest.raises(ConnectionError):
            down.targets.all["function"][1](1)
        assert up.targets.all["coroutine"][1](1) == 1
        assert sorted(breakers.states().values()) == ["closed", "open"]
