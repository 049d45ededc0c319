"""Keras's callbacks on our runner, without Keras: what they are told and when, what they may do, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aspecthook import HookOptionError, HookSignatureError, HookTypeError, Return, hooks
from aspecthook.training import EvalHook, Hook, Runner
from aspecthook.training import keras as k
from aspecthook.training.hooks._hook import HOOKS, load_hooks
from aspecthook.training.keras._callback import EVENTS
from tests.training.kit import both, data, registered, run_of
from tests.training.logging.test_loggers import logged, make


def recorder(*names: str) -> Any:
    """Make a callback that notes what it is told."""
    told: list[Any] = []

    def noting(name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: told.append((name, *args, *kwargs.values()))

    made = k.LambdaCallback(**{name: noting(name) for name in names or EVENTS})
    made.told = told  # type: ignore[attr-defined]
    return made


def short(told: list[Any]) -> list[str]:
    """Name what was told, with the numbers of epochs and batches."""
    return [" ".join([name[3:], *(str(one) for one in rest if isinstance(one, int))]) for name, *rest in told]


def epochs(told: list[Any]) -> list[Any]:
    return [(epoch, sorted(logs)) for name, epoch, logs in (row for row in told if row[0] == "on_epoch_end")]


def fitted(callback: Any, train: Any = None, val: Any = None, library: str = "numpy", **options: Any) -> Runner:
    runner = run_of(library, hooks=[callback], **options)
    runner.fit(data(2) if train is None else train, val)
    return runner


# What is told, and when


TEST = "test_begin, test_batch_begin 0, test_batch_end 0, test_end"
BATCHES = "train_batch_begin 0, train_batch_end 0, train_batch_begin 1, train_batch_end 1"


@both
def test_a_run_calls_callbacks_as_a_fit_of_keras_does(library: str) -> None:
    seen = recorder()
    runner = fitted(seen, data(2), data(1, seed=4), library)
    epochs = ", ".join(f"epoch_begin {n}, {BATCHES}, {TEST}, epoch_end {n}" for n in (0, 1))
    assert ", ".join(short(seen.told)) == f"train_begin, {epochs}, train_end"
    seen.told.clear()
    runner.test(data(1))
    runner.predict(data(1))
    assert ", ".join(short(seen.told)) == f"{TEST}, {TEST.replace('test', 'predict')}"
    (outputs,) = [row[2]["outputs"] for row in seen.told if row[0] == "on_predict_batch_end"]
    assert type(outputs) is np.ndarray and outputs.shape == (5, 2)


def test_logs_are_means_over_samples_and_batches_so_far() -> None:
    batches = [(x[:size], y[:size]) for (x, y), size in zip(data(3), (5, 2, 3), strict=True)]
    losses: list[tuple[float, int]] = []
    seen = recorder("on_train_batch_end", "on_epoch_end", "on_train_end", "on_test_batch_end", "on_test_end")
    runner = run_of("numpy", max_epochs=1)
    hooks(runner.train_iter).post(lambda logs, batch: losses.append((logs["loss"], len(batch[1]))), priority=0)
    hooks(runner.train_iter).post(lambda: runner.validate(batches[:1]), priority=1)
    runner.register_hook(seen)
    runner.fit(batches, batches)
    means = [
        sum(loss * size for loss, size in losses[:end]) / sum(size for _, size in losses[:end]) for end in (1, 2, 3)
    ]
    told = {name: [row[-1] for row in seen.told if row[0] == name] for name in {row[0] for row in seen.told}}
    assert [logs["loss"] for logs in told["on_train_batch_end"]] == pytest.approx(means)
    (epoch,) = told["on_epoch_end"]
    assert epoch == {"loss": pytest.approx(means[-1]), "val_loss": runner.logs["val_loss"]} == told["on_train_end"][0]
    assert told["on_test_batch_end"][-1] == {"loss": pytest.approx(epoch["val_loss"])}
    assert told["on_test_end"][-1] == {"loss": epoch["val_loss"]}


def test_logs_are_sorted_shared_by_the_callbacks_of_a_batch_and_empty_where_something_begins() -> None:
    seen, runner = recorder(), make(logged, max_epochs=1)  # which logs the loss before the accuracy
    add = k.LambdaCallback(on_train_batch_end=lambda batch, logs: logs.setdefault("mine", batch))
    hooks(runner.val_epoch).add("post", lambda: runner.log(val_a=1.0), priority=0)
    registered(runner, [add, seen]).fit([0] * 2, [1])
    runner.test([1])
    told = {name: [[*row[-1].items()] for row in seen.told if row[0] == name] for name, *_ in seen.told}
    assert all(rows == [[]] * len(rows) for name, rows in told.items() if name.endswith("begin"))
    assert [[name for name, _ in row] for row in told["on_train_batch_end"]] == [["acc", "loss", "mine"]] * 2
    assert [row[-1] for row in told["on_train_batch_end"]] == [("mine", 0), ("mine", 1)]
    assert told["on_test_end"] == [[("a", 1.0), ("acc", 0.5)], [("acc", 0.5)]]
    (epoch,) = told["on_epoch_end"]
    assert [name for name, _ in epoch] == ["acc", "loss", "val_a", "val_acc"]


@pytest.mark.parametrize(
    ("workflow", "with_val"),
    [
        ([("train", 1)], []),
        ([("train", 1), ("val", 1)], [0, 1, 2, 3, 4]),
        ([("train", 2), ("val", 1)], [1, 3, 4]),
        ([("train", 2), ("val", 2)], [1, 3, 4]),
        ([("train", 1), ("train", 2), ("val", 1)], [2, 4]),
        ([("val", 1), ("train", 1)], [0, 1, 2, 3]),
        ([("train", 9), ("val", 1)], [4]),
    ],
)
def test_an_epoch_ends_after_its_validation(workflow: Any, with_val: list[int]) -> None:
    seen = recorder()
    fitted(seen, data(2), data(1) if len(workflow) > 1 else None, max_epochs=5, workflow=workflow)
    assert epochs(seen.told) == [(n, ["loss", "val_loss"] if n in with_val else ["loss"]) for n in range(5)]
    names = [row[0] for row in seen.told]
    for place, row in enumerate(seen.told):
        if row[0] == "on_epoch_end":
            assert names[place - 1] == ("on_test_end" if row[1] in with_val else "on_train_batch_end")


@pytest.mark.parametrize(
    ("options", "ended"),
    [
        ({"max_iters": 7}, [(0, False), (1, False), (2, False)]),
        ({"max_iters": 6, "workflow": [("train", 3), ("val", 1)]}, [(0, True), (1, True)]),
        ({"max_iters": 7, "workflow": [("train", 2), ("val", 1)]}, [(0, True), (1, True), (2, True)]),
        ({"max_iters": 9, "workflow": [("train", 7), ("val", 1)]}, [(0, False), (1, False), (2, True)]),
    ],
)
def test_by_iterations_an_epoch_is_a_pass_over_the_data(options: Any, ended: list[Any]) -> None:
    seen = recorder("on_epoch_begin", "on_epoch_end", "on_train_batch_begin", "on_train_end")
    val = data(1) if "workflow" in options else None
    fitted(seen, data(3), val, max_epochs=None, **options)
    assert epochs(seen.told) == [(n, ["loss", "val_loss"] if has else ["loss"]) for n, has in ended]
    assert [row[1] for row in seen.told if row[0] == "on_epoch_begin"] == [n for n, _ in ended]
    assert seen.told[-1][0] == "on_train_end"


@pytest.mark.parametrize("priority", ["HIGHEST", 45, "LOWEST"])
def test_the_numbers_of_an_eval_hook_of_any_priority_are_in_the_logs_of_its_epoch(priority: Any) -> None:
    seen = recorder("on_epoch_end", "on_test_begin")
    runner = run_of("numpy", max_epochs=4, hooks=[seen])
    runner.register_hook(EvalHook(data(1), interval=2), priority=priority)
    runner.fit(data(2))
    assert epochs(seen.told) == [(0, ["loss"]), (1, ["loss", "val_loss"]), (2, ["loss"]), (3, ["loss", "val_loss"])]
    assert len(seen.told) == 6


def test_a_validation_before_the_first_batch_is_not_of_the_epoch() -> None:
    seen = recorder("on_epoch_end")
    runner = run_of("numpy", hooks=[seen])
    hooks(runner.train_epoch).add("pre", lambda: runner.validate(data(1)) and None, priority=60)
    runner.fit(data(2))
    assert epochs(seen.told) == [(0, ["loss"]), (1, ["loss"])]


def test_all_tests_end_before_an_epoch_does() -> None:
    told: list[str] = []

    def called(name: str, what: str) -> Callable[..., Any]:
        return lambda *_: told.append(f"{name} {what}")

    runner = run_of("numpy", max_epochs=1)
    for name in "ab":
        runner.register_hook(k.LambdaCallback(on_test_end=called(name, "test"), on_epoch_end=called(name, "epoch")))
    runner.fit(data(1), data(1))
    assert told == ["a test", "b test", "a epoch", "b epoch"]


def test_callbacks_share_the_logs_of_an_epoch_and_the_run_has_its_own() -> None:
    def add(_: int, logs: Any) -> None:
        logs["added"] = 1.0

    last: list[Any] = []
    runner = run_of("numpy", max_epochs=1)
    seen = recorder("on_epoch_end")
    for callback in (k.LambdaCallback(on_epoch_end=add), seen, k.LambdaCallback(on_train_end=last.append)):
        runner.register_hook(callback)
    runner.fit(data(1))
    assert sorted(seen.told[0][2]) == ["added", "loss"]
    assert sorted(last[0]) == ["loss"] and "added" not in runner.logs


def test_on_batch_methods_are_called_unless_on_train_batch_methods_are_overridden() -> None:
    class Older(k.Callback):
        def __init__(self) -> None:
            self.told: list[Any] = []

        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            self.told.append(("end", batch, sorted(logs)))

    class Newer(Older):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.told.append(("new", batch))

    older, newer = Older(), Newer()
    run_of("numpy", max_epochs=1, hooks=[older, newer]).fit(data(1))
    assert (older.told, newer.told) == ([("end", 0, ["loss"])], [("new", 0)])


def test_only_overridden_methods_become_hooks() -> None:
    runner = run_of("numpy", hooks=[k.Callback(), k.LambdaCallback(on_train_batch_begin=lambda batch, logs: None)])
    stages = (runner.train_iter, runner.train_epoch, runner.val_iter)
    assert [[hook.name for hook in hooks(stage).pre] for stage in stages] == [
        ["LambdaCallback"],
        ["KerasLifecycle"],
        [],
    ]


def test_return_values_of_callbacks_are_ignored() -> None:
    runner = fitted(k.LambdaCallback(**{name: lambda *_, **__: Return(None) for name in EVENTS}), data(2), data(1))
    assert runner.iter == 4


def test_params_and_the_model_are_set_before_on_train_begin() -> None:
    seen: list[Any] = []

    class Curious(k.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            seen.append((self.params, self.model.runner))

        def on_test_begin(self, logs: Any = None) -> None:
            seen.append((self.params, self.model.runner))

    curious = Curious()
    runner = fitted(curious, data(3), max_epochs=4)
    assert seen == [({"verbose": 1, "epochs": 4, "steps": 3}, runner)]
    runner.validate(data(2))
    assert seen[1] == ({"verbose": 1, "epochs": 1, "steps": 2}, runner)
    fitted(curious, iter(data(3)), max_epochs=1)
    assert curious.params is not None and curious.params["steps"] is None


def test_an_object_with_the_methods_of_a_callback_is_one() -> None:
    told: list[Any] = []
    methods = ("set_params", "set_model", "on_train_begin", "on_epoch_end")
    alike = SimpleNamespace(**{name: lambda *given, name=name: told.append((name, len(given))) for name in methods})
    fitted(alike)
    assert told == [("set_model", 1), ("set_params", 1), ("on_train_begin", 1), *[("on_epoch_end", 2)] * 2]


# Ends


@pytest.mark.parametrize("stage", ["train_iter", "train_epoch", "val_epoch"])
def test_no_end_is_called_after_a_failure_and_the_run_may_be_fitted_again(stage: str) -> None:
    seen = recorder("on_train_begin", "on_epoch_begin", "on_epoch_end", "on_train_end")
    runner = run_of("numpy", max_epochs=1, hooks=[seen])
    failing = hooks(getattr(runner, stage)).add("post", lambda: 1 / 0, priority=100)
    with pytest.raises(ZeroDivisionError):
        runner.fit(data(2), data(1))
    assert short(seen.told) == ["train_begin", "epoch_begin 0"]
    failing.remove()
    runner.max_epochs = 2
    seen.told.clear()
    runner.fit(data(2), data(1))
    assert short(seen.told)[0] == "train_begin" and short(seen.told)[-2:] == ["epoch_end 1", "train_end"]


def test_a_run_stopped_inside_an_epoch_ends_it_without_a_validation() -> None:
    seen = recorder()
    stop = k.LambdaCallback(on_train_batch_end=lambda batch, logs: setattr(runner, "stopping", batch == 1))
    runner = run_of("numpy", hooks=[seen, stop])
    runner.fit(data(3), data(1))
    assert short(seen.told)[-3:] == ["train_batch_end 1", "epoch_end 0", "train_end"]
    assert epochs(seen.told) == [(0, ["loss"])]


def test_an_epoch_has_what_hooks_add_after_a_validation_of_their_own() -> None:
    class Late(Hook):
        priority = "LOW"

        def after_train_epoch(self, runner: Runner) -> None:
            runner.log(val_late=1.0)

    seen: list[list[str]] = []
    ends = k.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(sorted(logs)))
    run_of("numpy", max_epochs=1, hooks=[EvalHook(data(1)), Late(), ends]).fit(data(2))
    assert seen == [["loss", "val_late", "val_loss"]]


def test_an_epoch_ends_even_if_a_hook_skips_its_validation() -> None:
    seen = recorder("on_epoch_end", "on_train_end")
    runner = run_of("numpy", hooks=[seen])
    hooks(runner.train_epoch).always(lambda runner: runner.request_stop(), priority=100)
    runner.fit(data(2), data(1))
    assert short(seen.told) == ["epoch_end 0", "train_end"]


# What is refused


class _Misspelt(k.Callback):
    def on_epoch_ends(self, epoch: int, logs: Any = None) -> None: ...


class _Lightning(k.Callback):
    def on_train_epoch_end(self, trainer: Any, module: Any) -> None: ...


class _Short(k.Callback):
    def on_epoch_end(self, epoch: int) -> None: ...  # type: ignore[override]


class _Long(k.Callback):
    def on_train_begin(self, logs: Any, more: Any) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (_Misspelt, "'on_epoch_ends', .*; did you mean 'on_epoch_end'"),
        (_Lightning, "'on_train_epoch_end', .*; did you mean"),
        (_Short, r"is called as on_epoch_end\(epoch, logs\)"),
        (_Long, r"on_train_begin\(logs: 'Any', more: 'Any'\).* is called as on_train_begin\(logs\)"),
    ],
)
def test_a_misspelt_method_or_one_with_wrong_parameters_is_refused(kind: Any, text: str) -> None:
    runner = run_of("numpy")
    for register in (runner.register_hook, k.CallbackList().append):
        with pytest.raises(HookSignatureError, match=text):
            register(kind())
    assert not any(isinstance(hook, k.Callback) for hook in runner.hooks)
    fitted(k.Callback())


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: k.EarlyStopping(mode="minimum"), HookOptionError, "give 'min', 'max' or 'auto'; did you mean 'min'"),
        (lambda: k.EarlyStopping(patience=-1), HookOptionError, "patience=-1"),
        (lambda: k.EarlyStopping(monitor=3), HookTypeError, "EarlyStopping: monitor=3 is not the name of a number"),  # type: ignore[arg-type]
        (lambda: k.ReduceLROnPlateau(factor=1.0), HookOptionError, "factor=1.0; give a number below 1"),
        (lambda: k.ModelCheckpoint("x", save_freq="batch"), HookTypeError, "save_freq='batch'"),  # type: ignore[arg-type]
        (lambda: k.BackupAndRestore("x", save_freq=True), HookTypeError, "save_freq=True"),
        (
            lambda: k.LearningRateScheduler(0.1),
            HookTypeError,
            "LearningRateScheduler: schedule=0.1 is not callable; give a function",
        ),  # type: ignore[arg-type]
        (
            lambda: k.LambdaCallback(on_epoch_ends=print),
            HookOptionError,
            "LambdaCallback: 'on_epoch_ends' is none of on_.*; did you mean 'on_epoch_end'",
        ),
        (
            lambda: k.CallbackList([3]),
            HookTypeError,
            "3 is not a callback; give objects with on_train_begin and the like",
        ),
    ],
)
def test_impossible_options_are_refused(build: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build()


def test_callbacks_are_built_from_configs() -> None:
    load_hooks()
    runner = run_of("numpy")
    stop = runner.register_hook({"type": "EarlyStopping", "monitor": "loss", "patience": 2, "priority": "LOW"})
    assert (type(stop), stop.patience) == (k.EarlyStopping, 2)
    assert {name for name in k.__all__ if name in HOOKS} == {*k.__all__} - {"Callback", "CallbackList"}
