"""The real Keras: its callbacks on our runner, ours in its fit, and both told the same."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from aspecthook import hooks
from aspecthook.training import Runner, TrainingError
from aspecthook.training import keras as ours
from aspecthook.training.keras._callback import RunModel

if find_spec("keras") is None or find_spec("torch") is None:
    pytest.skip("Keras and PyTorch are not installed", allow_module_level=True)
os.environ.setdefault("KERAS_BACKEND", "torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import keras as theirs

import numpy as np
import torch

if theirs.backend.backend() == "numpy":
    pytest.skip("Keras does not train with NumPy", allow_module_level=True)

pytestmark = pytest.mark.torch

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(10, 3)).astype("f"), RNG.normal(size=(10, 1)).astype("f")
VX, VY = RNG.normal(size=(6, 3)).astype("f"), RNG.normal(size=(6, 1)).astype("f")
WEIGHT, BIAS = RNG.normal(size=(3, 1)).astype("f"), np.zeros(1, "f")


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def keras_model(lr: float = 0.125, momentum: float = 0.5) -> Any:
    model = theirs.Sequential([theirs.layers.Input((3,)), theirs.layers.Dense(1)])
    model.compile(theirs.optimizers.SGD(lr, momentum=momentum), "mse")
    model.set_weights([WEIGHT, BIAS])
    return model


def batches(x: Any, y: Any, size: int = 4) -> list[Any]:
    return [(x[place : place + size], y[place : place + size]) for place in range(0, len(x), size)]


def run_of(epochs: int = 3, *, lr: float = 0.125, momentum: float = 0.5, **options: Any) -> Runner:
    net = torch.nn.Linear(3, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor(WEIGHT.T))
        net.bias.zero_()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=momentum)
    return Runner(net, optimizer=optimizer, loss=torch.nn.functional.mse_loss, max_epochs=epochs, **options)


def weights(model: Any) -> list[Any]:
    return [np.asarray(row).ravel() for row in model.get_weights()]


def same(one: list[Any], other: list[Any]) -> bool:
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(one, other, strict=True))


def recorder(base: Any) -> Any:
    """Make a callback of either kind that overrides all, and notes what it is told."""
    told: list[Any] = []
    names = [
        name for name in dir(ours.Callback) if name.startswith("on_") and name not in ("on_batch_begin", "on_batch_end")
    ]

    def method(name: str) -> Callable[..., None]:
        def call(self: Any, *args: Any, **kwargs: Any) -> None:
            told.append((name, *args, *kwargs.values()))

        return call

    made = type("Recorder", (base,), {name: method(name) for name in names})()
    made.told = told
    return made


def comparable(
    told: list[Any], about: Callable[[Any], Any] = lambda value: pytest.approx(value, rel=1e-4)
) -> list[Any]:
    def value(given: Any) -> Any:
        return {name: about(one) for name, one in given.items()} if isinstance(given, dict) else given

    return [(name, *map(value, rest)) for name, *rest in told]


@pytest.mark.parametrize("frequency", [None, 1, 2, 3])
@pytest.mark.parametrize("base", [ours.Callback, theirs.callbacks.Callback], ids=["ours", "theirs"])
def test_our_callbacks_and_those_of_keras_get_the_same_calls_from_our_runner_and_from_keras(
    frequency: int | None, base: Any
) -> None:
    real, mine = recorder(base), recorder(base)
    model = keras_model()
    val = {} if frequency is None else {"validation_data": (VX, VY), "validation_freq": frequency}
    model.fit(X, Y, batch_size=4, epochs=4, shuffle=False, verbose=0, validation_batch_size=4, callbacks=[real], **val)
    model.evaluate(X, Y, batch_size=4, verbose=0, callbacks=[real])
    model.predict(X, batch_size=4, verbose=0, callbacks=[real])

    workflow = [("train", 1)] if frequency is None else [("train", frequency), ("val", 1)]
    runner = run_of(4, workflow=workflow)
    runner.register_hook(mine)
    runner.fit(batches(X, Y), None if frequency is None else batches(VX, VY))
    if frequency == 3:  # a run of ours ends with the validation of what is left, and Keras leaves it out
        at = [place for place, row in enumerate(mine.told) if row[0] == "on_test_begin"][1]
        until = at + 6
        mine.told[at:until] = []
        mine.told[at] = ("on_epoch_end", 3, {"loss": mine.told[at][2]["loss"]})
        mine.told[at + 1] = ("on_train_end", {"loss": mine.told[at + 1][1]["loss"]})
    runner.test(batches(X, Y))
    runner.predict(batches(X, Y))
    assert comparable(mine.told, lambda value: value) == comparable(real.told)
    assert same(weights(mine.model), weights(model))


# Callbacks of one kind on both, and of both kinds on one


def callbacks_of(library: Any) -> dict[str, Callable[[], list[Any]]]:
    return {
        "early": lambda: [library.EarlyStopping(patience=1, restore_best_weights=True, min_delta=0.02)],
        "plateau": lambda: [library.ReduceLROnPlateau(factor=0.5, patience=1, min_delta=0.05, cooldown=1, min_lr=0.02)],
        "schedule": lambda: [library.LearningRateScheduler(lambda epoch, lr: lr * 0.5), library.CSVLogger("log.csv")],
        "batches": lambda: [library.ModelCheckpoint("{epoch}-{batch}.keras", save_freq=2)],
        "weights": lambda: [library.ModelCheckpoint("{epoch}.weights.h5", save_weights_only=True)],
        "nan": lambda: [library.TerminateOnNaN()],
        "all": lambda: [
            library.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=0.5),
            library.CSVLogger("log.csv", separator=";"),
            library.EarlyStopping("loss", patience=3, restore_best_weights=True, min_delta=0.1),
            library.ModelCheckpoint("{epoch}-{loss:.3f}.keras", monitor="loss", save_best_only=True),
        ],
    }


def fitted(how: str, library: Any, case: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Train with callbacks of a library, on our runner or on Keras; give what was logged, the weights and the files."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = [*callbacks_of(library)[case](), library.History()]
    rate = 1e30 if case == "nan" else 0.5
    if how == "run":
        runner = run_of(8, lr=rate, momentum=0.0)
        for callback in made:
            runner.register_hook(callback)
        runner.fit(batches(X, Y), batches(VX, VY))
        found, lr = weights(RunModel(runner)), runner.optimizer.param_groups[0]["lr"]
    else:
        model = keras_model(rate, 0.0)
        model.fit(
            X, Y, 4, 8, validation_data=(VX, VY), validation_batch_size=4, shuffle=False, verbose=0, callbacks=made
        )
        found, lr = weights(model), float(model.optimizer.learning_rate.numpy())
    files = {path.name: path.read_text() if path.suffix == ".csv" else "" for path in folder.iterdir()}
    return made[-1].history, found, lr, files


@pytest.mark.parametrize("case", list(callbacks_of(ours)))
def test_our_callbacks_and_those_of_keras_decide_alike_on_our_runner_and_on_keras(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Any] = []
    for how in ("run", "fit"):
        mine = fitted(how, ours, case, tmp_path / f"{how} ours", monkeypatch)
        real = fitted(how, theirs.callbacks, case, tmp_path / f"{how} theirs", monkeypatch)
        assert repr(mine[0]) == repr(real[0])
        assert all((a == b).all() or np.isnan(a).all() for a, b in zip(mine[1], real[1], strict=True))
        assert mine[2:] == real[2:]
        assert len(mine[0]["loss"]) < 8 if case in ("early", "nan") else len(mine[0]["loss"]) == 8
        runs.append(real)
    if case != "nan":
        run, fit = runs
        assert run[0].keys() == fit[0].keys() and run[3].keys() == fit[3].keys()
        assert all(np.allclose(run[0][name], fit[0][name], rtol=1e-3) for name in run[0])
        assert same(run[1], fit[1]) and run[2] == pytest.approx(fit[2])


# What Keras decides by what it has compiled


def test_mode_auto_works_on_our_runner_and_on_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras_model()
    model.compile("sgd", "mse", metrics=["mae", theirs.metrics.R2Score(name="precise")])
    stops = [ours.EarlyStopping(name, patience=9) for name in ("val_mae", "val_precise", "val_loss")]
    model.fit(X, Y, validation_data=(VX, VY), epochs=2, verbose=0, callbacks=stops)
    assert [stop.is_better(1.0, 2.0) for stop in stops] == [True, False, True]

    real = theirs.callbacks.EarlyStopping("val_accuracy", patience=9)
    runner = run_of()
    hooks(runner.val_epoch).post(lambda runner: runner.logs.update(val_accuracy=float(runner.epoch)), priority=0)
    runner.register_hook(real)
    runner.fit(batches(X, Y), batches(VX, VY))
    assert (real.best, real.best_epoch) == (3.0, 2)
    runner = run_of()
    runner.register_hook(theirs.callbacks.EarlyStopping("val_f1"))
    with pytest.raises(ValueError, match="Pass `mode='max'`"):
        runner.fit(batches(X, Y), batches(VX, VY))


# Lists of callbacks, and callbacks of users


def test_callback_lists_of_ours_and_of_keras_work_on_our_runner_and_on_keras() -> None:
    for library in (ours, theirs.callbacks):
        alone, seen = recorder(ours.Callback), recorder(theirs.callbacks.Callback)
        both = library.CallbackList([alone, seen], add_history=True)
        runner = run_of()
        runner.register_hook(both)
        runner.fit(batches(X, Y), batches(VX, VY))
        assert alone.told == seen.told and len(alone.told) == 2 + 3 * (2 + 6 + 2 + 4)
        assert both.callbacks[2].epoch == [0, 1, 2]
    alone, seen = recorder(ours.Callback), recorder(theirs.callbacks.Callback)
    keras_model().fit(X, Y, epochs=2, verbose=0, callbacks=[ours.CallbackList([alone, seen])])
    assert alone.told == seen.told and len(alone.told) == 2 + 2 * 4


def test_a_resumed_callback_of_keras_begins_anew_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    runner, again = run_of(1), run_of(2)
    for one in (runner, again):
        one.register_hook(theirs.callbacks.EarlyStopping("loss", mode="min"))
    runner.fit(batches(X, Y))
    again.restore(runner.state_dict(), resume=True)
    again.fit(batches(X, Y))
    assert "EarlyStopping of Keras has no state, and begins anew" in caplog.text


def test_a_backup_of_keras_is_refused_on_our_runner(tmp_path: Path) -> None:
    """It would set the weights, and the run would begin with its first epoch."""
    with pytest.raises(TrainingError, match=r"restores fits of Keras; register that of aspecthook\.training\.keras"):
        run_of().register_hook(theirs.callbacks.BackupAndRestore(tmp_path))
