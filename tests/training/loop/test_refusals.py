"""What a runner and its parts refuse when it is given: each with one line that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import ConfigError, HookTypeError, hooks
from aspecthook.training import EvalHook, Runner, TrainingError
from aspecthook.training import numpy as nn
from aspecthook.training.checkpoint import newest
from aspecthook.training.loop._run import COUNTS
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


def test_a_model_of_numpy_stays_on_the_cpu() -> None:
    check(lambda: fit("numpy", device="cuda"), TrainingError, "Sequential is a NumPy model, which runs on the CPU")


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
        ({"max_iters": 3}, "Runner(max_epochs=..., max_iters=...): give one of the two"),
    ],
)
def test_impossible_parts_of_a_run_are_refused(library: str, options: dict[str, Any], says: str) -> None:
    optim, loss = parts(library)
    model = model_of(library)
    given = {"optimizer": optim.SGD(model.parameters(), lr=0.1), "loss": loss, "max_epochs": 2}
    check(lambda: Runner(model, **given | options), ConfigError, says)


@both
@pytest.mark.parametrize("device", ["gpu", 7])
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


@pytest.mark.parametrize("method", ["resume", "load_checkpoint", "save_checkpoint"])
@pytest.mark.parametrize("path", [None, 3])
def test_what_is_no_path_is_refused(method: str, path: Any) -> None:
    check(lambda: getattr(run_of("numpy"), method)(path), HookTypeError, f"{method}: path={path} is not a path")


def test_resuming_from_a_folder_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    check(lambda: run_of("numpy").resume(newest(tmp_path)), HookTypeError, "newest(folder) returns None if the folder")


@pytest.mark.parametrize(
    ("hook", "options", "says"),
    [],
)
def test_an_average_that_would_never_begin_is_refused(hook: Any, options: dict[str, Any], says: str) -> None:
    check(lambda: run_of("numpy", hooks=[hook], **options).fit(data(4)), TrainingError, says)


def outcome(runner: Runner) -> str:
    return repr({name: part for name, part in runner.state_dict().items() if name != "meta"})


@both
@pytest.mark.parametrize(
    ("name", "broken", "says"),
    [
        ("model", None, "'model' in this checkpoint is None that cannot be restored"),
        ("model", {"0.weight": np.zeros(3)}, "these are not the tensors of Sequential"),
        ("optimizer", {"type": "SGD", "state": 3}, "'optimizer' in this checkpoint is a dict of"),
        ("progress", {"epoch": "first"}, "cannot be restored (ValueError: invalid literal"),
        ("progress", dict.fromkeys(COUNTS, -1), "cannot be restored (ValueError: the count 'epoch' is -1)"),
        ("gradients", {"0.weight": np.zeros(99)}, "not the tensors of the gradients of Sequential"),
        ("logs", 3, "'logs' in this checkpoint is an int that cannot be restored"),
        ("hooks", 3, "'hooks' in this checkpoint is an int that cannot be restored"),
        ("random", {"python": 3}, "'random' in this checkpoint is a dict of"),
    ],
)
def test_a_part_that_cannot_be_restored_leaves_everything_as_it_was(
    library: str, name: str, broken: Any, says: str
) -> None:
    schedule = {"type": "LrUpdaterHook", "policy": "step", "step": 1}
    runner, other = (run_of(library, max_epochs=epochs) for epochs in (2, 1))
    for one in (runner, other):
        one.register_hook(schedule)
    other.fit(data(2, seed=8))
    runner.fit(data(2))
    before = outcome(runner)
    checkpoint = {**other.state_dict(), name: broken}
    check(lambda: runner.restore(checkpoint, resume=True, other_run=True), TrainingError, says)
    assert outcome(runner) == before and not runner.resumed


@pytest.mark.parametrize(
    ("checkpoint", "says"),
    [
        ({}, "this is not a checkpoint of a run: it has no 'model'; what it has: nothing"),
        ({"model": {}}, "this checkpoint has no 'progress'; load another checkpoint; nothing was changed"),
    ],
)
def test_a_tree_that_is_no_state_of_a_run_is_refused(checkpoint: dict[str, Any], says: str) -> None:
    check(lambda: run_of("numpy").restore(checkpoint, resume=True), TrainingError, says)


@pytest.mark.parametrize("loader", [None, 3])
def test_an_eval_hook_without_data_is_refused(loader: Any) -> None:
    check(lambda: EvalHook(loader), HookTypeError, f"EvalHook: loader={loader} cannot be iterated")


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


@pytest.mark.parametrize("kind", [nn.SGD, nn.Adam, nn.AdamW])
@pytest.mark.parametrize(
    ("name", "value"),
    [("lr", "fast"), ("lr", -1), ("lr", None), ("lr", float("nan")), ("lr", True), ("weight_decay", "x")],
)
def test_options_of_optimizers_are_numbers(kind: Any, name: str, value: Any) -> None:
    parameters = model_of("numpy").parameters()
    check(lambda: kind(parameters, **{name: value}), TrainingError, f"({name}={value!r}): give a number from 0 up")
