"""Checkpoints of sessions: when they are saved, who is told, and that a resumed run is the run that was never ended."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import hooks
from aspecthook.training import EMAHook, LrUpdaterHook, Runner
from aspecthook.training.checkpoint import load
from aspecthook.training.session import (
    AbortedError,
    CheckpointSaverHook,
    LoggingTensorHook,
    MonitoredTrainingSession,
    SessionRunHook,
    StopAtStepHook,
)
from tests.training.kit import both, same
from tests.training.session.kit import drive, fit, loader, plain, runner_of


def steps_saved(folder: Path) -> list[int]:
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("model.ckpt-*.safetensors"))


@settings(max_examples=40)
@given(every=st.integers(1, 5), batches=st.integers(1, 9), accumulate=st.integers(1, 3), driven=st.booleans())
def test_it_saves_at_creation_every_so_many_steps_and_at_the_end(
    every: int, batches: int, accumulate: int, driven: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("saved")
    runner = plain(accumulate=accumulate)
    hook = CheckpointSaverHook(folder, save_steps=every, max_keep=None)
    saved: list[Path] = []
    hooks(runner.save_checkpoint).post(lambda result: saved.append(result))
    data = [1.0] * batches
    (drive if driven else fit)(runner, data, hooks=[hook])
    steps = -(-batches // accumulate)
    expected = sorted({*range(0, steps + 1, every), steps})
    assert steps_saved(folder) == expected and len(saved) == len(expected)
    assert all(load(hook.path(step))["progress"]["step"] == step for step in expected)


# Resuming


class Counts(SessionRunHook):
    """A hook with a state, which it changes after each step, late."""

    priority = "LOWEST"

    def __init__(self) -> None:
        self.losses: list[float] = []

    def before_run(self, run_context: Any) -> Any:
        from aspecthook.training.session import SessionRunArgs

        return SessionRunArgs("loss")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.losses.append(run_values.results)

    def state_dict(self) -> dict[str, Any]:
        return {"losses": list(self.losses)}

    def load_state_dict(self, state: Any) -> None:
        self.losses = list(state["losses"])


def hooks_of(folder: Path) -> list[Any]:
    return [
        Counts(),
        StopAtStepHook(num_steps=9),
        LoggingTensorHook(["loss"], every_n_iter=4),
        CheckpointSaverHook(folder, save_steps=2),
    ]


def made(library: str, accumulate: int) -> Runner:
    random.seed(3)
    runner = runner_of(library, max_epochs=9, accumulate=accumulate)
    runner.register_hook(LrUpdaterHook("cosine", min_lr=0.0, by_epoch=False, warmup="linear", warmup_iters=3))
    runner.register_hook(EMAHook("constant", momentum=0.1))
    return runner


def settled(state: dict[str, Any]) -> dict[str, Any]:
    """Leave out the clock, the folder among the options, and the file that a session saves as it is made."""
    state.pop("settings", None)
    for hook in state["hooks"].values():
        hook.pop("saved", None)
        hook.pop("ago", None)
    return state


@both
@pytest.mark.parametrize(("accumulate", "at"), [(1, 1), (1, 4), (1, 7), (2, 3), (2, 12), (2, 17)])
def test_a_resumed_run_is_the_run_that_was_never_ended(library: str, accumulate: int, at: int, tmp_path: Path) -> None:
    end = 9 * accumulate

    def go(folder: Path, until: int, resume: bool = False) -> Runner:
        runner = made(library, accumulate)
        with MonitoredTrainingSession(
            runner, loader(), hooks=hooks_of(folder), checkpoint_dir=folder if resume else None
        ) as session:
            assert runner.iter == (at if resume else 0)
            while not session.should_stop():
                session.run()
                if runner.iter == until:
                    runner.save_checkpoint(folder / "saved")
                    raise StopIteration
        return runner

    never = go(tmp_path / "whole", end)
    go(tmp_path / "part", at)
    for path in (tmp_path / "part").glob("model*"):
        path.unlink()
    again = go(tmp_path / "part", end, resume=True)
    assert again.iter == never.iter == end
    ours, theirs = (settled(state_of(tmp_path / name / "saved")) for name in ("whole", "part"))
    assert same(ours, theirs)


def state_of(path: Path) -> dict[str, Any]:
    state = load(path)
    del state["meta"]
    return state


@both
@pytest.mark.parametrize("at", [1, 4, 7])
def test_a_lost_session_goes_on_from_the_newest_checkpoint(library: str, at: int, tmp_path: Path) -> None:
    """What was made since that is made again, bit for bit."""
    lost: list[int] = []

    class Lose(SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            created.append(session.run("global_step"))

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if run_context.session.run("global_step") == at and not lost:
                lost.append(at)
                raise AbortedError("lost")

    def go(folder: Path, *hooks: Any) -> Runner:
        runner = made(library, 1)
        with MonitoredTrainingSession(
            runner,
            loader(),
            hooks=[Counts(), StopAtStepHook(last_step=9), *hooks],
            checkpoint_dir=folder,
            save_checkpoint_steps=3,
        ) as session:
            while not session.should_stop():
                results.append(session.run("global_step"))
        return runner

    created: list[int] = []
    results: list[int] = []
    never = go(tmp_path / "never")
    assert results == list(range(9))
    results.clear()
    again = go(tmp_path / "again", Lose())
    assert lost and created == [0, at - at % 3]
    assert results == [*range(at - 1), *range(at - at % 3, 9)]
    # The files are others: those that were made again.
    assert same(*(runner.backend.state(runner.model) for runner in (again, never)))
    ours, theirs = (settled(state_of(tmp_path / name / "model.ckpt-9.safetensors")) for name in ("again", "never"))
    assert same(ours, theirs)


@pytest.mark.parametrize(
    ("options", "saves"),
    [({}, (600.0, None)), ({"save_checkpoint_steps": 5}, (None, 5)), ({"save_checkpoint_secs": 3.0}, (3.0, None))],
)
def test_a_session_with_a_folder_saves_every_ten_minutes_unless_told(options: Any, saves: Any, tmp_path: Path) -> None:
    with MonitoredTrainingSession(plain(), [1.0], checkpoint_dir=tmp_path / "one", **options) as session:
        (hook,) = session.runner.hooks
    assert (hook.every_secs, hook.every_steps) == saves  # steps and seconds are refused by the hook
    own = CheckpointSaverHook(tmp_path / "two", save_steps=1)
    with MonitoredTrainingSession(plain(), [1.0], hooks=[own], checkpoint_dir=tmp_path / "two") as session:
        assert session.runner.hooks == [own]
