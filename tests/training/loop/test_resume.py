"""A run that is ended at any iteration and resumed is bit for bit the run that was never ended."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import hooks
from aspecthook.training import (
    CheckpointHook,
    CsvLoggerHook,
    EMAHook,
    Hook,
    JsonLoggerHook,
    LrUpdaterHook,
    OptimizerHook,
    PlotHook,
    ReportHook,
    Runner,
    TensorboardLoggerHook,
    TextLoggerHook,
    TrainingError,
)
from aspecthook.training.data import ArrayDataset, DataLoader
from aspecthook.training.keras import BackupAndRestore, CSVLogger, ModelCheckpoint
from aspecthook.training.numpy import SGD, Dropout, Linear, ReLU, Sequential, cross_entropy, manual_seed
from aspecthook.training.session import CheckpointSaverHook
from tests.training.kit import same


def data() -> DataLoader:
    made = np.random.Generator(np.random.PCG64(7))
    images, labels = made.normal(size=(22, 6)), made.integers(0, 3, 22)
    return DataLoader(ArrayDataset(images, labels), batch_size=4, shuffle=True)


class SaveAt(Hook):
    """Saves once, after some iteration, and stops."""

    def __init__(self, at: int, path: Path) -> None:
        self.at = at
        self.path = path

    def after_train_iter(self, runner: Runner, iter: int) -> None:
        if iter == self.at:
            runner.save_checkpoint(self.path)
            runner.request_stop()


def make(accumulate: int, *extra: Hook) -> Runner:
    random.seed(3)
    manual_seed(3)
    model = Sequential(Linear(6, 8), ReLU(), Dropout(0.4), Linear(8, 3))
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    runner = Runner(model, optimizer=optimizer, loss=cross_entropy, max_epochs=3, accumulate=accumulate, seed=5)
    runner.register_hook(LrUpdaterHook("cosine", min_lr=0.0, by_epoch=False, warmup="linear", warmup_iters=3))
    runner.register_hook(EMAHook("constant", momentum=0.1))
    runner.register_hook(OptimizerHook({"max_norm": 1.0}))
    for hook in extra:
        runner.register_hook(hook)
    return runner


def outcome(runner: Runner) -> dict[str, Any]:
    state = runner.state_dict()
    del state["meta"]
    state["hooks"].pop("SaveAt", None)
    return state


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("at", range(18))
def test_a_resumed_run_is_the_run_that_was_never_ended(at: int, accumulate: int, tmp_path: Path) -> None:
    whole = make(accumulate)
    whole.fit(data())
    saved = tmp_path / "saved.safetensors"
    ended = make(accumulate, SaveAt(at, saved))
    ended.fit(data())
    assert ended.iter == at + 1
    resumed = make(accumulate)
    resumed.resume(saved)
    resumed.fit(data())
    assert resumed.iter == whole.iter == 18
    assert same(outcome(resumed), outcome(whole))


class Raises(Hook):
    """Loads half of its state, and raises."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.counts = {"seen": 1}
        self.best = 0.0

    def after_train_iter(self) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.counts, "best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = self.loaded = state["best"]
        self.counts.update(state["counts"])
        if self.error is not None and state["best"] == 7.0:
            raise self.error


class Strange(Raises):
    """Has no state before the run begins, and loads only the first one that it is given."""

    def state_dict(self) -> dict[str, Any]:
        if self.best == 0.0:
            raise RuntimeError("before the run")
        return super().state_dict()


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (Raises(KeyError("secret")), "hook Raises cannot load its state.*KeyError.*secret"),
        (Strange(ValueError("half")), "hook Strange cannot load its state.*ValueError.*half"),
        (Raises(KeyboardInterrupt()), ""),
    ],
)
@pytest.mark.parametrize("trained", [False, True])
def test_what_cannot_be_restored_leaves_the_run_as_it_was(
    hook: Any, message: str, trained: bool, tmp_path: Path
) -> None:
    kind = type(hook)
    saving = kind()
    saving.best, saving.counts = 7.0, {"seen": 5, "more": 6}
    saved = make(2, SaveAt(2, tmp_path / "run"), saving)
    saved.fit(data())
    runner = make(2, hook)
    runner.identity = saved.identity
    ours: Any = runner.hooks[-1]
    ours.best, ours.counts = 3.0 if trained else 0.0, {"seen": 1}
    kept = dict(vars(ours))
    if trained:
        runner.register_hook(SaveAt(0, tmp_path / "ours"))
        runner.fit(data())
    strange = kind is Strange and not trained
    before = None if strange else outcome(runner)
    logs = dict(runner.logs)
    with pytest.raises((TrainingError, KeyboardInterrupt), match=f"(?s){message}"):
        runner.resume(tmp_path / "run")
    assert runner.resumed is False and runner.logs == logs and runner.reading.saved is None
    assert vars(ours) == kept
    if not strange:
        assert ours.counts["seen"] == 1
        assert same(outcome(runner), before)


