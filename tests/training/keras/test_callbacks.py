"""The callbacks that there are, without Keras: when they act, the files that they write, and how they go on."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from functools import partial
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aspecthook import HookOptionError, hooks
from aspecthook.training import CheckpointHook, EarlyStoppingHook, Hook, Runner, TrainingError
from aspecthook.training import keras as k
from tests.training.keras.test_keras import fitted
from tests.training.kit import both, data, run_of, same, state

# Those that watch a number


class Constant(Hook):
    """Makes the numbers of training and validation what a test wants, by epochs."""

    def __init__(self, **values: list[float]) -> None:
        self.values = values

    def after_val_epoch(self, runner: Runner) -> None:
        runner.log({name: rows[runner.epoch - 1] for name, rows in self.values.items()})

    priority = "HIGHEST"


def watched(callback: Any, epochs: int | None = None, **values: list[float]) -> Runner:
    runner = run_of(
        "numpy", max_epochs=epochs or len(next(iter(values.values()))), hooks=[Constant(**values), callback]
    )
    runner.fit(data(2), data(1))
    return runner


@pytest.mark.parametrize(
    ("options", "values", "stopped"),
    [  # where Keras 3.15.1 stops
        ({}, [1.0, 2.0, 3.0], 1),
        ({"patience": 2}, [1.0, 2.0, 3.0, 4.0], 2),
        ({"patience": 2}, [1.0, 2.0, 0.5, 4.0, 0.5, 0.25], 4),
        ({"patience": 1, "min_delta": 0.5}, [1.0, 0.75, 0.25], 1),
        ({"patience": 1, "mode": "max"}, [1.0, 2.0, 3.0, 2.0, 9.0], 3),
        ({"patience": 2, "baseline": 0.5}, [1.0, 0.75, 0.6, 0.55, 0.7], 4),
        ({"patience": 1, "start_from_epoch": 2}, [1.0, 2.0, 3.0, 4.0, 5.0], 3),
        ({"patience": 0}, [nan, nan, 1.0], 1),
        ({"patience": 2}, [1.0, nan, nan, 0.5], 2),
        ({"patience": 1, "mode": "max"}, [1.0, nan, 2.0], 1),
        ({"patience": 1, "mode": "max"}, [1.0, 1.0, 2.0], 1),
        ({"patience": 2}, [1.0, 1.0, 1.0, 1.0], 2),
    ],
)
def test_early_stopping_stops_after_the_same_epoch_as_that_of_keras(
    options: Any, values: list[float], stopped: int
) -> None:
    stop = k.EarlyStopping("val_number", **{"mode": "min", **options})
    runner = watched(stop, val_number=values)
    assert (stop.stopped_epoch, runner.epoch) == (stopped, stopped + 1)


@both
def test_early_stopping_restores_the_best_weights_however_the_run_ends(library: str) -> None:
    for patience in (1, 9):
        runner = run_of(library, max_epochs=5)
        stop = runner.register_hook(k.EarlyStopping("val_x", patience=patience, restore_best_weights=True, mode="min"))
        best: list[Any] = []
        runner.register_hook(Constant(val_x=[3.0, 1.0, 2.0, 2.0, 2.0]))
        runner.register_hook(
            k.LambdaCallback(on_epoch_end=lambda epoch, logs, run=runner: best.append(state(run)))  # type: ignore[misc]
        )
        runner.fit(data(2), data(1))
        assert len(best) == (3 if patience == 1 else 5)
        assert stop.best_epoch == 1 and same(state(runner), best[1]) and not same(best[1], best[-1])


def test_a_run_that_early_stopping_ended_stops_again_when_resumed(tmp_path: Path) -> None:
    def made() -> Runner:
        return run_of(
            "numpy", max_epochs=9, hooks=[Constant(val_x=[1.0] * 9), k.EarlyStopping("val_x", patience=2, mode="min")]
        )

    runner = made()
    runner.fit(data(2), data(1))
    assert runner.epoch == 3
    saved = runner.save_checkpoint(tmp_path / "saved")
    again = made()
    again.resume(saved)
    again.fit(data(2), data(1))
    assert again.epoch == 3
    again.max_epochs = 12  # and another fit begins anew
    again.fit(data(2), data(1))
    assert again.epoch == 6


@pytest.mark.parametrize(
    ("patience", "cooldown", "rates"),  # by Keras 3.15.1: those that the epochs were trained with
    [
        (1, 2, [0.1, 0.1, 0.05, 0.05, 0.03, 0.03, 0.03, 0.03]),
        (2, 0, [0.1, 0.1, 0.1, 0.05, 0.05, 0.03, 0.03, 0.03]),
    ],
)
def test_the_plateau_lowers_the_rate_and_waits(patience: int, cooldown: int, rates: list[float]) -> None:
    plateau = k.ReduceLROnPlateau("val_x", 0.5, patience, cooldown=cooldown, min_lr=0.03, mode="min")
    history = k.History()
    runner = run_of("numpy", max_epochs=8, hooks=[Constant(val_x=[1.0] * 8), plateau, history])
    runner.fit(data(2), data(1))
    assert history.history["learning_rate"] == rates


@pytest.mark.parametrize(
    "make", [EarlyStoppingHook, k.EarlyStopping, k.ReduceLROnPlateau, partial(k.ModelCheckpoint, "x")]
)
def test_what_watches_another_number_does_not_take_the_best_one_of_a_checkpoint(make: Any) -> None:
    first, same_again, other = make(monitor="accuracy"), make(monitor="accuracy"), make(monitor="loss")
    name = "best" if hasattr(first, "best") else "best_score"
    setattr(first, name, 0.5)
    for one in (same_again, other):
        one.load_state_dict(first.state_dict())
    assert [getattr(one, name) for one in (same_again, other)] == [0.5, None]


def test_numbers_that_are_arrays_are_numbers_in_the_logs_and_in_checkpoints(tmp_path: Path) -> None:
    hooks_: list[Any] = [history := k.History(), k.EarlyStopping(), CheckpointHook()]
    runner = run_of("numpy", max_epochs=1, work_dir=tmp_path, hooks=hooks_)
    scalar = SimpleNamespace(shape=(), item=lambda: 0.5)  # of a library that checkpoints do not know
    hooks(runner.val_iter).post(lambda: runner.log(val_auc=scalar))
    runner.fit(data(1), data(1))
    assert history.history["val_auc"] == [0.5]


def test_mode_auto_asks_the_metrics_and_then_the_name() -> None:
    class Metric:
        name, _direction = "f1", "up"

    class Model:
        metrics = (Metric(),)

    assert k.EarlyStopping("val_accuracy").is_better(2.0, 1.0)
    assert k.EarlyStopping("val_loss").is_better(1.0, 2.0)
    watching = k.EarlyStopping("val_f1")
    with pytest.raises(HookOptionError, match="give mode='max' or mode='min'"):
        watching.is_better(1.0, 2.0)
    watching.set_model(Model())
    assert watching.is_better(2.0, 1.0)


def test_a_missing_monitored_number_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        runner = fitted(k.EarlyStopping("val_los", mode="min"), data(1), data(1), max_epochs=2)
    assert runner.epoch == 2
    assert "there is no 'val_los'; there are: loss, val_loss; did you mean 'val_loss'?" in caplog.text


@pytest.mark.parametrize(
    "make",
    [
        lambda name, folder: k.EarlyStopping(name),
        lambda name, folder: k.ReduceLROnPlateau(name),
        lambda name, folder: k.ModelCheckpoint(folder / "{epoch}", name, save_best_only=True),
    ],
)
def test_a_monitored_name_that_shows_no_mode_is_refused_before_the_first_epoch(make: Any, tmp_path: Path) -> None:
    runner = run_of("numpy", max_epochs=2)
    runner.register_hook(make("val_los", tmp_path))
    with pytest.raises(HookOptionError, match=r"'val_los' does not show .* or mode='min'; did you mean 'val_loss'\?"):
        runner.fit(data(1), data(1))
    assert runner.iter == 0
    fitted(k.ModelCheckpoint(tmp_path / "{epoch}", "val_los"), max_epochs=1)  # which saves always, and asks for no mode


# Those that write files


def test_model_checkpoint_files_can_be_resumed_from_and_names_have_epochs_batches_and_numbers(tmp_path: Path) -> None:
    template = str(tmp_path / "deep" / "{epoch:02d}-{loss:.1f}.keras")
    runner = run_of("numpy", max_epochs=2)
    runner.register_hook(k.ModelCheckpoint(template))
    runner.register_hook(k.ModelCheckpoint(str(tmp_path / "{epoch}-{batch}"), save_freq=3), name="batches")
    history = runner.register_hook(k.History())
    runner.fit(data(4))
    deep = sorted(path.name for path in (tmp_path / "deep").iterdir())
    assert deep == [f"{n + 1:02d}-{loss:.1f}.keras" for n, loss in enumerate(history.history["loss"])]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["1-3", "2-2"]
    again = run_of("numpy", max_epochs=2)
    again.resume(tmp_path / "2-2")
    again.fit(data(4))
    assert same(state(again), state(runner))


@pytest.mark.parametrize("weights_only", [False, True])
def test_model_checkpoint_saves_the_best_batch_from_the_first_on(weights_only: bool, tmp_path: Path) -> None:
    saved: list[str] = []
    runner = run_of("numpy", max_epochs=1)
    runner.register_hook(
        k.ModelCheckpoint(
            tmp_path / "{batch}", "loss", save_best_only=True, save_freq=1, save_weights_only=weights_only
        )
    )
    hooks(runner.write_checkpoint).pre(lambda path: saved.append(path.name))
    means: list[float] = []
    runner.register_hook(k.LambdaCallback(on_train_batch_end=lambda batch, logs: means.append(logs["loss"])))
    runner.fit(data(6))
    best = [str(n + 1) for n, mean in enumerate(means) if n == 0 or mean < min(means[:n])]
    assert saved == best


def test_model_checkpoint_counts_batches_that_keras_runs_together() -> None:
    saved: list[str] = []
    checkpoint = k.ModelCheckpoint("{batch}.keras", save_freq=4)
    checkpoint.set_model(SimpleNamespace(save=lambda path, **_: saved.append(path)))
    checkpoint.on_epoch_begin(0)
    for batch in (1, 3, 5, 7):  # Keras tells of the last batch of each step
        checkpoint.on_train_batch_end(batch, {})
    assert saved == ["4.keras", "8.keras"]


def test_a_csv_file_that_is_appended_to_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss\n0,0.5")  # without the end of a line
    logger = k.CSVLogger(path, append=True)
    logger.on_train_begin()
    logger.on_epoch_end(1, {"loss": 0.25})
    assert path.read_text().startswith("epoch,loss\n0,0.5")
    k.CSVLogger(path).on_train_begin()
    assert path.read_text() == ""


# Backups


@pytest.mark.parametrize("freq", ["epoch", 2])
def test_a_killed_run_resumes_from_its_backup(freq: Any, tmp_path: Path) -> None:
    def run(folder: Path, dies: int | None) -> tuple[Runner, list[Any]]:
        runner = run_of("numpy", max_epochs=3)
        callbacks: list[Any] = [
            k.BackupAndRestore(folder, save_freq=freq),
            k.ReduceLROnPlateau("loss", patience=0, min_delta=0.5),
            k.EarlyStopping("loss", patience=9, restore_best_weights=True),
            k.History(),
        ]
        hooks(runner.train_iter).pre(lambda step: 1 / 0 if step == dies else None, priority=0)
        for callback in callbacks:
            runner.register_hook(callback)
        runner.fit(data(4), data(1))
        return runner, callbacks

    whole, expected = run(tmp_path / "whole", None)
    for dies in range(1, 12):
        folder = tmp_path / str(dies)
        with pytest.raises(ZeroDivisionError):
            run(folder, dies)
        again, callbacks = run(folder, None)
        assert same(state(again), state(whole))
        assert callbacks[3].history == expected[3].history and callbacks[3].epoch == [0, 1, 2]
        assert not folder.exists()


def test_a_backup_outside_of_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="in a fit of Keras, use Keras's own"):
        k.BackupAndRestore(tmp_path).on_train_begin()


# The others


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_terminate_on_nan_stops_or_raises(value: float, capsys: pytest.CaptureFixture[str]) -> None:
    def diverge(runner: Runner) -> None:
        if runner.iter == 3:
            runner.logs = {"loss": value}

    for raising in (False, True):
        runner = run_of("numpy", max_epochs=2, hooks=[k.TerminateOnNaN(raise_error=raising)])
        hooks(runner.forward).post(diverge, priority=0)
        said = "after batch 2 of the epoch; lower the learning rate, clip the gradients, or"
        with pytest.raises(TrainingError, match=said) if raising else nullcontext():
            runner.fit(data(2))
        assert runner.iter == (3 if raising else 4)
    assert f"the loss is {value} after batch 2 of the epoch; training stops" in capsys.readouterr().out


@pytest.mark.parametrize("old", [False, True])
def test_a_schedule_sets_the_rate_of_each_epoch(old: bool) -> None:
    rates: list[float] = []
    scheduler = k.LearningRateScheduler((lambda epoch: 0.1 / (epoch + 1)) if old else (lambda epoch, lr: lr / 2))
    runner = run_of("numpy", max_epochs=3, hooks=[scheduler])
    history = runner.register_hook(k.History())
    hooks(runner.train_iter).pre(lambda optimizer: rates.append(optimizer.param_groups[0]["lr"]))
    runner.fit(data(1))
    assert rates == ([0.1, 0.05, 0.1 / 3] if old else [0.05, 0.025, 0.0125]) == history.history["learning_rate"]


@pytest.mark.parametrize("rate", [1, True, None, "0.1"])
def test_a_schedule_that_returns_no_float_is_refused(rate: Any) -> None:
    with pytest.raises(TrainingError, match="return a float"):
        fitted(k.LearningRateScheduler(lambda epoch, lr: rate))


def test_verbose_callbacks_print_what_they_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runner = run_of("numpy", max_epochs=2, hooks=[Constant(val_x=[1.0, 2.0])])
    watch: dict[str, Any] = {"monitor": "val_x", "mode": "min", "verbose": 1}
    for callback in (
        k.LearningRateScheduler(lambda epoch: 0.5, verbose=1),
        k.ReduceLROnPlateau(**watch, patience=1, factor=0.5),
        k.EarlyStopping(**watch, patience=1, restore_best_weights=True),
        k.ModelCheckpoint(tmp_path / "{epoch}", **watch, save_best_only=True),
    ):
        runner.register_hook(callback)
    runner.fit(data(1), data(1))
    assert capsys.readouterr().out.splitlines() == [
        "LearningRateScheduler: the learning rate of epoch 1 is 0.5",
        f"ModelCheckpoint: saved {tmp_path / '1'} in epoch 1",
        "LearningRateScheduler: the learning rate of epoch 2 is 0.5",
        "ReduceLROnPlateau: the learning rate after epoch 2 is 0.25",
        "ModelCheckpoint: val_x is 2.00000; the best was 1.00000",
        "EarlyStopping: ended after epoch 2; the best was 1.0",
        "EarlyStopping: the weights are those of epoch 1",
    ]
