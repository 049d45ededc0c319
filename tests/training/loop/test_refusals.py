"""What a runner and its parts refuse when it is given: each with one line that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aspecthook import ConfigError, HookTypeError, hooks
from aspecthook.training import CheckpointHook, EMAHook, EvalHook, Runner, TrainingError
from aspecthook.training import numpy as nn
from aspecthook.training.checkpoint import newest
from aspecthook.training.session import MonitoredTrainingSession
from tests.training.kit import TORCH, both, data, model_of, run_of


def parts(library: str) -> tuple[Any, Any]:
    """Return the optimizers of a library, and a loss."""
    if library == "numpy":
        return nn, nn.mse
    import torch

    return torch.optim, torch.nn.functional.mse_loss


def fit(library: str, model: Any = None, **options: Any) -> None:
    optim, loss = parts(library)
    model = model_of(library) if model is None else model
    given = {"optimizer": optim.SGD(model.parameters(), lr=0.1), "loss": loss, "max_epochs": 2}
    Runner(model, **given | options).fit(data(2))


def check(refused: Callable[[], Any], error: type[Exception], says: str, ends: str = "") -> None:
    with pytest.raises(error) as caught:
        refused()
    message = str(caught.value)
    assert says in message and "\n" not in message and message.endswith(ends)


@both
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seed": "a"}, "seed='a': give a whole number from 0 up"),
        ({"seed": -1}, "seed=-1: give a whole number from 0 up"),
        ({"seed": 1.5}, "seed=1.5: give a whole number"),
        ({"seed": True}, "seed=True: give a whole number"),
        ({"seed": 2**63}, "give a whole number from 0 up, below 2**63"),
        ({"loss": "mse"}, "Runner(loss='mse'): give a function"),
        ({"loss": nn.Linear}, "give a function of outputs and targets"),
        ({"optimizer": "sgd"}, "Runner(optimizer='sgd'): it has no step"),
        ({"optimizer": nn.SGD}, "this is a class; give one such as SGD(model.parameters())"),
        ({"optimizer": model_of("numpy")}, "it has no step and no zero_grad and no param_groups"),
        ({"max_iters": 3}, "Runner(max_epochs=..., max_iters=...): give one of the two"),
    ],
)
def test_impossible_parts_of_a_run_are_refused(library: str, options: dict[str, Any], says: str) -> None:
    optim, loss = parts(library)
    model = model_of(library)
    given = {"optimizer": optim.SGD(model.parameters(), lr=0.1), "loss": loss, "max_epochs": 2}
    check(lambda: Runner(model, **given | options), ConfigError, says)


@pytest.mark.parametrize("model", [None, "mlp", nn.Linear])
def test_what_is_no_model_is_refused(model: Any) -> None:
    check(lambda: Runner(model, max_epochs=1), ConfigError, "give a model")


@both
@pytest.mark.parametrize("device", ["gpu", "cuda:99", 7])
def test_a_device_that_is_not_there_is_refused(library: str, device: Any) -> None:
    check(
        lambda: fit(library, device=device),
        TrainingError,
        f"device={device!r}: ",
        "; give 'cpu', or 'cuda:0' where there is a GPU" if library == TORCH else "",
    )


@both
@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda outputs, targets: None, "the loss is None; return a single number that has backward(), such as a mean"),
        (lambda outputs, targets: outputs, "the loss is 10 numbers; return a single number"),
        (lambda outputs, targets: "low", "the loss is"),
    ],
)
def test_a_loss_that_is_not_a_number_is_refused(library: str, loss: Any, says: str) -> None:
    check(lambda: fit(library, loss=loss), TrainingError, says)


@pytest.mark.parametrize("batch", [1.0, (1, 2, 3), {"inputs": 1}], ids=["number", "three", "inputs alone"])
def test_a_batch_that_is_not_a_pair_is_refused(batch: Any) -> None:
    says = f"a batch is {type(batch).__name__}; a model without train_step needs pairs (inputs, targets), or a mapping"
    check(lambda: run_of("numpy").fit([batch]), TrainingError, says)


@both
def test_an_optimizer_of_another_model_is_refused(library: str) -> None:
    other = parts(library)[0].SGD(model_of(library).parameters(), lr=0.1)
    check(lambda: fit(library, optimizer=other), TrainingError, "none of the parameters of Sequential")


@pytest.mark.parametrize("library", [TORCH])
def test_a_model_with_nothing_to_train_is_refused(library: str) -> None:
    model = model_of(library)
    optimizer = parts(library)[0].SGD(model.parameters(), lr=0.1)
    model.requires_grad_(False)
    check(lambda: fit(library, model, optimizer=optimizer), TrainingError, "there is nothing to train")
    model[0].requires_grad_(True)
    fit(library, model, optimizer=optimizer)


@pytest.mark.parametrize("method", ["resume", "load_checkpoint", "save_checkpoint"])
@pytest.mark.parametrize("path", [None, 3])
def test_what_is_no_path_is_refused(method: str, path: Any) -> None:
    check(lambda: getattr(run_of("numpy"), method)(path), HookTypeError, f"{method}: path={path} is not a path")


def test_resuming_from_a_folder_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    check(lambda: run_of("numpy").resume(newest(tmp_path)), HookTypeError, "newest(folder) returns None if the folder")


@pytest.mark.parametrize(
    ("hook", "options", "says"),
    [
        (EMAHook("constant", begin_epoch=9), {}, "EMAHook(begin_epoch=9) would never begin: the run has 2 epochs"),
        (EMAHook("stochastic", begin_step=9), {"max_epochs": None, "max_iters": 8}, "the run has 8 iterations"),
    ],
)
def test_an_average_that_would_never_begin_is_refused(hook: Any, options: dict[str, Any], says: str) -> None:
    check(lambda: run_of("numpy", hooks=[hook], **options).fit(data(4)), TrainingError, says)


@pytest.mark.parametrize("loader", [None, 3])
def test_an_eval_hook_without_data_is_refused(loader: Any) -> None:
    check(lambda: EvalHook(loader), HookTypeError, f"EvalHook: loader={loader} cannot be iterated")


def test_save_best_can_be_switched_off_in_a_config() -> None:
    assert CheckpointHook(save_best=False).save_best is None
    assert EvalHook([], save_best=False).saver is None


@pytest.mark.parametrize("stage", ["run", "train_epoch", "train_iter"])
@pytest.mark.parametrize("begin", ["fit", "session"])
def test_a_run_inside_a_run_is_refused(stage: str, begin: str) -> None:
    runner = run_of("numpy")

    def again(runner: Runner) -> None:
        if begin == "fit":
            runner.fit(data(1))
        else:
            MonitoredTrainingSession(runner, data(1))

    handle = hooks(getattr(runner, stage)).add("pre", again)
    says = "was called while this runner is fitting"
    check(lambda: runner.fit(data(2)), TrainingError, says)
    handle.remove()
    runner.fit(data(2))
    assert runner.epoch == 2


def test_a_run_inside_a_validation_is_refused() -> None:
    runner = run_of("numpy")
    hooks(runner.val_iter).pre(lambda runner: runner.fit(data(1)))
    check(lambda: runner.validate(data(1)), TrainingError, "fit was called while")


@pytest.mark.parametrize("kind", [nn.SGD, nn.Adam, nn.AdamW])
@pytest.mark.parametrize(
    ("name", "value"),
    [("lr", "fast"), ("lr", -1), ("lr", None), ("lr", float("nan")), ("lr", True), ("weight_decay", "x")],
)
def test_options_of_optimizers_are_numbers(kind: Any, name: str, value: Any) -> None:
    parameters = model_of("numpy").parameters()
    check(lambda: kind(parameters, **{name: value}), TrainingError, f"({name}={value!r}): give a number from 0 up")


@pytest.mark.parametrize("betas", [3, "ab", (0.9,), (0.9, 1), (None, 0.5)])
def test_betas_are_two_numbers(betas: Any) -> None:
    check(lambda: nn.Adam(model_of("numpy").parameters(), betas=betas), TrainingError, "give two numbers from 0 up")
