"""The profile of a run, by a clock that the test turns; and that nothing is left of the measuring."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from aspecthook import HookOptionError, HookTypeError, hooks
from aspecthook.record import _hooks, _recorder
from aspecthook.training import Hook, ProfilerHook, Runner
from aspecthook.training.logging import _profiler


class Clock:
    """Time passes where the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (_hooks, _recorder):
        monkeypatch.setattr(module, "CLOCK", (clock,))
    return clock


class Model:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        self.clock.wait(7)
        return {"loss": Loss(batch), "log_vars": {"loss": batch}, "num_samples": 1}

    def val_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        self.clock.wait(2)
        return {"log_vars": {"loss": batch}, "num_samples": 1}


class Loss(float):
    def backward(self) -> None: ...


class Optimizer:
    def __init__(self) -> None:
        self.param_groups: list[dict[str, Any]] = [{"lr": 0.1, "params": []}]

    def step(self) -> None: ...
    def zero_grad(self) -> None: ...


class Slow(Hook):
    """Takes one second before an iteration, four after one, and ten after an epoch."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def before_train_iter(self) -> None:
        self.clock.wait(1)

    def after_iter(self) -> None:
        self.clock.wait(4)

    def after_train_epoch(self) -> None:
        self.clock.wait(10)


def run_of(clock: Clock, *options: Any, **more: Any) -> tuple[Runner, ProfilerHook]:
    runner = Runner(Model(clock), optimizer=Optimizer(), max_epochs=2, **more)
    runner.register_hook(Slow(clock))
    profiler: ProfilerHook = runner.register_hook(ProfilerHook(*options))
    return runner, profiler


def rows(profiler: ProfilerHook) -> dict[str, tuple[int, float, float]]:
    """Return calls, own and total times by the last two words of a name."""
    return {
        ".".join(row.name.rpartition(":")[2].split(".")[-2:]): (row.calls, row.own, row.total) for row in profiler.table
    }


def test_each_stage_and_each_hook_has_its_own_time_and_its_whole_time(clock: Clock) -> None:
    runner, profiler = run_of(clock, workflow=(("train", 1), ("val", 1)))
    runner.fit([1.0] * 3, [1.0])
    found = rows(profiler)
    assert found["Runner.forward"] == (6, 42, 42)
    assert found["Runner.train_iter"] == (6, 0, 72) and found["Runner.train_epoch"] == (2, 0, 92)
    assert found["Slow.before_train_iter"] == (6, 6, 6) and found["Slow.after_train_epoch"] == (2, 20, 20)
    assert found["Slow.after_iter"] == (8, 32, 32)  # a general method is one function on two stages
    assert found["Runner.val_iter"] == (2, 4, 12) and found["Runner.train_loop"] == (1, 0, 104)


def test_only_the_iterations_of_the_window_are_measured(clock: Clock) -> None:
    runner, profiler = run_of(clock, 2, 5)
    runner.fit([1.0] * 4)
    found = rows(profiler)
    assert found["Runner.forward"] == (3, 21, 21) and found["Slow.before_train_iter"] == (3, 3, 3)
    assert found["Slow.after_train_epoch"] == (1, 10, 10)


def test_a_second_fit_is_measured_again_and_one_past_the_window_is_not(clock: Clock) -> None:
    runner, profiler = run_of(clock)
    runner.fit([1.0])
    runner.max_epochs = 5
    runner.fit([1.0])
    assert rows(profiler)["Runner.forward"] == (3, 21, 21)
    runner, profiler = run_of(clock, 0, 1)
    runner.fit([1.0])
    runner.max_epochs = 5
    runner.fit([1.0])
    assert rows(profiler)["Runner.forward"] == (1, 7, 7)


@pytest.mark.parametrize("error", [None, ValueError("no"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize(("start", "stop"), [(0, None), (2, 5), (1, 3)])
def test_after_the_run_every_function_has_the_code_that_it_had(
    clock: Clock, error: BaseException | None, start: int, stop: int | None
) -> None:
    runner, _ = run_of(clock, start, stop)

    def look(iter: int) -> None:
        measured.append(Slow.after_iter.__code__ is not code)
        if error is not None and iter == 4:
            raise error

    code, measured = Slow.after_iter.__code__, list[bool]()
    counts = {stage: len(hooks(getattr(runner, stage))) for stage in _profiler.STAGES}
    looking = hooks(runner.train_iter).add("pre", look)
    if error is None:
        runner.fit([1.0] * 3)
    else:
        with pytest.raises(type(error)) as caught:
            runner.fit([1.0] * 3)
        assert caught.value is error
    looking.remove()
    assert measured == [start <= at < (stop or 100) for at in range(len(measured))]
    assert Slow.after_iter.__code__ is code
    assert {stage: len(hooks(getattr(runner, stage))) for stage in _profiler.STAGES} == counts


def test_hooks_without_python_code_are_told(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    runner, profiler = run_of(clock)
    hooks(runner.train_epoch).add("pre", list[Any]().append, name="append")
    with caplog.at_level(logging.INFO, "aspecthook.training"):
        runner.fit([1.0])
    assert "the profile does not have append on train_epoch" in caplog.text
    assert rows(profiler)["Runner.train_epoch"][0] == 2


def test_the_table_is_logged_and_written_as_json(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runner, profiler = run_of(clock, work_dir=tmp_path)
    with caplog.at_level(logging.INFO, "aspecthook.training"):
        runner.fit([1.0])
    assert str(profiler.table) in caplog.text
    assert json.loads((tmp_path / "profile.json").read_text())[0] == profiler.table[0]._asdict()


def test_a_profile_that_cannot_be_written_does_not_end_the_run(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "profile.json").mkdir()
    runner, _ = run_of(clock, work_dir=tmp_path)
    runner.fit([1.0])
    assert "profile.json could not be written" in caplog.text


def test_another_rank_measures_nothing(clock: Clock, tmp_path: Path) -> None:
    runner, profiler = run_of(clock, work_dir=tmp_path)
    runner.rank = 1
    runner.fit([1.0])
    assert profiler.table == [] and not [*tmp_path.iterdir()]


IMPOSSIBLE: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    ((-1,), HookOptionError, "start=-1"),
    ((0, 0), HookOptionError, "stop=0"),
    ((5, 5), HookOptionError, "not after start=5"),
    (("1",), HookTypeError, "start='1'"),
]


@pytest.mark.parametrize(("options", "error", "message"), IMPOSSIBLE)
def test_impossible_windows_are_refused(options: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ProfilerHook(*options)
