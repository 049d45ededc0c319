"""The other sessions of TensorFlow: with a creator, without recovery, and steps by a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aspecthook import HookTypeError
from aspecthook.training.session import (
    AbortedError,
    CheckpointSaverHook,
    ChiefSessionCreator,
    MonitoredSession,
    MonitoredTrainingSession,
    SingularMonitoredSession,
    StopAtStepHook,
    WorkerSessionCreator,
)
from tests.training.kit import both, same, state
from tests.training.session.kit import Trail, drive, loader, plain, runner_of


@both
@pytest.mark.parametrize("kind", [MonitoredSession, SingularMonitoredSession])
def test_a_session_with_a_creator_makes_the_steps_of_a_training_session(kind: Any, library: str) -> None:
    expected = runner_of(library)
    drive(expected, loader())
    runner, log = runner_of(library), list[str]()
    before = list(runner.hooks)
    with kind(ChiefSessionCreator(runner, loader()), [Trail("a", log)]) as session:
        while not session.should_stop():
            session.run()
    assert same(state(runner), state(expected)) and runner.step == expected.step
    assert log[:2] == ["a.begin", "a.create"] and log[-1] == "a.end"
    assert runner.hooks == before


def test_a_session_with_a_creator_continues_from_the_newest_checkpoint_and_writes_none(tmp_path: Path) -> None:
    assert WorkerSessionCreator is ChiefSessionCreator
    first = runner_of()
    saver = CheckpointSaverHook(tmp_path, save_steps=100)
    with MonitoredSession(ChiefSessionCreator(first, loader()), [saver, StopAtStepHook(last_step=3)]) as session:
        while not session.should_stop():
            session.run()
    files = sorted(tmp_path.iterdir())
    second = runner_of()
    with MonitoredSession(ChiefSessionCreator(second, loader(), checkpoint_dir=tmp_path)) as session:
        assert session.run("global_step") == 3
        while not session.should_stop():
            session.run()
    whole = runner_of()
    drive(whole, loader())
    assert same(state(second), state(whole)) and sorted(tmp_path.iterdir()) == files


def test_a_lost_session_is_replaced_unless_it_is_singular() -> None:
    class Loses(Trail):
        lost = False

        def before_run(self, run_context: Any) -> Any:
            if not self.lost and run_context.session.run("global_step") == 1:
                self.lost = True
                raise AbortedError("gone")

    log: list[str] = []
    with MonitoredSession(ChiefSessionCreator(plain(), [1.0, 2.0, 3.0]), [Loses("a", log)]) as session:
        while not session.should_stop():
            session.run()
    assert log.count("a.create") == 2
    log.clear()
    runner = plain()
    with (
        pytest.raises(AbortedError, match="gone"),
        SingularMonitoredSession(ChiefSessionCreator(runner, [1.0, 2.0, 3.0]), [Loses("a", log)]) as session,
    ):
        while not session.should_stop():
            session.run()
    assert log.count("a.create") == 1 and runner.step == 1
    drive(runner, [1.0, 2.0], hooks=[Loses("b", log)])  # a training session of this runner recovers as ever
    assert log.count("b.create") == 2


def test_a_singular_session_has_the_session_of_its_hooks() -> None:
    with SingularMonitoredSession(ChiefSessionCreator(plain(), [1.0])) as session:
        assert session.raw_session() is session.session
        assert session.raw_session().run("global_step") == 0


def test_a_step_function_makes_steps_reads_values_and_ends_the_run() -> None:
    log: list[Any] = []

    def step_fn(step_context: Any) -> Any:
        if step_context.session.run("global_step") == 2:
            step_context.request_stop()
        return step_context.run_with_hooks("loss"), step_context.run_with_hooks("loss")

    runner = plain()
    with MonitoredTrainingSession(runner, [1.0, 2.0, 3.0, 4.0], hooks=[Trail("a", log)]) as session:
        while not session.should_stop():
            assert session.run_step_fn(step_fn) == (1.0, 2.0)
    assert runner.step == 2 and log[-1] == "a.end"


@pytest.mark.parametrize("step_fn", [None, lambda: None, lambda one, two: None])
def test_a_step_function_takes_one_argument(step_fn: Any) -> None:
    with (
        MonitoredTrainingSession(plain(), [1.0]) as session,
        pytest.raises(HookTypeError, match="run_step_fn.*give a function of one argument, step_context"),
    ):
        session.run_step_fn(step_fn)


def test_a_session_without_a_creator_is_refused() -> None:
    wrong: Any = plain()
    with pytest.raises(HookTypeError, match=r"MonitoredSession.*: give ChiefSessionCreator\(runner, data\)"):
        MonitoredSession(wrong)
