"""How long iterations take, by a clock that the tests set."""

from __future__ import annotations

from typing import Any

import pytest

from aspecthook import Return, hooks
from aspecthook.training import EvalHook, Hook, Runner
from aspecthook.training.logging import _loggers as timers
from aspecthook.training.logging._loggers import IterTimerHook, eta_of
from tests.training.kit import Clock
from tests.training.logging.test_loggers import logged, make


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timers, "perf_counter", made)
    return made


class Slow:
    """A loader that takes 1 second for a batch."""

    def __init__(self, clock: Clock, length: int) -> None:
        self.clock, self.length = clock, length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Any:
        for _ in range(self.length):
            self.clock.now += 1
            yield 1


class Times(Hook):
    """Notes the times of iterations, and what is expected of the rest."""

    priority = "LOWEST"

    def __init__(self) -> None:
        self.rows: list[tuple[float, float]] = []
        self.etas: list[float | None] = []

    def after_train_iter(self, runner: Runner, logs: dict[str, Any]) -> None:
        self.rows.append((logs["data_time"], logs["time"]))
        self.etas.append(eta_of(runner))


def run(clock: Clock, *extra: Any, seconds: Any = lambda place: 3.0, **options: Any) -> tuple[Runner, Times]:
    def row(iter: int) -> dict[str, Any]:
        clock.now += seconds(iter)
        return logged(iter)

    times = Times()
    return make(row, IterTimerHook(), *extra, times, **options), times


def test_an_iteration_waits_for_its_batch_and_takes_its_time(clock: Clock) -> None:
    runner, times = run(clock, seconds=float)
    runner.fit(Slow(clock, 3))
    assert times.rows == [(1.0, 1.0 + iter) for iter in range(6)]


def test_the_rest_takes_as_long_as_the_mean_so_far(clock: Clock) -> None:
    runner, times = run(clock, seconds=float)
    assert eta_of(runner) is None
    runner.fit(Slow(clock, 3))
    assert times.etas == [(1 + iter / 2) * (5 - iter) for iter in range(6)]
    assert eta_of(make()) is None


@pytest.mark.parametrize("priority", [45, 95])
@pytest.mark.parametrize("by_epoch", [True, False])
def test_validations_take_no_time_of_the_training(by_epoch: bool, priority: int, clock: Clock) -> None:
    evaluation = EvalHook(Slow(clock, 50), by_epoch=by_epoch)
    evaluation.priority = priority
    runner, times = run(clock, evaluation)
    runner.fit(Slow(clock, 3), Slow(clock, 50))
    assert times.rows == [(1.0, 4.0)] * 6
    assert times.etas == [4.0 * (5 - iter) for iter in range(6)]


@pytest.mark.parametrize("entry", ["validate", "test", "predict"])
def test_an_evaluation_that_fails_leaves_the_clock_running(entry: str, clock: Clock) -> None:
    runner, times = run(clock, max_epochs=1)

    class Tries(Hook):
        def after_train_iter(self, runner: Runner) -> None:
            kept = runner.mode, runner.data_loader, runner.inner_iter
            with pytest.raises(ZeroDivisionError):
                getattr(runner, entry)(Slow(clock, 9))
            runner.mode, runner.data_loader, runner.inner_iter = kept

    runner.register_hook(Tries())
    hooks(getattr(runner, f"{entry.removesuffix('idate')}_iter")).pre(lambda: 1 / 0)
    runner.fit(Slow(clock, 3))
    assert times.rows == [(1.0, 4.0)] * 3


def test_an_iteration_that_a_hook_skips_counts_for_the_estimate_alone(clock: Clock) -> None:
    runner, times = run(clock, max_epochs=1)
    hooks(runner.train_iter).add("pre", lambda runner: Return(None) if runner.iter == 1 else None, priority=0)
    runner.fit(Slow(clock, 3))
    assert times.rows[::2] == [(1.0, 4.0)] * 2
    assert runner.hooks[0].mean == (4.0 + 1.0 + 4.0) / 3


def test_an_iteration_that_fails_is_not_counted(clock: Clock) -> None:
    runner, times = run(clock)
    failing = hooks(runner.forward).add("post", lambda runner: 1 / 0 if runner.iter == 3 else None)
    with pytest.raises(ZeroDivisionError):
        runner.fit(Slow(clock, 3))
    failing.remove()
    clock.now += 1000
    runner.fit(Slow(clock, 3))
    assert times.rows == [(1.0, 4.0)] * 6
