"""The estimator: training, evaluation and prediction from checkpoints, each with a runner of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import HookOptionError, HookTypeError
from aspecthook.training import Hook, TrainingError
from aspecthook.training import numpy as nn
from aspecthook.training.session import (
    CheckpointSaverHook,
    Estimator,
    NanLossDuringTrainingError,
    OutOfRangeError,
    SessionRunHook,
    StopAtStepHook,
)
from tests.training.kit import both, same
from tests.training.session.kit import Trail, drive, loader, plain, runner_of

DATA = [1.0, 2.0, 3.0, 4.0]


def of(library: str, folder: Path) -> Estimator:
    return Estimator(lambda: runner_of(library, max_epochs=None), folder)


def quick(folder: Path, model: Any = None, **options: Any) -> Estimator:
    return Estimator(lambda: plain(model, **({"max_epochs": None} | options)), folder)


# Training


@both
def test_training_is_that_of_a_session(library: str, tmp_path: Path) -> None:
    expected = runner_of(library, max_epochs=None)
    drive(expected, loader(), hooks=[StopAtStepHook(last_step=9)])
    of(library, tmp_path).train(loader, steps=4).train(loader, max_steps=9)
    runner = runner_of(library, max_epochs=None)
    runner.resume(tmp_path / "model.ckpt-9.safetensors")
    assert same(runner.backend.state(runner.model), expected.backend.state(expected.model))
    assert runner.progress.state_dict() == expected.progress.state_dict()


def test_steps_and_max_steps(tmp_path: Path) -> None:
    estimator, seen = quick(tmp_path), list[int]()

    class Steps(SessionRunHook):
        def end(self, session: Any) -> None:
            seen.append(session.run("global_step"))

    for options in ({"steps": 3}, {"steps": 3}, {"max_steps": 5}, {"max_steps": 7}, {}):
        estimator.train(lambda: DATA, hooks=[Steps()], **options)
    # After six steps, those up to the fifth need none. The last one goes on to the end of the pass over the data.
    assert seen == [3, 6, 6, 7, 8]
    quick(tmp_path / "other", max_epochs=2).train(lambda: DATA, hooks=[Steps()])
    assert seen[-1] == 8


# What each of the three refuses, and what ends each


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda it: it.train(lambda: DATA, steps=1, max_steps=1),
            HookOptionError,
            "both are given",
        ),
        (lambda it: it.train(lambda: DATA, steps=-1), HookOptionError, "steps=-1; give a number from 0 up"),
        (lambda it: it.train(DATA), HookTypeError, "give a function that returns the data"),
        (lambda it: it.train(lambda: 3), TrainingError, "what input_fn returned is int, which cannot be iterated"),
        (lambda it: it.train(lambda: [1.0, float("nan")]), NanLossDuringTrainingError, "'loss' is NaN"),
        (lambda it: it.evaluate(lambda: DATA), TrainingError, "there is no checkpoint in .*; call train first"),
        (lambda it: it.train(lambda: DATA).evaluate(lambda: DATA, steps=0), HookOptionError, "steps=0"),
        (lambda it: it.train(lambda: DATA).evaluate(lambda: iter(())), TrainingError, "the data for val had no batch"),
        (lambda _: Estimator(3, "x"), HookTypeError, "give a function that returns a Runner"),
        (
            lambda _: Estimator(lambda: 3, "x").train(lambda: DATA),
            HookTypeError,
            "of an Estimator returned an int",
        ),
    ],
)
def test_impossible_calls_of_an_estimator_are_refused(
    call: Any, error: type[Exception], says: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=says):
        call(quick(tmp_path))


# Evaluation


@both
def test_an_evaluation_is_a_validation_of_the_newest_checkpoint(library: str, tmp_path: Path) -> None:
    estimator = of(library, tmp_path).train(loader, hooks=[CheckpointSaverHook(tmp_path, save_steps=5)], steps=5)
    runner = runner_of(library)
    nn.manual_seed(4)
    before = runner.backend.rng_state()
    found = estimator.evaluate(loader)
    assert same(runner.backend.rng_state(), before)  # though a model was made, whose weights were drawn
    runner.load_checkpoint(tmp_path / "model.ckpt-5.safetensors")
    assert found == {"loss": runner.validate(loader())["val_loss"], "global_step": 5}


def test_so_many_batches_are_evaluated_and_no_more_are_read(tmp_path: Path) -> None:
    read: list[float] = []

    def data() -> Any:
        for batch in DATA:
            read.append(batch)
            yield batch

    def over() -> Any:
        yield 3.0
        raise OutOfRangeError("over")

    estimator = quick(tmp_path).train(lambda: DATA)
    assert estimator.evaluate(data, steps=2)["loss"] == 1.5
    assert read == [1.0, 2.0]
    assert estimator.evaluate(over)["loss"] == 3.0


def test_hooks_of_an_evaluation_are_called_at_its_steps(tmp_path: Path) -> None:
    log: list[str] = []

    class Stops(Trail):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            super().after_run(run_context, run_values)
            if len(self.results) == 2:
                run_context.request_stop()

    class Mm(Hook):
        def before_val_epoch(self) -> None:
            log.append("mm")

    hook = Stops("hook", log, ["loss", "epoch"])
    found = quick(tmp_path).train(lambda: DATA).evaluate(lambda: DATA, hooks=[hook, Mm()])
    once = ["hook.before", "hook.after"]
    assert log == ["hook.begin", "hook.create", "mm", *once, *once, "hook.end"]
    assert found["loss"] == 1.5 and hook.results == [[1.0, 0], [2.0, 0]]


# Prediction


@both
def test_predictions_are_those_of_the_newest_checkpoint(library: str, tmp_path: Path) -> None:
    estimator = of(library, tmp_path).train(loader, steps=3)
    runner = runner_of(library)
    runner.load_checkpoint(tmp_path / "model.ckpt-3.safetensors")
    expected = [np.asarray(one) for one in runner.predict(loader())]
    log: list[str] = []
    batches = estimator.predict(loader, hooks=[Trail("hook", log, ["output:3", "loss"])])
    assert all(type(one) is np.ndarray for one in batches) and same(batches, expected)
    assert log == ["hook.begin", "hook.create", *["hook.before", "hook.after"] * len(expected), "hook.end"]
