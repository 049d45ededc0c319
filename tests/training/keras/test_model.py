"""The run as callbacks see it, what checkpoints keep of them, lists of them, and several ranks."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aspecthook import HookOptionError, hooks
from aspecthook.training import Runner, TrainingError
from aspecthook.training import keras as k
from aspecthook.training.keras._callback import RunModel
from tests.training.keras.test_keras import recorder, short
from tests.training.kit import both, data, on_two_ranks, run_of, same, state, with_torch

# The model that a callback sees


@both
def test_the_model_has_all_that_callbacks_use_of_a_keras_model(library: str, tmp_path: Path) -> None:
    runner = run_of(library, max_epochs=1)
    model = RunModel(runner)
    runner.fit(data(2))
    before = state(runner)
    weights = model.get_weights()
    model.save(tmp_path / "all.keras")
    model.save_weights(tmp_path / "w.weights.h5")
    with pytest.raises(TrainingError, match="exists already"):
        model.save(tmp_path / "all.keras", overwrite=False)
    model.set_weights([array * 0 for array in weights])
    assert not any(array.any() for array in state(runner).values())
    runner.load_checkpoint(tmp_path / "w.weights.h5")
    assert same(state(runner), before)
    with pytest.raises(TrainingError, match=r"weights, and 1 were given"):
        model.set_weights(weights[:1])
    assert model.optimizer.iterations == 2
    assert model.optimizer.param_groups is runner.optimizer.param_groups
    assert list(map(id, model.parameters())) == list(map(id, runner.model.parameters()))
    with pytest.raises(AttributeError, match="'Sequential' object has no attribute 'to_json'"):
        _ = model.to_json


def test_removing_a_callback_removes_its_hooks_and_no_others() -> None:
    # The lifecycle, which the first callback puts in front of it, shifted the list of handles: an IndexError.
    seen, other = recorder("on_epoch_end"), recorder("on_epoch_end")
    runner = run_of("numpy", max_epochs=1, hooks=[seen, other])
    runner.remove_hook(seen)
    with pytest.raises(TrainingError, match="not registered"):
        runner.remove_hook(seen)
    runner.fit(data(1))
    assert (seen.told, short(other.told)) == ([], ["epoch_end 0"])
    runner.remove_hook(other)
    with pytest.raises(HookOptionError, match="'FIRST'"):
        runner.register_hook(seen, "FIRST")
    assert runner.hooks == [] and not hooks(runner.train_epoch)  # the lifecycle stayed


# The state of callbacks


def test_on_epoch_begin_is_called_again_for_a_resumed_callback_without_a_state(tmp_path: Path) -> None:
    class Forgets(k.Callback):
        def __init__(self) -> None:
            self.told: list[Any] = []

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.told.append(epoch)

    class Remembers(Forgets):
        def state_dict(self) -> dict[str, Any]:
            return {"told": self.told}

        def load_state_dict(self, state: Any) -> None:
            self.told = list(state["told"])

    def made() -> tuple[Runner, Forgets, Forgets]:
        runner = run_of("numpy", max_epochs=3)
        return runner, runner.register_hook(Forgets()), runner.register_hook(Remembers())

    runner, *_ = made()
    hooks(runner.train_iter).post(
        lambda step, runner: runner.save_checkpoint(tmp_path / "saved") if step == 4 else None, priority=100
    )
    runner.fit(data(3))
    again, forgets, remembers = made()
    again.resume(tmp_path / "saved")
    again.fit(data(3))
    assert (forgets.told, remembers.told) == ([1, 2], [0, 1, 2])


def test_a_second_fit_begins_anew() -> None:
    runner = run_of("numpy", max_epochs=1)
    seen, history = recorder("on_epoch_begin", "on_train_begin", "on_train_end"), k.History()
    stop = k.EarlyStopping("loss", patience=3)
    for callback in (seen, history, stop):
        runner.register_hook(callback)
    for epochs in (2, 4, 4):
        runner.max_epochs = epochs
        stop.wait = 99
        runner.fit(data(2))
    begins = ["epoch_begin 0", "epoch_begin 1", "train_end", "train_begin", "epoch_begin 2", "epoch_begin 3"]
    assert short(seen.told) == ["train_begin", *begins, "train_end", "train_begin", "train_end"]
    assert seen.told[-1] == ("on_train_end", {})
    assert len(history.history["loss"]) == 4 and history.epoch == []


# Several as one


def test_a_list_calls_its_callbacks_in_order_with_plain_numbers() -> None:
    def add(epoch: int, logs: Any) -> None:
        logs["more"] = 1.0

    class Model:
        history: Any = None

    first, last = recorder("on_epoch_end"), recorder("on_epoch_end", "on_train_batch_end", "on_batch_begin")
    model = Model()
    several = [first, k.LambdaCallback(on_epoch_end=add), last]
    callbacks = k.CallbackList(several, add_history=True, model=model, epochs=2)
    assert (last.params, last.model, type(callbacks.callbacks[-1])) == ({"epochs": 2}, model, k.History)
    callbacks.on_train_begin()
    callbacks.on_batch_begin(0)
    callbacks.on_train_batch_end(1, {"b": np.float32(0.5), "a": "2", "text": "x"})
    callbacks.on_epoch_end(3, logs={"loss": 1})
    callbacks.on_train_end()
    assert first.told == [last.told[-1]] == [("on_epoch_end", 3, {"loss": 1.0, "more": 1.0})]
    assert last.told[:2] == [("on_batch_begin", 0, {}), ("on_train_batch_end", 1, {"a": 2.0, "b": 0.5, "text": "x"})]
    assert list(last.told[1][2]) == ["a", "b", "text"]
    names = ["plain", "LambdaCallback", "LambdaCallback", "LambdaCallback", "History"]
    assert [hook.name for hook in hooks(callbacks.on_epoch_end)] == names
    assert not len(hooks(callbacks.on_test_begin))
    assert model.history is callbacks.callbacks[-1]


def test_a_list_on_a_run_is_a_callback_too() -> None:
    alone, seen = recorder(), recorder()
    run_of("numpy", hooks=[alone, k.CallbackList([seen])]).fit(data(2), data(1))
    assert seen.told == alone.told


def test_an_optimizer_without_a_learning_rate_is_refused_when_asked_for_it() -> None:
    class NoRate:
        param_groups = ()

        def step(self) -> None: ...

        def zero_grad(self) -> None: ...

    runner = run_of("numpy", max_epochs=1)
    runner.optimizer = NoRate()
    runner.register_hook(k.ReduceLROnPlateau("loss"))
    with pytest.raises(TrainingError, match="NoRate has no param_groups with a learning rate"):
        runner.fit(data(1))


def test_a_rate_that_is_set_keeps_the_ratios_of_the_groups() -> None:
    runner = run_of("numpy")
    runner.optimizer.param_groups = [{"lr": 0.1}, {"lr": 0.2}]
    RunModel(runner).optimizer.learning_rate = 0.05
    assert [group["lr"] for group in runner.optimizer.param_groups] == [0.05, 0.1]


def test_the_model_behind_a_wrapper_of_keras_is_found_and_one_on_jax_is_synchronized() -> None:
    class DistributedDataParallel:
        module = "the model"

    synchronized: list[bool] = []
    callback = k.Callback()
    callback.set_model(DistributedDataParallel())
    assert callback.model == "the model"
    callback.set_model(SimpleNamespace(jax_state_sync=lambda: synchronized.append(True)))
    assert callback.model is not None and synchronized == [True]


@with_torch
def test_rates_that_are_tensors_stay_so() -> None:
    import torch

    runner = run_of("torch")
    rate = torch.tensor(0.1)
    runner.optimizer = torch.optim.SGD(runner.model.parameters(), lr=rate)
    model = RunModel(runner)
    model.optimizer.learning_rate = torch.tensor(0.5)
    assert float(rate) == 0.5 and runner.optimizer.param_groups[0]["lr"] is rate
    assert model.optimizer.learning_rate == 0.5


RANKS = """
from aspecthook.training import Hook, Runner, keras as k