def test_a_run_that_is_resumed_between_two_steps_has_no_gradients_from_before(tmp_path: Path) -> None:
    """The gradients of a group that had begun were added to those of the next group."""
    whole = make(2)
    whole.fit(data())
    saved = tmp_path / "between", tmp_path / "within"
    make(2, SaveAt(7, saved[0])).fit(data())
    make(2, SaveAt(4, saved[1])).fit(data())
    resumed = make(2)
    resumed.resume(saved[1])
    resumed.resume(saved[0], other_run=True)
    assert all(parameter.grad is None for parameter in resumed.model.parameters())
    resumed.fit(data())
    assert same(outcome(whole), outcome(resumed))


@pytest.mark.parametrize("at", [0, 1, 2, 3, 5])
def test_a_run_that_is_saved_between_its_resume_and_its_fit_keeps_the_gradients_of_a_group(
    at: int, tmp_path: Path
) -> None:
    """With OptimizerHook(cumulative_iters=4), which sets the size of groups in `fit`, they were dropped."""

    def grouped(*extra: Hook) -> Runner:
        runner = make(1)
        runner.remove_hook(runner.hooks[-1])
        for hook in (OptimizerHook({"max_norm": 1.0}, cumulative_iters=4), *extra):
            runner.register_hook(hook)
        return runner

    whole = grouped()
    whole.fit(data())
    grouped(SaveAt(at, tmp_path / "a")).fit(data())
    again = grouped()
    again.resume(tmp_path / "a")
    again.save_checkpoint(tmp_path / "b")
    third = grouped()
    third.resume(tmp_path / "b")
    third.fit(data())
    assert same(outcome(third), outcome(whole))


def test_a_refused_resume_changes_no_file(tmp_path: Path) -> None:

    def writing(*extra: Any) -> Runner:
        runner = make(1, *extra)
        runner.work_dir = tmp_path / "run"
        for hook in (
            CheckpointHook(1, by_epoch=False, max_keep=2, save_best="loss"),
            *(TextLoggerHook(1), JsonLoggerHook(1), CsvLoggerHook(1), TensorboardLoggerHook(1)),
            *(CSVLogger(tmp_path / "keras.csv"), ModelCheckpoint(tmp_path / "best", monitor="loss")),
            BackupAndRestore(tmp_path / "backup", delete_checkpoint=False),
            CheckpointSaverHook(tmp_path / "session", save_steps=2),
            *(PlotHook(), ReportHook()),
        ):
            runner.register_hook(hook)
        return runner

    first = writing(SaveAt(6, tmp_path / "a.ckpt"), last := Raises())
    last.best = 7.0
    first.fit(data())
    writing().fit(data())  # another run in the folder, so that there are older files too
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    again = writing(SaveAt(6, tmp_path / "b.ckpt"), Raises(ValueError("no")))
    with pytest.raises(TrainingError, match="the hook Raises cannot load its state"):
        again.resume(tmp_path / "a.ckpt", other_run=True)
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before


def test_each_rank_has_its_own_random_numbers_again() -> None:
    """Ranks that drew the same numbers would augment and drop out alike."""
    runner, states = make(1), list[Any]()
    for seed in (5, 7):
        random.seed(seed)
        states += runner.state_dict()["random"]
    state = runner.state_dict() | {"random": states}
    for rank, seed in ((0, 5), (1, 7), (2, 5)):  # three ranks, of a run that had two
        runner = make(1)
        runner.rank = rank
        runner.restore(state, resume=True)
        assert random.random() == random.Random(seed).random()


class StopsAtFour(Hook):
    """Stops a run after four iterations, and one that is resumed there at once, as early stopping does."""

    priority = "LOW"

    def before_run(self, runner: Runner, iter: int) -> None:
        if iter >= 4:
            runner.request_stop()

    def after_train_iter(self, runner: Runner, iter: int) -> None:
        if iter + 1 >= 4:
            runner.request_stop()


@pytest.mark.parametrize("by_hook", [False, True])
def test_a_run_that_was_stopped_in_the_last_iteration_of_an_epoch_ends_the_epoch_when_it_is_resumed_there(
    by_hook: bool, tmp_path: Path
) -> None:
    # A backup inside the epoch was resumed by a hook that stopped it at once, and the hooks after the epoch never ran.
    def run() -> Runner:
        manual_seed(3)
        model = Linear(6, 3)
        made = DataLoader(ArrayDataset(np.zeros((16, 6), np.float32), np.zeros(16, int)), batch_size=4)
        runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=cross_entropy, max_epochs=3, seed=5)
        runner.register_hook(StopsAtFour())
        if saved.exists() and by_hook:
            hooks(runner.run).pre(lambda runner: runner.resume(saved))
        elif saved.exists():
            runner.resume(saved)
        else:
            hooks(runner.train_iter).post(
                lambda runner: runner.after_stage(lambda: runner.save_checkpoint(saved)), when=lambda iter: iter == 3
            )
        runner.fit(made)
        return runner

    saved = tmp_path / "backup.safetensors"
    for runner in (run(), run()):
        assert (runner.epoch, runner.iter) == (1, 4)
