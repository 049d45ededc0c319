"""The estimator: training, evaluation and prediction, each in a session of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import ConfigError, HookOptionError, HookTypeError, hooks
from aspecthook.training import Hook, Runner, TrainingError
from aspecthook.training import numpy as nn
from aspecthook.training.session import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    Estimator,
    NanLossDuringTrainingError,
    OutOfRangeError,
    RunConfig,
    SessionRunHook,
    StopAtStepHook,
)
from tests.training.kit import Optimizer, both
from tests.training.session.kit import Model, Trail, drive, loader, plain, runner_of, same

DATA = [1.0, 2.0, 3.0, 4.0]


def made(library: str = "numpy") -> Any:
    def model_fn() -> Runner:
        return runner_of(library, max_epochs=None)

    return model_fn


def quick(folder: Path | None = None, **options: Any) -> Estimator:
    return Estimator(lambda: plain(max_epochs=None), folder, RunConfig(**options))


# Training


@both
@pytest.mark.parametrize("kept", [True, False])
def test_training_is_that_of_a_session(library: str, kept: bool, tmp_path: Path) -> None:
    expected = runner_of(library, max_epochs=None)
    drive(expected, loader(), hooks=[StopAtStepHook(last_step=9)])
    if kept:
        runner = runner_of(library, max_epochs=None)
        Estimator(runner).train(loader, steps=4).train(loader, steps=5)
    else:
        Estimator(made(library), tmp_path).train(loader, steps=4).train(loader, max_steps=9)
        runner = runner_of(library, max_epochs=None)
        runner.resume(tmp_path / "model.ckpt-9.safetensors")
    assert same(runner.backend.state(runner.model), expected.backend.state(expected.model))
    assert runner.progress == expected.progress


@pytest.mark.parametrize("folder", [True, False])
def test_steps_and_max_steps(folder: bool, tmp_path: Path) -> None:
    estimator, seen = quick(tmp_path if folder else None), list[int]()

    class Steps(SessionRunHook):
        def end(self, session: Any) -> None:
            seen.append(session.run("global_step"))

    for options in ({"steps": 3}, {"steps": 3}, {"max_steps": 5}, {"max_steps": 7}, {}):
        estimator.train(lambda: DATA, hooks=[Steps()], **options)
    # The last one goes on to the end of the pass over the data.
    assert seen == [3, 6, 7, 8]


def test_a_run_with_an_end_of_its_own_ends_there() -> None:
    runner = plain(max_epochs=2)
    Estimator(runner).train(lambda: DATA)
    assert runner.epoch == 2 and runner.max_epochs == 2
    runner = plain(max_epochs=None)
    Estimator(runner).train(lambda: DATA)
    assert runner.epoch == 1 and runner.max_epochs is None and runner.max_iters is None


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"steps": 1, "max_steps": 1}, HookOptionError, "give steps or max_steps; both are given"),
        ({"steps": 0}, HookOptionError, "steps=0; give a number from 1 up"),
        ({"max_steps": -1}, HookOptionError, "max_steps=-1"),
        ({"steps": 1.5}, HookTypeError, "not a whole number"),
        ({"input_fn": DATA}, HookTypeError, "give a function that returns the data"),
        ({"saving_listeners": [CheckpointSaverListener()]}, ConfigError, "give Estimator\\(model_dir=...\\)"),
        ({"input_fn": lambda x: DATA}, HookTypeError, "asks for 'x', and an Estimator offers mode, params"),
        ({"input_fn": lambda: 3}, TrainingError, "cannot be iterated"),
    ],
)
def test_training_that_cannot_be_is_refused(options: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        quick().train(**({"input_fn": lambda: DATA} | options))


def test_a_nan_loss_ends_the_training_with_an_error() -> None:
    with pytest.raises(NanLossDuringTrainingError):
        quick().train(lambda: [1.0, float("nan"), 2.0])


def test_model_fn_gets_the_arguments_that_it_asks_for(tmp_path: Path) -> None:
    seen: list[Any] = []

    def model_fn(mode: str, params: dict[str, Any], config: RunConfig, *, more: int = 3) -> Runner:
        seen.append((mode, params, config.save_summary_steps, more))
        return plain(max_epochs=None)

    def data(mode: str, model_dir: Path) -> Any:
        seen.append((mode, model_dir))
        return DATA

    estimator = Estimator(model_fn, tmp_path, RunConfig(save_summary_steps=7), {"lr": 1})
    estimator.train(data, steps=1)
    estimator.evaluate(data)
    list(estimator.predict(data))
    assert [row[0] for row in seen] == ["train", "train", "eval", "eval", "predict", "predict"]
    assert seen[0] == ("train", {"lr": 1}, 7, 3) and seen[1] == ("train", tmp_path)


def test_objects_that_are_not_models_are_refused() -> None:
    with pytest.raises(HookTypeError, match="give a function that returns a Runner, or a model"):
        Estimator(3)
    with pytest.raises(HookTypeError, match="the model_fn of an Estimator returned an int;"):
        Estimator(lambda: 3).train(lambda: DATA)
    estimator = Estimator(Model(), optimizer=Optimizer())
    assert estimator.train(lambda: DATA).evaluate(lambda: DATA) == {"loss": 2.5, "global_step": 4}


def test_checkpoints_are_saved_as_the_config_says(tmp_path: Path) -> None:
    told: list[int] = []

    class Listener(CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            told.append(global_step_value)

    estimator = quick(tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=2)
    estimator.train(lambda: DATA, steps=5, saving_listeners=[Listener()])
    assert told == [0, 2, 4, 5]
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        "model.ckpt-4.safetensors",
        "model.ckpt-5.safetensors",
    ]
    told.clear()
    own = CheckpointSaverHook(tmp_path / "own", save_steps=3)
    estimator.train(lambda: DATA, hooks=[own], steps=3, saving_listeners=[Listener()])
    assert told == [5, 8]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"save_checkpoints_steps": 1, "save_checkpoints_secs": 1.0},
            "RunConfig: give save_checkpoints_steps or save_checkpoints_secs; both are given",
        ),
        ({"save_checkpoints_steps": 0}, "RunConfig"),
        ({"keep_checkpoint_max": 0}, "RunConfig"),
    ],
)
def test_a_config_that_cannot_be_is_refused(options: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RunConfig(**options)


# Evaluation


@both
def test_an_evaluation_is_a_validation_of_the_newest_checkpoint(library: str, tmp_path: Path) -> None:
    estimator = Estimator(made(library), tmp_path)
    estimator.train(loader, steps=5)
    runner = runner_of(library)
    nn.manual_seed(4)
    before = runner.backend.rng_state()
    found = estimator.evaluate(loader)
    assert same(runner.backend.rng_state(), before)  # though a model was made, whose weights were drawn
    runner.load_checkpoint(tmp_path / "model.ckpt-5.safetensors")
    assert found == {"loss": runner.validate(loader())["val_loss"], "global_step": 5}
    first = estimator.evaluate(loader, checkpoint_path=tmp_path / "model.ckpt-0.safetensors")
    assert first["global_step"] == 0 and first["loss"] != found["loss"]


def test_a_model_in_memory_is_newer_than_its_checkpoints(tmp_path: Path) -> None:
    runner, seen = plain(max_epochs=None), list[int]()
    estimator = Estimator(runner, tmp_path, RunConfig(save_checkpoints_steps=100))

    class Evaluates(SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            seen.append(estimator.evaluate(lambda: DATA)["global_step"])

    estimator.train(lambda: DATA, hooks=[Evaluates()])
    assert seen == [1, 2, 3, 4]
    again = Estimator(plain(max_epochs=None), tmp_path)
    assert again.evaluate(lambda: DATA)["global_step"] == 4


def test_so_many_batches_are_evaluated_and_no_more_are_read() -> None:
    read: list[float] = []

    def data() -> Any:
        for batch in DATA:
            read.append(batch)
            yield batch

    assert quick().evaluate(data, steps=2)["loss"] == 1.5
    assert read == [1.0, 2.0]


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

    runner = plain(max_epochs=None)
    hook = Stops("hook", log, ["loss", "global_step"])
    found = Estimator(runner).evaluate(lambda: DATA, hooks=[hook, Mm()])
    once = ["hook.before", "hook.after"]
    assert log == ["hook.begin", "hook.create", "mm", *once, *once, "hook.end"]
    assert found["loss"] == 1.5 and hook.results == [[1.0, 0], [2.0, 0]]
    assert not runner.hooks and not hooks(runner.val_iter) and not runner.stopping


def test_data_that_say_they_are_at_their_end_end_an_evaluation() -> None:
    def data() -> Any:
        yield 3.0
        raise OutOfRangeError("over")

    assert quick().evaluate(data)["loss"] == 3.0


def test_an_evaluation_of_nothing_is_refused() -> None:
    with pytest.raises(TrainingError, match="the data for val had no batches in epoch 1"):
        quick().evaluate(lambda: iter(()))
    with pytest.raises(
        HookTypeError, match="input_fn returned an int, which cannot be iterated; return a loader, or a"
    ):
        quick().evaluate(lambda: 3)
    with pytest.raises(HookOptionError, match="steps=0"):
        quick().evaluate(lambda: DATA, steps=0)


@both
def test_an_evaluation_in_the_middle_of_a_training_leaves_it_as_it_was(library: str, tmp_path: Path) -> None:
    """Of a model in memory, and of another checkpoint at that."""

    def go(*extra: Any) -> Runner:
        runner = runner_of(library, max_epochs=None)
        estimator = Estimator(runner)

        class Evaluates(SessionRunHook):
            def after_run(self, run_context: Any, run_values: Any) -> None:
                for path in extra:
                    estimator.evaluate(loader, steps=2, checkpoint_path=path)
                    list(estimator.predict(loader, checkpoint_path=path))

        estimator.train(loader, hooks=[Evaluates()], steps=8)
        return runner

    saved = runner_of(library).save_checkpoint(tmp_path / "other")
    alone = go()
    watched = go(None, saved)
    assert same(alone.backend.state(alone.model), watched.backend.state(watched.model))
    assert alone.progress == watched.progress and alone.logs == watched.logs


# Prediction


@both
def test_predictions_come_sample_by_sample_and_only_when_asked_for(library: str, tmp_path: Path) -> None:
    estimator = Estimator(made(library), tmp_path).train(loader, steps=3)
    runner = runner_of(library)
    runner.load_checkpoint(tmp_path / "model.ckpt-3.safetensors")
    expected = [np.asarray(one) for one in runner.predict(loader())]
    batches = list(estimator.predict(loader, yield_single_examples=False))
    assert all(type(one) is np.ndarray for one in batches)
    assert same(batches, expected)
    assert same(list(estimator.predict(loader)), [row for one in expected for row in one])
    read: list[int] = []

    def data() -> Any:
        for place, batch in enumerate(loader()):
            read.append(place)
            yield batch

    log: list[str] = []
    predictions = estimator.predict(data, hooks=[Trail("hook", log, ["output:3", "loss"])])
    assert log == [] and read == []
    assert same(next(predictions), expected[0][0]) and read == [0]
    assert log == ["hook.begin", "hook.create", "hook.before", "hook.after"]
    predictions.close()
    assert log[4:] == []


def test_parts_of_predictions_may_be_chosen() -> None:
    class Dicts(Model):
        def __call__(self, batch: float) -> Any:
            return {"a": np.array([batch, batch + 1]), "b": np.array([[0.0], [1.0]]), "c": "all"}

    estimator = Estimator(Dicts(), optimizer=Optimizer())
    assert list(estimator.predict(lambda: [1.0], predict_keys=["a"])) == [{"a": 1.0}, {"a": 2.0}]
    assert [sorted(row) for row in estimator.predict(lambda: [1.0], predict_keys=("a", "b"))] == [["a", "b"]] * 2
    assert next(estimator.predict(lambda: [1.0], "c", yield_single_examples=False)) == {"c": "all"}
    with pytest.raises(TrainingError, match="no 'aa'; they have: a, b, c; did you mean 'a'"):
        list(estimator.predict(lambda: [1.0], predict_keys="aa"))
    with pytest.raises(TrainingError, match="divided into samples .*yield_single_examples=False"):
        list(estimator.predict(lambda: [1.0]))
    with pytest.raises(TrainingError, match="predict_keys need a model that returns dicts"):
        list(quick().predict(lambda: [1.0], predict_keys="a"))


def test_an_error_in_a_prediction_leaves_nothing() -> None:
    class Fails(Model):
        def __call__(self, batch: float) -> Any:
            raise ValueError("predict")

    log: list[str] = []
    runner = plain(Fails())
    with pytest.raises(ValueError, match="predict"):
        list(Estimator(runner).predict(lambda: [1.0], hooks=[Trail("hook", log)]))
    assert log == ["hook.begin", "hook.create", "hook.before"] and not hooks(runner.predict_iter)


def test_the_digits_are_learnt() -> None:
    from aspecthook.training.data import ArrayDataset, DataLoader, load_digits

    def digits(params: dict[str, Any]) -> Runner:
        nn.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, params["hidden"]), nn.ReLU(), nn.Linear(params["hidden"], 10))
        return Runner(model, optimizer=nn.AdamW(model.parameters(), lr=3e-3), loss=nn.cross_entropy, seed=0)

    images, labels = load_digits("train")
    data = ArrayDataset(images.reshape(-1, 64), labels)
    estimator = Estimator(digits, params={"hidden": 32})
    estimator.train(lambda: DataLoader(data, 32, shuffle=True), steps=200)
    guesses = np.array([row.argmax() for row in estimator.predict(lambda: DataLoader(data, 100))])
    assert (guesses == labels).mean() > 0.9