def run(**options):
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return Runner(model, optimizer=optimizer, loss=torch.nn.functional.mse_loss, **({"max_epochs": 6} | options))

Score = type("Score", (Hook,), {"priority": 0, "after_val_epoch": lambda self, runner, epoch:
    runner.logs.__setitem__("val_score", 0.0 if rank == 0 else float(epoch))})

# Rank 0 alone has numbers by which to stop, and to lower the rate
runner = run(work_dir=folder)
runner.register_hook(Score())
stop = runner.register_hook(k.EarlyStopping("val_score", mode="max", patience=3, restore_best_weights=True))
runner.register_hook(k.ReduceLROnPlateau("val_score", mode="max", patience=1, factor=0.5))
runner.register_hook(k.CSVLogger(folder + "/log.csv"))
runner.register_hook(k.ModelCheckpoint(folder + "/{epoch}", "val_score", mode="max", save_best_only=True))
history = runner.register_hook(k.History())
runner.fit(data(2, rank), data(1, rank))
told["stopped"] = [runner.epoch, stop.best, stop.wait, runner.optimizer.param_groups[0]["lr"]]
told["history"] = history.history
told["weights"] = weights(runner)
told["files"] = sorted(os.listdir(folder)) if rank == 0 else []

# Rank 1 alone has a loss that is no number
runner = run()
runner.register_hook(k.TerminateOnNaN())
hooks(runner.forward).post(
    lambda runner: runner.logs.__setitem__("loss", float("nan") if rank == 1 and runner.iter == 4 else 1.0), priority=0)
runner.fit(data(3, rank))
told["nan"] = runner.iter
"""


@with_torch
@pytest.mark.stress
def test_callbacks_on_two_ranks_decide_alike(tmp_path: Path) -> None:
    first, second = on_two_ranks(RANKS, tmp_path)
    assert first["stopped"] == second["stopped"] == [4, 0.0, 3, 0.0625]
    assert first["history"] == second["history"] and first["weights"] == second["weights"]
    assert first["files"] == ["1", "log.csv", "run.json"]
    assert first["nan"] == second["nan"] == 5


def test_callbacks_do_not_keep_a_run_alive() -> None:
    runner = run_of("numpy", max_epochs=1)
    stop = runner.register_hook(k.EarlyStopping(restore_best_weights=True))
    history = runner.register_hook(k.History())
    rate: list[Any] = []
    runner.register_hook(k.LambdaCallback(on_epoch_begin=lambda epoch, logs: rate.append(stop.model.optimizer)))
    runner.fit(data(1), data(1))
    gone = weakref.ref(runner)
    del runner
    gc.collect()
    assert gone() is None and list(history.history) == ["loss", "val_loss"]
    with pytest.raises(ReferenceError, match="no longer exists"):
        stop.model.get_weights()
