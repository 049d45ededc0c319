"""The run as callbacks see it, what checkpoints keep of them, lists of them, and several ranks."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import hooks
from aspecthook.training import Runner, TrainingError
from aspecthook.training import keras as k
from tests.training.keras.test_keras import recorder, short
from tests.training.kit import both, data, on_two_ranks, registered, run_of, same, state, with_torch

# The model that a callback sees


@both
def test_the_model_has_all_that_callbacks_use_of_a_keras_model(library: str, tmp_path: Path) -> None:
    runner = run_of(library, max_epochs=1)
    model = k.Model(runner)
    runner.fit(data(2))
    before = state(runner)
    weights = model.get_weights()
    assert model.count_params() == sum(array.size for array in before.values())
    assert len(model.weights) == len(list(runner.model.parameters()))
    model.save(tmp_path / "all.keras")
    model.save_weights(tmp_path / "w.weights.h5")
    with pytest.raises(TrainingError, match="exists already"):
        model.save(tmp_path / "all.keras", overwrite=False)
    model.set_weights([array * 0 for array in weights])
    assert not any(array.any() for array in state(runner).values())
    momentum = repr(runner.optimizer.state_dict())
    runner.optimizer.state.clear()
    model.load_weights(tmp_path / "w.weights.h5")
    assert same(state(runner), before) and repr(runner.optimizer.state_dict()) == momentum
    with pytest.raises(TrainingError, match=r"weights, and 1 were given"):
        model.set_weights(weights[:1])
    assert (model.optimizer.iterations, model.optimizer.name, model.name) == (2, "SGD", "Sequential")
    assert model.optimizer.param_groups is runner.optimizer.param_groups
    assert len(list(model.parameters())) == len(model.weights)
    with pytest.raises(AttributeError, match="on our runner has no 'to_json', nor has .*; it has .*evaluate"):
        _ = model.to_json


@both
def test_a_callback_may_evaluate_and_predict_without_calls_to_other_callbacks(library: str) -> None:
    x, y = data(1)[0]
    found: list[Any] = []

    class Curious(k.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            asked = recorder()
            found.append(self.model.evaluate(x, y, batch_size=2, callbacks=[asked], return_dict=True))
            assert short(asked.told)[:2] == ["test_begin", "test_batch_begin 0"] and len(asked.told) == 8
            found.append(self.model.predict(x, batch_size=2))
            assert self.model.predict_on_batch(x).shape == self.model.predict([x, x])[:5].shape

    plain = run_of(library)
    plain_seen = recorder()
    plain.register_hook(plain_seen)
    plain.fit(data(3), data(1))
    runner, seen = run_of(library), recorder()
    runner.register_hook(seen)
    runner.register_hook(Curious())
    runner.fit(data(3), data(1))
    assert same(state(runner), state(plain)) and runner.logs == plain.logs
    assert seen.told == plain_seen.told
    assert len(found) == 12 and found[-1].shape == (5, 2)
    last = k.Model(runner).evaluate(x, y)
    assert isinstance(last, float) and "test_loss" not in runner.logs


def test_evaluate_returns_the_loss_first() -> None:
    class Two:
        def train_step(self, batch: Any, optimizer: Any) -> Any: ...

        def val_step(self, batch: Any, optimizer: Any) -> Any:
            return {"loss": 0, "log_vars": {"accuracy": 0.5, "loss": 0.25, "f1": 1.0}, "num_samples": 1}

    model = k.Model(Runner(Two()))
    assert model.evaluate([1]) == [0.25, 0.5, 1.0]
    assert model.evaluate([1], return_dict=True) == {"accuracy": 0.5, "loss": 0.25, "f1": 1.0}
    assert model.optimizer is None


def test_stop_training_can_be_unset() -> None:
    runner = run_of("numpy", max_epochs=3)
    model = k.Model(runner)
    model.stop_training = True
    assert runner.stopping
    model.stop_training = False
    assert not runner.stopping


def test_a_callback_may_set_attributes_of_its_model() -> None:
    runner = run_of("numpy", max_epochs=1)
    history = runner.register_hook(k.History())
    runner.register_hook(k.LambdaCallback(on_train_begin=lambda logs: setattr(history.model, "mine", 3)))
    runner.fit(data(1))
    assert history.model.mine == 3 and history.model.history is history


@both
def test_callbacks_passed_to_fit_are_removed_after_it(library: str) -> None:
    x, y = (np.concatenate(rows) for rows in zip(*data(4), strict=True))
    runner = run_of(library, max_epochs=1)
    model = k.Model(runner)
    before = len(hooks(runner.run)), len(hooks(runner.train_epoch))
    seen = recorder()
    history = model.fit(
        x, y, batch_size=4, epochs=2, validation_data=(x, y), callbacks=[[seen], {"type": "EarlyStopping"}]
    )
    assert history.epoch == [0, 1] and history is model.history
    assert sorted(history.history) == ["loss", "val_loss"]
    assert short(seen.told)[-1] == "train_end" and len(seen.told) == 2 + 2 * (2 + 10 + 2 + 10)
    assert len(hooks(runner.train_iter)) == 1  # that of the means, which all share
    assert [type(hook).__name__ for hook in runner.hooks] == ["KerasLifecycle"]
    assert before[0] == 0 and all(hook.name == "KerasLifecycle" for hook in hooks(runner.run))
    seen.told.clear()
    runner.validate(data(1))
    assert seen.told == []


def test_fit_shows_its_progress_if_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    model = k.Model(run_of("numpy"))
    seen = k.Callback()
    model.fit(data(2), epochs=1, callbacks=seen)
    assert seen.params == {"verbose": 0, "epochs": 1, "steps": 2} and capsys.readouterr().out == ""
    model.fit(data(2), epochs=2, verbose=2)
    model.evaluate(data(1), verbose=2)
    model.predict(data(1), verbose=2)
    assert [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()] == ["Epoch", "2/2", "1/1", "1/1"]
    model.runner.register_hook(seen)
    model.runner.validate(data(1))
    assert seen.params == {"verbose": 1, "epochs": 1, "steps": 1}


def test_a_registered_callback_passed_to_fit_is_called_once_and_stays() -> None:
    seen = recorder("on_train_begin", "on_epoch_end")
    runner = run_of("numpy", max_epochs=1, hooks=[seen])
    k.Model(runner).fit(data(1), callbacks=[seen])
    runner.max_epochs = 2
    runner.fit(data(1))
    assert short(seen.told) == ["train_begin", "epoch_end 0", "train_begin", "epoch_end 1"]


def test_removing_a_callback_removes_its_hooks_and_no_others() -> None:
    # The lifecycle, which the first callback puts in front of it, shifted the list of handles: an IndexError.
    seen, other = recorder("on_epoch_end"), recorder("on_epoch_end")
    runner = run_of("numpy", max_epochs=1, hooks=[seen, other])
    runner.remove_hook(seen)
    with pytest.raises(TrainingError, match="not registered"):
        runner.remove_hook(seen)
    with pytest.raises(TrainingError, match="not registered"):
        runner.remove_hook(runner.hooks[0])
    runner.fit(data(1))
    assert (seen.told, short(other.told)) == ([], ["epoch_end 0"])


def test_callbacks_passed_to_fit_are_removed_when_it_fails() -> None:
    runner = run_of("numpy")
    with pytest.raises(ZeroDivisionError):
        k.Model(runner).fit(data(1), callbacks=k.LambdaCallback(on_train_begin=lambda logs: 1 / 0))
    k.Model(runner).fit(data(1))
    assert runner.epoch == 2


# The state of callbacks


def test_callbacks_of_one_kind_have_states_of_their_own(tmp_path: Path) -> None:
    def made(epochs: int) -> tuple[Runner, list[Any]]:
        runner = run_of("numpy", max_epochs=epochs)
        stops = [k.EarlyStopping("loss", patience=9, start_from_epoch=n) for n in (0, 1)]
        return registered(runner, stops), stops

    runner, stops = made(2)
    runner.fit(data(2))
    saved = runner.save_checkpoint(tmp_path / "saved")
    again, others = made(2)
    again.resume(saved)
    assert [stop.state_dict() for stop in others] == [stop.state_dict() for stop in stops]
    again.fit(data(2))
    assert [stop.state_dict() for stop in others] == [stop.state_dict() for stop in stops]


@pytest.mark.parametrize("base", [k.Callback, k.MonitorCallback])
def test_on_epoch_begin_is_called_again_for_a_resumed_callback_without_a_state(base: Any, tmp_path: Path) -> None:
    class Forgets(base):  # type: ignore[misc]
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


def test_a_state_loaded_during_a_run_counts_for_that_run_alone() -> None:
    runner = run_of("numpy", max_epochs=4)
    stop = runner.register_hook(k.EarlyStopping("loss", patience=50))
    seen: list[int] = []

    def load(epoch: int, logs: Any) -> None:
        if epoch == 2:
            stop.load_state_dict({**stop.state_dict(), "wait": 5, "best": 0.0})
        seen.append(stop.wait)

    runner.register_hook(k.LambdaCallback(on_epoch_end=load))
    runner.fit(data(2))
    assert seen[2:] == [5, 6]
    runner.max_epochs = 5
    runner.fit(data(2))
    assert seen[4] == 0


# Several as one


def test_a_list_calls_its_callbacks_in_order_with_plain_numbers() -> None:
    told: list[Any] = []

    class Mine(k.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            told.append(("mine", epoch, logs))
            logs["more"] = 1.0

    first = k.LambdaCallback(on_epoch_end=lambda epoch, logs: told.append(("first", epoch, dict(logs))))
    last = recorder("on_epoch_end", "on_train_batch_end", "on_batch_begin")
    callbacks = k.CallbackList([first, (Mine(), [last])], epochs=2, steps=3)
    assert last.params == {"epochs": 2, "steps": 3}
    callbacks.on_train_begin()
    callbacks.on_batch_begin(0)
    callbacks.on_train_batch_end(1, {"b": np.float32(0.5), "a": {"c": "2"}, "text": "x"})
    callbacks.on_epoch_end(3, logs={"loss": 1})
    callbacks.on_train_end()
    assert told == [("first", 3, {"loss": 1.0}), ("mine", 3, {"loss": 1.0, "more": 1.0})]
    assert last.told == [
        ("on_batch_begin", 0, {}),
        ("on_train_batch_end", 1, {"c": 2.0, "b": 0.5, "text": "x"}),
        ("on_epoch_end", 3, {"loss": 1.0, "more": 1.0}),
    ]
    assert list(last.told[1][2]) == ["c", "b", "text"]
    assert [hook.name for hook in hooks(callbacks.on_epoch_end)] == [
        "plain",
        "LambdaCallback",
        "Mine",
        "LambdaCallback",
    ]
    assert not len(hooks(callbacks.on_test_begin))


def test_a_list_adds_history_and_progbar_and_passes_on_the_model() -> None:
    class Model:
        history: Any = None

    model = Model()
    callbacks = k.CallbackList(add_history=True, add_progbar=True, model=model, verbose=0, epochs=1, steps=1)
    history, bar = callbacks.callbacks
    assert (type(history), type(bar)) == (k.History, k.ProgbarLogger)
    assert model.history is history and history.model is model is callbacks.model
    again = k.CallbackList(callbacks.callbacks, add_history=True, add_progbar=True)
    assert again.callbacks == [history, bar]


def test_a_list_has_the_states_of_its_callbacks() -> None:
    one, other = (k.CallbackList([k.EarlyStopping("loss"), k.History(), k.History()]) for _ in range(2))
    one.set_model(k.Model(run_of("numpy")))
    for event in (lambda: one.on_train_begin(), lambda: one.on_epoch_end(0, {"loss": 3.0})):
        event()
    other.load_state_dict(one.state_dict())
    assert other.callbacks[0].best == 3.0 and other.callbacks[2].history == {"loss": [3.0]}


def test_a_list_on_a_run_is_a_callback_too() -> None:
    seen, history = recorder(), k.History()
    alone = recorder()
    runner = run_of("numpy", hooks=[alone, k.CallbackList([seen, history])])
    runner.fit(data(2), data(1))
    assert seen.told == alone.told and history.epoch == [0, 1]


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


def test_the_model_behind_a_wrapper_of_keras_is_found() -> None:
    class DistributedDataParallel:
        module = "the model"

    class OnJax:
        def __init__(self) -> None:
            self.synchronized = 0

        def jax_state_sync(self) -> None:
            self.synchronized += 1

    callback = k.Callback()
    callback.set_model(DistributedDataParallel())
    assert callback.model == "the model"
    model = OnJax()
    callback.set_model(model)
    assert callback.model is model and model.synchronized == 1


def test_several_optimizers_of_keras_have_rates_of_their_own() -> None:
    class Optimizer:
        def __init__(self, name: str, learning_rate: float) -> None:
            self.name, self.learning_rate = name, learning_rate

    class Several:
        optimizers = (Optimizer("one", 1.0), Optimizer("other", 0.25))

    class Model:
        optimizer, stop_training = Several(), False

    plateau = k.ReduceLROnPlateau("loss", patience=0, factor=0.5, min_lr=0.25)
    scheduler = k.LearningRateScheduler(lambda epoch, lr: lr * 2.0)
    for callback in (plateau, scheduler):
        callback.set_model(Model())
    for epoch in range(2):
        logs = {"loss": 1.0}
        plateau.on_epoch_end(epoch, logs)
    assert logs == {"loss": 1.0, "learning_rate_one": 1.0, "learning_rate_other": 0.25}
    assert [one.learning_rate for one in Several.optimizers] == [0.5, 0.25]
    scheduler.on_epoch_begin(0)
    assert [one.learning_rate for one in Several.optimizers] == [1.0, 0.5]


@with_torch
def test_rates_that_are_tensors_stay_so() -> None:
    import torch

    runner = run_of("torch")
    rate = torch.tensor(0.1)
    runner.optimizer = torch.optim.SGD(runner.model.parameters(), lr=rate)
    model = k.Model(runner)
    model.optimizer.learning_rate = torch.tensor(0.5)
    assert float(rate) == 0.5 and runner.optimizer.param_groups[0]["lr"] is rate
    assert model.optimizer.learning_rate == model.optimizer.lr.numpy() == model.optimizer.lr.value == 0.5


def test_predictions_of_any_shape_are_joined() -> None:
    class Many:
        def __call__(self, x: Any) -> Any:
            return {"double": 2 * x, "pair": (x, [x + 1])}

    made = k.Model(Runner(Many())).predict(np.arange(5), batch_size=2)
    assert made["double"].tolist() == [0, 2, 4, 6, 8]
    assert [made["pair"][0].tolist(), made["pair"][1][0].tolist()] == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert k.Model(Runner(lambda x: "text")).predict(np.arange(3), batch_size=2) == ["text", "text"]


RANKS = """
import json, os, sys, warnings
import torch, torch.distributed as dist
from aspecthook import hooks
from aspecthook.training import Hook, Runner, keras as k
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, folder = dist.get_rank(), sys.argv[1]
told = {}

