"""A run that is resumed is as one that never ended, for callbacks too: ours, and Keras's own."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from aspecthook import Return, hooks
from aspecthook.training import EvalHook, Runner
from aspecthook.training import keras as ours
from tests.training.kit import data, registered, run_of, same, state, with_torch


class Killed(Exception):
    pass


class Told(ours.Callback):
    """Keeps what it is told of training, and how the model was then."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Any] = []

    def note(self, *row: Any) -> None:
        self.rows.append([*row, float(self.model.get_weights()[0].sum()), self.model.optimizer.learning_rate])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.note("begin", epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.note("end", epoch, dict(logs or {}))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.note("batch begin", batch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.note("batch end", batch, dict(logs or {}))

    def on_train_end(self, logs: Any = None) -> None:
        self.note("train end", dict(logs or {}))

    def state_dict(self) -> dict[str, Any]:
        return {"rows": list(self.rows)}

    def load_state_dict(self, state: Any) -> None:
        self.rows = list(state["rows"])


def callbacks_of(folder: Path) -> list[Any]:
    return [
        ours.LearningRateScheduler(lambda epoch, lr: lr * 0.9),
        ours.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.05, cooldown=1, mode="min"),
        ours.EarlyStopping("loss", patience=3, min_delta=0.05, restore_best_weights=True),
        ours.ModelCheckpoint(folder / "{epoch}-{batch}.keras", save_freq=4),
        ours.ModelCheckpoint(folder / "best-{epoch}.keras", monitor="loss", save_best_only=True),
        ours.CSVLogger(folder / "log.csv"),
        ours.History(),
        Told(),
    ]


RUNS: dict[str, dict[str, Any]] = {
    "trains": {"max_epochs": 6},
    "validates": {"max_epochs": 6, "workflow": [("train", 1), ("val", 1)]},
    "validates twice": {"max_epochs": 5, "workflow": [("train", 2), ("val", 2)]},
    "iterates": {"max_epochs": None, "max_iters": 17},
    "iterates and validates": {"max_epochs": None, "max_iters": 17, "workflow": [("train", 4), ("val", 1)]},
    "accumulates": {"max_epochs": 6, "accumulate": 3},
    "evaluates": {"max_epochs": 6},
}
# In an iteration where hooks that save are; around epochs anywhere, between what callbacks are told too.
MOMENTS = [("train_iter", "pre", 20), ("train_iter", "post", 95)] + [
    (stage, kind, priority)
    for stage in ("train_epoch", "val_epoch")
    for kind in ("pre", "post", "always")
    for priority in (20, 50, 95)
]


def made(name: str, folder: Path, how: str) -> tuple[Runner, list[Any]]:
    runner = run_of(how, **RUNS[name])
    folder.mkdir(parents=True, exist_ok=True)
    if name == "evaluates":
        runner.register_hook(EvalHook(data(2, seed=9)))
    callbacks = callbacks_of(folder)
    registered(runner, callbacks)
    # The files of the ModelCheckpoints: their names alone, for the sake of time.
    hooks(runner.write_checkpoint).pre(lambda path: (folder / path.stem).touch() or Return(path))
    return runner, callbacks


def fit(runner: Runner) -> None:
    runner.fit(data(3), data(2, seed=9) if any(mode == "val" for mode, _ in runner.workflow) else None)


def ending(runner: Runner, callbacks: list[Any], folder: Path) -> Any:
    states = [callback.state_dict() for callback in callbacks]
    states[2].pop("best_weights")
    names = sorted(path.name for path in folder.iterdir())
    return states, (folder / "log.csv").read_text(), names, runner.progress.state_dict()


def interrupted(
    name: str, folder: Path, how: str, moment: tuple[str, str, int], place: int
) -> tuple[Any, dict[str, Any]] | None:
    """Save at some moment, die, and go on in a new run; None if the run ended before."""
    saved: Any = None
    count = 0
    stage, kind, priority = moment
    if name == "evaluates" and (stage == "val_epoch" or (stage == "train_epoch" and priority < 50)):
        return None  # an EvalHook that was to validate, or was about to, does not when the run is resumed

    def save(runner: Runner) -> None:
        nonlocal count, saved
        count += 1
        if count == place:
            saved = deepcopy(runner.state_dict())
            raise Killed

    runner, _ = made(name, folder, how)
    hooks(getattr(runner, stage)).add(kind, save, priority=priority)  # type: ignore[arg-type]
    try:
        fit(runner)
        return None
    except Killed:
        pass
    again, callbacks = made(name, folder, how)
    again.restore(saved, resume=True)
    fit(again)
    return ending(again, callbacks, folder), state(again)


def whole(name: str, folder: Path, how: str) -> tuple[Any, dict[str, Any]]:
    runner, callbacks = made(name, folder, how)
    fit(runner)
    return ending(runner, callbacks, folder), state(runner)


def check(name: str, folder: Path, how: str = "numpy", moments: Any = MOMENTS) -> int:
    expected, expected_state = whole(name, folder / "whole", how)
    tried = 0
    for number, moment in enumerate(moments):
        for place in (2, 5, 9, 14) if moment[0] == "train_iter" else (1, 3, 4):
            found = interrupted(name, folder / f"{number}-{place}", how, moment, place)
            if found is None:
                break
            tried += 1
            assert found[0] == expected, (moment, place)
            assert same(found[1], expected_state), (moment, place)
    return tried


@pytest.mark.parametrize("name", RUNS)
def test_our_callbacks_resume_bit_by_bit_from_any_moment(name: str, tmp_path: Path) -> None:
    assert check(name, tmp_path) >= (14 if name == "evaluates" else 17)


@with_torch
def test_our_callbacks_resume_with_pytorch(tmp_path: Path) -> None:
    assert check("validates", tmp_path, "torch", MOMENTS[1::4]) >= 6
