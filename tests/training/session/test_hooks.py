"""The hooks that come with the package, each against TensorFlow's rules."""

from __future__ import annotations

import logging
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookOptionError, HookTypeError
from aspecthook.training import Runner
from aspecthook.training.hooks._optimizer import NanLossError
from aspecthook.training.session import (
    AbortedError,
    CheckpointSaverHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    SessionRunHook,
    StopAtStepHook,
    _hooks,
)
from tests.training.kit import Clock
from tests.training.session.kit import Trail, drive, fit, plain


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(_hooks, "clock", made)
    return made


class Takes(SessionRunHook):
    """Each step takes so many seconds."""

    priority = "HIGHEST"

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def before_run(self, run_context: Any) -> None:
        self.clock.now += self.seconds


# The timer


def test_a_timer_by_seconds_counts_from_the_last_time(clock: Clock) -> None:
    timer = LoggingTensorHook(["loss"], None, 10)
    assert timer.is_due(0) and timer.record(0) is None
    clock.now += 9.5
    assert not timer.is_due(1)
    clock.now += 2
    assert timer.is_due(2) and not timer.is_due(0)
    assert timer.record(2) == 11.5
    clock.now += 4
    again = LoggingTensorHook(["loss"], None, 10)
    state = timer.state_dict()
    clock.now = 5000.0  # another process
    again.load_state_dict(state)
    clock.now += 5.9
    assert not again.is_due(3)
    clock.now += 0.1
    assert again.is_due(3)


# StopAtStepHook


@given(st.integers(1, 3), st.integers(0, 9), st.integers(0, 4), st.booleans(), st.booleans())
def test_stop_at_step_counts_steps_from_the_session(
    accumulate: int, steps: int, before: int, by_number: bool, driven: bool
) -> None:
    runner = plain(max_epochs=None, max_iters=before * accumulate or 1, accumulate=accumulate)
    if before:
        runner.fit([1.0, 2.0, 3.0])
    begun = runner.step
    runner.max_iters = 100
    hook = StopAtStepHook(num_steps=steps) if by_number else StopAtStepHook(last_step=steps)
    (drive if driven else fit)(runner, [1.0, 2.0, 3.0], hooks=[hook])
    assert runner.step == (begun + steps if by_number else max(begun, steps))
    assert runner.iter == runner.step * accumulate


def test_stop_at_step_counts_from_the_first_of_several_sessions(tmp_path: Path) -> None:
    lost: list[int] = []

    class Lose(SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            step = run_context.session.run("global_step")
            if step in (3, 5) and step not in lost:
                lost.append(step)
                run_context.session.runner.after_stage(self.lose)  # when the last step is saved

        def lose(self) -> None:
            raise AbortedError("lost")

    runner = plain(max_epochs=9)
    hooks = [CheckpointSaverHook(tmp_path, save_steps=1), Lose(), StopAtStepHook(num_steps=5)]
    drive(runner, [1.0, 2.0], hooks=hooks, folder=tmp_path)
    assert runner.step == 5 and lost == [3, 5]


# NanTensorHook


@pytest.mark.parametrize("driven", [True, False])
def test_a_loss_that_is_not_a_number_raises_and_an_infinite_one_does_not(driven: bool) -> None:
    log: list[str] = []

    def go(runner: Runner, *hooks: Any) -> None:
        (drive if driven else fit)(runner, [1.0, inf, nan, 2.0], hooks=hooks)

    runner = plain()
    with pytest.raises(NanLossDuringTrainingError, match="'loss' is NaN; lower the learning rate") as caught:
        go(runner, NanTensorHook("loss"), Trail("hook", log))
    assert isinstance(caught.value, NanLossError) and isinstance(caught.value, RuntimeError)
    assert runner.iter == 2 and log[-1] == "hook.before"
    runner = plain()
    go(runner, NanTensorHook("loss", fail_on_nan_loss=False), Trail("hook", log))
    assert runner.iter == 3 and log[-1] == "hook.end"


# LoggingTensorHook


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if " = " in record.getMessage()]


def test_values_are_logged_every_so_many_iterations(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    caplog.set_level(logging.INFO)
    runner = plain(hooks=[Takes(clock, 0.5), LoggingTensorHook(["loss", "global_step"], every_n_iter=3)])
    runner.fit([float(place) for place in range(8)])
    assert lines(caplog) == [
        "loss = 0, global_step = 0",
        "loss = 3, global_step = 3 (1.500 sec)",
        "loss = 6, global_step = 6 (1.500 sec)",
    ]
    runner.max_epochs = 2
    runner.fit([0.0])  # each run counts anew
    assert lines(caplog)[3:] == ["loss = 0, global_step = 8"]


def test_values_are_logged_every_so_many_seconds(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    caplog.set_level(logging.INFO)
    runner = plain(hooks=[Takes(clock, 1.0), LoggingTensorHook({"z": "lr", "a": "loss"}, every_n_secs=2.5)])
    runner.fit([1.0, 2.0, 3.0, 4.0, 5.0])
    assert lines(caplog) == ["a = 1, z = 0.1", "a = 4, z = 0.1 (3.000 sec)"]


# All of them


@pytest.mark.parametrize(
    ("hook", "options", "error", "says"),
    [
        (LoggingTensorHook, {"tensors": [], "every_n_iter": 1.5}, HookTypeError, "whole number"),
        (
            LoggingTensorHook,
            {"tensors": [], "every_n_secs": -1},
            HookOptionError,
            "give a number from 0 up",
        ),
        (LoggingTensorHook, {"tensors": [], "every_n_secs": nan}, HookOptionError, "give a finite number"),
        (LoggingTensorHook, {"tensors": [], "every_n_secs": "1"}, HookTypeError, "is not a number"),
        (StopAtStepHook, {}, ValueError, "StopAtStepHook: give num_steps or last_step; neither is given"),
        (StopAtStepHook, {"num_steps": 1, "last_step": 1}, ValueError, "StopAtStepHook: .*both are given"),
        (StopAtStepHook, {"num_steps": -1}, ValueError, "StopAtStepHook"),
        (LoggingTensorHook, {"tensors": ["loss"], "every_n_iter": 0}, ValueError, "LoggingTensorHook"),
        (
            LoggingTensorHook,
            {"tensors": "loss", "every_n_iter": 1},
            HookTypeError,
            "give a list of names, or a mapping",
        ),
        (LoggingTensorHook, {"tensors": []}, HookOptionError, "neither is given"),
        (LoggingTensorHook, {"tensors": [], "every_n_iter": 1, "every_n_secs": 1}, HookOptionError, "both are given"),
        (LoggingTensorHook, {"tensors": [3], "every_n_iter": 1}, HookTypeError, "fetches 3"),
    ],
)
def test_wrong_options_are_refused(hook: Any, options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        hook(**options)