def data(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(4, 3, generator=generator), torch.randn(4, 2, generator=generator)) for _ in range(size)]

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
told["weights"] = [value.tolist() for value in runner.backend.state(runner.model).values()]
told["files"] = sorted(os.listdir(folder)) if rank == 0 else []

# Rank 1 alone has a loss that is no number
runner = run()
runner.register_hook(k.TerminateOnNaN())
hooks(runner.forward).post(
    lambda runner: runner.logs.__setitem__("loss", float("nan") if rank == 1 and runner.iter == 4 else 1.0), priority=0)
runner.fit(data(3, rank))
told["nan"] = runner.iter
json.dump(told, open(f"{folder}/../rank{rank}.json", "w"))
dist.destroy_process_group()
"""


@with_torch
@pytest.mark.stress
def test_callbacks_on_two_ranks_decide_alike(tmp_path: Path) -> None:
    first, second = on_two_ranks(RANKS, tmp_path)
    assert first["stopped"] == second["stopped"] == [4, 0.0, 3, 0.0625]
    assert first["history"] == second["history"] and first["weights"] == second["weights"]
    assert first["files"] == ["1", "log.csv", "run.json"]
    assert first["nan"] == second["nan"] == 5


def test_keras_is_not_imported() -> None:
    code = (
        "import sys; from aspecthook.training.keras import EarlyStopping; "
        "assert not {'keras', 'tensorflow', 'torch', 'numpy'} & set(sys.modules), sys.modules.keys()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_callbacks_do_not_keep_a_run_alive() -> None:
    runner = run_of("numpy", max_epochs=1)
    stop = runner.register_hook(k.EarlyStopping(restore_best_weights=True))
    history = runner.register_hook(k.History())
    rate: list[Any] = []
    runner.register_hook(k.LambdaCallback(on_epoch_begin=lambda epoch, logs: rate.append(stop.model.optimizer)))
    runner.fit(data(1), data(1))
    k.Model(runner).fit(data(1), validation_data=data(1), epochs=2, callbacks=k.EarlyStopping())
    gone = weakref.ref(runner)
    del runner
    gc.collect()
    assert gone() is None and list(history.history) == ["loss", "val_loss"]
    with pytest.raises(ReferenceError, match="keep a reference to the Runner"):
        stop.model.get_weights()
    assert k.Model(run_of("numpy")).get_weights()
