"""Laws of all hooks at once: a run may end early and go on, a state is a copy, an evaluation leaves all as it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aspecthook import hooks
from aspecthook.training import (
    CheckpointHook,
    EarlyStoppingHook,
    EvalHook,
    JsonLoggerHook,
    LoggerHook,
    NanGuardHook,
    Row,
    Runner,
    keras,
)
from aspecthook.training.session import CheckpointSaverHook, LoggingTensorHook, StopAtStepHook
from tests.training.kit import Clock, flat, registered
from tests.training.loop.test_resume import data, make, outcome

HELD_OUT = list(data())[:2]


def ours(folder: Path) -> list[Any]:
    return [
        NanGuardHook("skip"),
        EvalHook(HELD_OUT, start=0, save_best="loss", out_dir=folder / "best"),
        CheckpointHook(0, save_best="val_loss"),
        EarlyStoppingHook("val_loss", patience=9),
    ]


def all_hooks(folder: Path) -> list[Any]:
    """Return hooks of every system that have a state."""
    return [
        *ours(folder),
        CheckpointHook(2, by_epoch=False, max_keep=2, out_dir=folder / "kept"),
        *(JsonLoggerHook(4), keras.History(), keras.ReduceLROnPlateau("val_loss", patience=1)),
        *(keras.EarlyStopping("loss", patience=9, restore_best_weights=True), keras.CSVLogger(folder / "log.csv")),
        keras.ModelCheckpoint(folder / "best-{epoch}", "loss", save_best_only=True, save_freq=4),
        *(StopAtStepHook(last_step=99), LoggingTensorHook(["loss"], every_n_iter=4)),
        CheckpointSaverHook(folder / "session", save_steps=5, max_keep=1),
    ]


def run_of(folder: Path, hooks: list[Any], accumulate: int = 1) -> Runner:
    runner = make(accumulate)
    runner.work_dir = folder
    return registered(runner, hooks)


ENDS: dict[str, Callable[[Runner], object]] = {
    "stops": lambda runner: runner.request_stop(),
    "fails": lambda _: 1 / 0,
    "interrupted": lambda _: (_ for _ in ()).throw(KeyboardInterrupt),
}
MOMENTS = [(stage, *when) for stage in ("train_iter", "train_epoch") for when in (("pre", 0), ("post", 100))]


Ends = list[tuple[int, tuple[str, str, int], str]]  # not before which iteration, where, and how


def fitted(folder: Path, left: Ends, accumulate: int) -> Any:
    """Fit a run until it is complete, though it ends early now and then; return all that can be seen of it."""
    rows: list[Row] = []
    late: list[int] = []
    runner = run_of(folder, [*ours(folder), LoggerHook(rows.append, 2, ignore_last=False)], accumulate)
    hooks(runner.train_iter).pre(lambda iter: runner.after_stage(lambda: late.append(iter)), priority=0)
    for moment in MOMENTS:

        def end(runner: Runner, moment: Any = moment) -> None:
            for one in [one for one in left if one[1] == moment and runner.iter >= one[0]][:1]:
                left.remove(one)
                ENDS[one[2]](runner)

        stage, kind, priority = moment
        hooks(getattr(runner, stage)).add(kind, end, priority=priority)  # type: ignore[arg-type]
    train = data()
    for _ in range(5):
        with suppress(ZeroDivisionError, KeyboardInterrupt):
            runner.fit(train)
    assert late == sorted(set(late)) and not (folder / "interrupted.ckpt").exists()
    return flat(outcome(runner)), rows, (runner.epoch, runner.iter, runner.step)


@settings(max_examples=15)
@given(
    st.lists(st.tuples(st.integers(0, 17), st.sampled_from(MOMENTS), st.sampled_from(sorted(ENDS))), max_size=3),
    st.integers(1, 2),
)
@example([(1, ("train_iter", "post", 100), "fails")], 1)
@example([(4, ("train_epoch", "post", 100), "fails")], 2)
@example([(12, ("train_iter", "pre", 0), "fails")], 1)
def test_a_run_that_has_ended_early_and_is_fitted_again_ends_as_the_whole_run(
    tmp_path_factory: pytest.TempPathFactory, ends: Ends, accumulate: int
) -> None:
    """What a hook had failed after was not counted: an iteration, or an epoch, was made again under its number."""
    assert fitted(tmp_path_factory.mktemp("ended"), [*ends], accumulate) == whole(accumulate)


@cache
def whole(accumulate: int) -> Any:
    with TemporaryDirectory() as folder:
        return fitted(Path(folder), [], accumulate)


def test_a_state_is_a_copy_that_neither_training_nor_a_run_that_is_resumed_from_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aspecthook.training.session._hooks.clock", Clock())
    states: list[dict[str, Any]] = []
    before: list[Any] = []

    def keep(runner: Runner) -> None:
        states.append(runner.state_dict())
        before.append(flat(states[-1]))

    runner = run_of(tmp_path / "a", all_hooks(tmp_path / "a"))
    hooks(runner.train_iter).add("post", keep, priority=95, every=7)
    runner.fit(data(), HELD_OUT)
    assert [flat(state) for state in states] == before and len(states) > 1
    again = run_of(tmp_path / "b", all_hooks(tmp_path / "b"))
    again.restore(states[-1], resume=True)
    assert flat(again.state_dict()) == before[-1]
    again.fit(data(), HELD_OUT)
    assert flat(states[-1]) == before[-1] and again.iter == 18


def test_an_evaluation_outside_of_a_run_changes_neither_the_states_of_hooks_nor_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aspecthook.training.session._hooks.clock", Clock())
    runner = run_of(tmp_path, [hook for hook in all_hooks(tmp_path) if not isinstance(hook, JsonLoggerHook)])
    for _ in range(2):
        before = flat(outcome(runner)), sorted(tmp_path.rglob("*"))
        for entry in ("validate", "test", "predict"):
            getattr(runner, entry)(HELD_OUT)
        after = {**flat(outcome(runner)), "logs": before[0]["logs"]}
        assert (after, sorted(tmp_path.rglob("*"))) == before
        runner.fit(data())


def test_ranks_other_than_the_first_write_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    backup = keras.BackupAndRestore(tmp_path / "backup", delete_checkpoint=False)
    runner = run_of(tmp_path, [*all_hooks(tmp_path), backup])
    runner.rank = 1
    runner.fit(data(), HELD_OUT)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [] and runner.iter == 18
    assert [line for line in caplog.messages if " = " in line or " sec" in line] == []
