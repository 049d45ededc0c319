"""Checkpoints that a thread writes: the same files, in the same order, with the same errors as synchronous ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aspecthook.training import EMAHook, EvalHook, Hook, Runner, TrainingError
from aspecthook.training.checkpoint import load
from aspecthook.training.hooks._checkpoint import CheckpointHook
from aspecthook.training.loop import _runner
from tests.training.kit import both, data, run_of, same, state

Write = Callable[..., None]


class Score(Hook):
    def __init__(self, scores: list[float]) -> None:
        self.scores = scores

    def after_val_epoch(self, runner: Runner) -> None:
        runner.log(val_acc=self.scores[runner.iter % len(self.scores)])


class Counted(Hook):
    """Its state is the array that it works with."""

    def __init__(self) -> None:
        self.seen = np.zeros(3)

    def after_train_iter(self, runner: Runner) -> None:
        self.seen += 1

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}


def without_times(checkpoint: dict[str, Any]) -> dict[str, Any]:
    del checkpoint["meta"]["saved"], checkpoint["meta"]["identity"]
    return checkpoint


def flat(tree: Any) -> Any:
    """Return a tree that `==` compares."""
    if isinstance(tree, dict):
        return {key: flat(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [flat(value) for value in tree]
    return (str(tree.dtype), tree.shape, tree.tobytes()) if isinstance(tree, np.ndarray) else repr(tree)


def contents(folder: Path) -> dict[str, Any]:
    return {path.name: flat(without_times(load(path))) for path in folder.glob("*.safetensors")}


def slowed(monkeypatch: pytest.MonkeyPatch, write: Callable[[Write, Any], None]) -> None:
    """Replace what writes a file by a function that is given it, and its path."""
    original = _runner.write_packed
    monkeypatch.setattr(_runner, "write_packed", lambda path, *rest: write(lambda: original(path, *rest), path))


def after(event: threading.Event) -> Callable[[Write, Any], None]:
    """Write each file once an event has come."""

    def write_later(write: Write, path: Any) -> None:
        assert event.wait(60)
        write()

    return write_later


@both
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=10)
@given(
    interval=st.integers(0, 4),
    by_epoch=st.booleans(),
    max_keep=st.sampled_from([None, 1, 2]),
    scores=st.lists(st.integers(0, 3).map(float), min_size=1, max_size=6),
)
def test_a_run_that_saves_in_the_background_leaves_the_same_files(
    library: str,
    tmp_path_factory: pytest.TempPathFactory,
    interval: int,
    by_epoch: bool,
    max_keep: int | None,
    scores: list[float],
) -> None:
    found: list[Any] = []
    for asynchronous in (False, True):
        folder = tmp_path_factory.mktemp("run")
        hook = CheckpointHook(
            interval, by_epoch=by_epoch, max_keep=max_keep, save_best="acc", rule="greater", asynchronous=asynchronous
        )
        each = EvalHook(data(1), by_epoch=by_epoch)
        runner = run_of(library, hooks=[Score(scores), Counted(), EMAHook(), each, hook], work_dir=folder)
        runner.fit(data(4))
        files = contents(folder)
        for file in files.values():  # old files are removed a little later, and are listed until then
            own = file["hooks"]["CheckpointHook"]
            own["best"]["files"] = own["best"]["files"][-1:]
            own["last"]["files"] = own["last"]["files"][-max_keep if max_keep else 0 :]
        found.append((files, [path.name for path in hook.kept], hook.best and hook.best.name, hook.best_score))
        assert not any("checkpoint" in thread.name for thread in threading.enumerate())
    assert found[0] == found[1]


@both
def test_training_continues_while_a_file_is_written(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = threading.Event()
    came: list[bool] = []

    def late(write: Callable[[], None], path: Path) -> None:
        came.append(trained.wait(60))
        write()

    class Watch(Hook):
        def __init__(self) -> None:
            self.states: list[Any] = []

        def after_train_iter(self, runner: Runner) -> None:
            self.states.append(state(runner))
            if runner.iter == 3:
                trained.set()

    slowed(monkeypatch, late)
    watch, counted = Watch(), Counted()
    saving = CheckpointHook(3, by_epoch=False, asynchronous=True)
    runner = run_of(library, hooks=[watch, counted, saving], work_dir=tmp_path, max_epochs=1)
    runner.fit(data(5))
    assert came[0]  # the fourth iteration was made before the third was saved
    saved = load(tmp_path / "iter_3.safetensors")
    assert same(saved["model"], watch.states[2])
    assert not same(saved["model"], state(runner))
    assert saved["hooks"]["Counted"]["seen"].tolist() == [3, 3, 3]


def test_an_array_that_a_hook_puts_into_a_checkpoint_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Add(Hook):
        live = np.zeros(2)

        def before_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            checkpoint["model"]["0.bias"] = self.live  # in place, as hooks of mmengine do

    go = threading.Event()
    slowed(monkeypatch, after(go))
    runner = run_of("numpy", hooks=[Add()])
    path = runner.save_checkpoint(tmp_path / "a.safetensors", asynchronous=True)
    Add.live += 1
    go.set()
    runner.finish_saving()
    assert load(path)["model"]["0.bias"].tolist() == [0, 0]


def full(write: Callable[[], None], path: Path) -> None:
    raise TrainingError(f"{path.name}: the disk is full")


def test_the_error_of_a_file_is_raised_in_the_run_and_nothing_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sometimes(write: Callable[[], None], path: Path) -> None:
        (full if "3" in path.name else lambda write, path: write())(write, path)

    slowed(monkeypatch, sometimes)
    hook = CheckpointHook(1, by_epoch=False, max_keep=2, asynchronous=True)
    runner = run_of("numpy", hooks=[hook], work_dir=tmp_path)
    with pytest.raises(TrainingError, match=r"iter_3.safetensors: the disk is full"):
        runner.fit(data(9))
    assert 2 <= runner.iter <= 4  # noticed by the next save
    assert contents(tmp_path).keys() >= {"iter_2.safetensors"}
    assert not any(int(name[5]) > 2 for name in contents(tmp_path))
    assert hook.kept[-1].name == "iter_2.safetensors"
    monkeypatch.undo()
    runner.fit(data(9))  # the run goes on, and saves again
    assert load(hook.kept[-1])["progress"]["iter"] == runner.progress.iter


def test_what_was_noted_of_a_file_that_failed_is_taken_back_before_the_next_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was put back last."""
    slowed(monkeypatch, lambda write, path: full(write, path) if path.name == "iter_3.safetensors" else write())
    hook = CheckpointHook(1, by_epoch=False, max_keep=2, asynchronous=True)
    runner = run_of("numpy", hooks=[hook], work_dir=tmp_path, max_epochs=1)
    with pytest.raises(TrainingError, match=r"iter_3.safetensors: the disk is full"):
        runner.fit(data(5))
    assert [path.name for path in hook.kept] == ["iter_1.safetensors", "iter_2.safetensors"]
    assert hook.state_dict()["last"]["mark"] == 2
    assert contents(tmp_path).keys() == {"iter_1.safetensors", "iter_2.safetensors"}


def test_an_error_of_the_run_reaches_the_caller_and_that_of_a_file_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing = threading.Event()

    class Fail(Hook):
        priority = "LOWEST"

        def before_train_iter(self, runner: Runner) -> None:
            if runner.iter == 1:
                failing.set()
                raise KeyError("mine")

    slowed(monkeypatch, lambda write, path: after(failing)(lambda: full(write, path), path))
    runner = run_of("numpy", hooks=[CheckpointHook(1, by_epoch=False, asynchronous=True), Fail()], work_dir=tmp_path)
    with pytest.raises(KeyError, match="mine"):
        runner.fit(data(4))
    assert "the disk is full" in caplog.text
