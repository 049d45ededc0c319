"""A run that the user drives is the run of `fit`, and leaves nothing behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import HookTypeError, Return, hooks
from aspecthook.training import Runner, TrainingError
from aspecthook.training.keras import Callback
from aspecthook.training.session import (
    AbortedError,
    MonitoredTrainingSession,
    OutOfRangeError,
    SessionRunHook,
    StopAtStepHook,
)
from tests.training.loop.test_runner import Everything
from tests.training.session.kit import Trail, drive, fit, plain


class Once:
    """Data that do not tell how many they are."""

    def __init__(self, batches: list[float]) -> None:
        self.batches = batches

    def __iter__(self) -> Any:
        return iter(self.batches)


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([{"max_epochs": 1}, {"max_epochs": 3}, {"max_epochs": None, "max_iters": 5}]),
    st.sampled_from([None, [("train", 1)], [("train", 2), ("val", 1)], [("val", 1), ("train", 2), ("val", 2)]]),
    st.integers(0, 9),
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from([("train_iter", "pre"), ("train_iter", "post"), ("train_epoch", "pre"), ("train_epoch", "post")]),
)
def test_the_stages_are_those_of_fit(
    batches: int, accumulate: int, end: dict[str, Any], workflow: Any, stop: int, skip: int, sized: bool, where: Any
) -> None:
    def made() -> tuple[Runner, Everything]:
        options = {} if workflow is None else {"workflow": workflow}
        runner = plain(accumulate=accumulate, **end, **options)
        stage, kind = where
        asks = hooks(getattr(runner, stage))
        asks.add(kind, lambda runner: runner.request_stop() if runner.iter == stop else None)
        hooks(runner.train_iter).pre(lambda runner: Return(None) if runner.iter == skip else None)
        if runner.by_epoch:
            hooks(runner.train_epoch).pre(lambda epoch: Return(None) if epoch == skip else None)
        return runner, runner.register_hook(Everything())

    data: Any = [float(place) for place in range(1, batches + 1)]
    train, val = data if sized else Once(data), None if workflow == [("train", 1)] else [1.0]
    fitted, theirs = made()
    fitted.fit(train, val)
    driven, ours = made()
    drive(driven, train, val)
    assert ours.trail == theirs.trail and ("before_run" in ours.trail[0]) and ("after_run" in ours.trail[-1])
    assert driven.progress.state_dict() == fitted.progress.state_dict() and driven.logs == fitted.logs


def test_between_two_steps_the_user_may_validate() -> None:
    runner = plain(max_epochs=2)
    seen: list[float] = []
    hooks(runner.train_iter).pre(lambda batch, mode, inner_iter: seen.append((batch, mode, inner_iter)))
    with MonitoredTrainingSession(runner, [1.0, 2.0]) as session:
        while not session.should_stop():
            session.run()
            assert runner.validate([5.0, 6.0, 7.0])["val_loss"] == 6.0
    assert seen == [(1.0, "train", 0), (2.0, "train", 1)] * 2


def test_a_step_after_the_end_is_refused() -> None:
    with MonitoredTrainingSession(plain(), [1.0], hooks=[StopAtStepHook(last_step=1)]) as session:
        session.run()
        for _ in range(2):
            assert session.should_stop()
            with pytest.raises(RuntimeError, match="run was called after the session was asked to stop"):
                session.run()
            session.close()


def test_data_of_unknown_length_end_the_block_quietly() -> None:
    log: list[str] = []
    with MonitoredTrainingSession(plain(), Once([1.0, 2.0]), hooks=[Trail("hook", log)]) as session:
        with pytest.raises(OutOfRangeError, match="no more batches") as caught:
            while True:
                session.run()
        raise caught.value
    assert log[-3:] == ["hook.before", "hook.after", "hook.end"] and session.runner.iter == 2


def test_a_session_without_an_end_fails_where_its_only_pass_is_over() -> None:
    """It ended as if it had been asked to."""
    runner = plain(max_epochs=None)
    with pytest.raises(TrainingError, match=r"had no batches in epoch 2: .* an iterator that has only one pass; give"):
        drive(runner, iter([1.0, 2.0]))
    assert (runner.iter, runner.epoch, runner.busy) == (2, 1, False)


@pytest.mark.parametrize("error", [ValueError("user"), KeyboardInterrupt(), AbortedError("user's own")])
def test_an_error_of_the_user_ends_the_run_and_is_raised_again(error: BaseException) -> None:
    log: list[str] = []
    runner = plain()
    for name in ("run", "train_epoch"):
        hooks(getattr(runner, name)).exception(BaseException)(lambda exc, name=name: log.append(f"{name} {exc!r}"))
        hooks(getattr(runner, name)).always(lambda name=name: log.append(f"{name} over"))
    with (
        pytest.raises(type(error)) as caught,
        MonitoredTrainingSession(runner, [1.0, 2.0], hooks=[Trail("hook", log)]) as session,
    ):
        session.run()
        raise error
    assert caught.value is error and caught.traceback[-1].path == Path(__file__)
    assert len(caught.traceback) == 1
    told = [f"{place} {what}" for place in ("train_epoch", "run") for what in (repr(error), "over")]
    assert log == ["hook.begin", "hook.create", "hook.before", "hook.after", *told]
    assert session.should_stop() and not runner.hooks


STAGES = ["train_epoch", "train_iter", "optimizer_step", "val_loop", "val_epoch"]


@pytest.mark.parametrize("kind", ["pre", "post"])
@pytest.mark.parametrize(
    ("stage", "error"),
    [*((stage, OutOfRangeError) for stage in STAGES), *((stage, StopIteration) for stage in STAGES[1:])],
)
def test_a_quiet_error_of_any_stage_ends_a_driven_run_as_it_ends_a_fit(
    stage: str, kind: str, error: type[Exception]
) -> None:
    """Those after `train_epoch`, and a StopIteration of a validation failed a driven run."""

    def fail() -> None:
        raise error("no more")

    def ended(driven: bool) -> tuple[list[str], int, int]:
        log: list[str] = []
        runner, hook = plain(max_epochs=3), Trail("a", log)
        hooks(getattr(runner, stage)).add(kind, fail)
        (drive if driven else fit)(runner, [1.0, 2.0], [3.0], hooks=[hook])
        return log, runner.iter, runner.epoch

    by_fit = ended(driven=False)
    assert by_fit[0][-1] == "a.end"
    assert ended(driven=True) == by_fit


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("error", [None, StopIteration(), OutOfRangeError("over")])
def test_a_session_makes_no_more_steps_than_the_user_whatever_quiet_error_ends_the_block(
    error: Exception | None, steps: int
) -> None:
    log: list[str] = []
    with MonitoredTrainingSession(plain(max_epochs=3), [1.0, 2.0], hooks=[Trail("hook", log)]) as session:
        for _ in range(steps):
            session.run()
        if error is not None:
            raise error
    assert log == ["hook.begin", "hook.create", *["hook.before", "hook.after"] * steps, "hook.end"]


def test_a_session_leaves_nothing_on_the_runner_nor_alive() -> None:
    log: list[str] = []
    runner = plain()
    mine = runner.register_hook(Trail("mine", log))
    with MonitoredTrainingSession(runner, [1.0], hooks=[Trail("its", log), Everything(), Callback()]) as session:
        assert len(runner.hooks) == 5  # one is the lifecycle of callbacks, which stayed
        session.run("loss")
    assert runner.hooks == [mine]
    runner.fit([1.0])
    gone = weakref.ref(runner)
    del runner, session
    gc.collect()
    assert gone() is None


def test_a_session_that_cannot_begin_leaves_nothing_on_the_runner() -> None:
    class Fails(SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            raise ValueError("create")

    runner = plain()
    for hook in (Fails(), "no hook", {"type": "NoSuch"}):
        with pytest.raises((ValueError, TypeError)):
            MonitoredTrainingSession(runner, [1.0], hooks=[Trail("hook", []), hook])
        assert not runner.hooks and not hooks(runner.run) and not hooks(runner.train_iter)
    with pytest.raises(TrainingError, match="it is empty"):
        MonitoredTrainingSession(runner, [], hooks=[Trail("hook", [])])
    assert not runner.hooks
    with pytest.raises(TrainingError, match="without an optimizer"):
        MonitoredTrainingSession(Runner(lambda x: x), [1.0])
    with MonitoredTrainingSession(runner, [1.0]) as session:
        with pytest.raises(TrainingError, match="while this runner is fitting"):
            MonitoredTrainingSession(runner, [1.0])
        session.run()


def test_a_step_inside_a_step_is_refused() -> None:
    runner = plain()
    hooks(runner.train_iter).post(lambda: session.run())
    with (
        pytest.raises(TrainingError, match="run was called inside a step; read values with run_context.session.run"),
        MonitoredTrainingSession(runner, [1.0, 2.0]) as session,
    ):
        session.run()


@pytest.mark.parametrize("stage", ["run", "train_epoch"])
def test_an_around_hook_of_a_stage_that_is_held_open_is_refused(stage: str) -> None:
    runner = plain()
    hooks(getattr(runner, stage)).around(lambda proceed: proceed())
    with pytest.raises(HookTypeError, match=f"Runner.{stage} has the around hook .*pre and a post hook"):
        drive(runner, [1.0])


def test_an_around_hook_with_one_yield_stands_around_many_steps() -> None:
    runner, log = plain(max_epochs=2), list[str]()

    def around(epoch: int, mode: str) -> Any:
        log.append(f"{mode} {epoch} begins")
        yield
        log.append(f"{mode} {epoch} ends")

    hooks(runner.run).around(around)
    hooks(runner.train_epoch).around(around)
    drive(runner, [1.0, 2.0], hooks=[Trail("hook", log)])
    epochs = [[f"train {n} begins", *["hook.before", "hook.after"] * 2, f"train {n} ends"] for n in (0, 1)]
    # The session is made inside of what stands around the run already.
    assert log == ["hook.begin", "train 0 begins", "hook.create", *epochs[0], *epochs[1], "train 0 ends", "hook.end"]


# Interrupts

PROGRAM = """
import os, signal, sys
from aspecthook import hooks
from aspecthook.training.session import MonitoredTrainingSession
from tests.training.session.kit import plain

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
runner = plain(max_epochs=2)
kill = lambda: os.kill(os.getpid(), signal.{signal})
if {inside}:
    hooks(runner.forward).pre(lambda runner: kill() if runner.iter == 1 else None)
try:
    with MonitoredTrainingSession(runner, [1.0, 2.0, 3.0], checkpoint_dir={folder!r}) as session:
        while not session.should_stop():
            session.run()
            if runner.iter == 2 and not {inside}:
                kill()
                print("not reached", flush=True)
finally:
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, runner.iter, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_ends_the_step_saves_and_is_raised_again(name: str, inside: bool, tmp_path: Path) -> None:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    program = PROGRAM.format(signal=name, folder=str(tmp_path), inside=inside)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == -getattr(signal, name), done.stderr
    assert done.stdout == ("True 2\n" if name == "SIGINT" else "")
    again = plain(max_epochs=2)
    with MonitoredTrainingSession(again, [1.0, 2.0, 3.0], checkpoint_dir=tmp_path) as session:
        assert again.iter == 2
        while not session.should_stop():
            session.run()
    assert again.iter == 6
