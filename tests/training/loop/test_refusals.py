"""What a runner and its parts refuse when it is given: each with one line that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook import ConfigError, HookOptionError, HookTypeError, hooks
from aspecthook.training import EvalHook, Runner, TrainingError
from aspecthook.training import numpy as nn
from aspecthook.training.checkpoint import newest
from aspecthook.training.loop._progress import COUNTS
from aspecthook.training.session import MonitoredTrainingSession
from tests.training.kit import both, data, model_of, run_of


def parts(library: str) -> tuple[Any, Any]:
    """Return the optimizers of a library, and a loss."""
    if library == "numpy":
        return nn, nn.mse
    import torch

    return torch.optim, torch.nn.functional.mse_loss


def fit(library: str, **options: Any) -> None:
    optim, loss = parts(library)
    model = model_of(library)
    given = {"optimizer": optim.SGD(model.parameters(), lr=0.1), "loss": loss, "max_epochs": 2}
    Runner(model, **given | options).fit(data(2))


def check(refused: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        refused()
    message = str(caught.value)
    assert says in message and "\n" not in message


@both
@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"seed": "a"}, HookTypeError, "Runner: seed='a' is not a whole number"),
        ({"seed": -1}, HookOptionError, "Runner: seed=-1; give a number from 0 up"),
        ({"max_iters": 3}, ConfigError, "Runner(max_epochs=..., max_iters=...): give one of the two"),
        ({"loss": lambda outputs, targets: None}, TrainingError, "the loss is None; return a single number that has"),
        ({"loss": lambda outputs, targets: outputs}, TrainingError, "the loss is 10 numbers; return a single number"),
        ({"loss": lambda outputs, targets: "low"}, TrainingError, "the loss is"),
    ],
)
def test_impossible_parts_of_a_run_are_refused(
    library: str, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    check(lambda: fit(library, **options), error, says)


@pytest.mark.parametrize(
    ("refused", "error", "says"),
    [
        (
            lambda _: fit("numpy", device="cuda"),
            TrainingError,
            "Sequential is a NumPy model, which runs on the CPU",
        ),
        *[
            (
                lambda _, batch=batch: run_of("numpy").fit([batch]),
                TrainingError,
                f"a batch is {type(batch).__name__}; a model without train_step needs pairs (inputs, targets), or a ",
            )
            for batch in (1.0, (1, 2, 3), {"inputs": 1})
        ],
        *[
            (
                lambda _, method=method: getattr(run_of("numpy"), method)(3),
                HookTypeError,
                f"{method}: path=3 is not a path",
            )
            for method in ("resume", "load_checkpoint", "save_checkpoint")
        ],
        (
            lambda folder: run_of("numpy").resume(newest(folder)),
            HookTypeError,
            "newest(folder) returns None if the folder",
        ),
        (lambda _: EvalHook(3), HookTypeError, "EvalHook: loader=3 cannot be iterated"),
        (
            lambda _: run_of("numpy").restore({}, resume=True),
            TrainingError,
            "this is not a checkpoint of a run: it has no 'model'; what it has: nothing",
        ),
    ],
)
def test_what_a_run_cannot_use_is_refused(
    refused: Callable[[Path], Any], error: type[Exception], says: str, tmp_path: Path
) -> None:
    check(lambda: refused(tmp_path), error, says)


MISSING = object()


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
        ("gradients", {"0.weight": np.zeros(99)}, "not the tensors of Sequential"),
        ("logs", 3, "'logs' in this checkpoint is an int that cannot be restored"),
        ("hooks", 3, "'hooks' in this checkpoint is an int that cannot be restored"),
        ("random", {"python": 3}, "'random' in this checkpoint is a dict of"),
        *(
            (name, MISSING, f"this checkpoint has no {name!r}, so the run cannot be resumed from it; load another ")
            for name in ("optimizer", "progress", "gradients", "data", "logs", "hooks", "random")
        ),
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
    checkpoint = {one: part for one, part in {**other.state_dict(), name: broken}.items() if part is not MISSING}
    check(lambda: runner.restore(checkpoint, resume=True, other_run=True), TrainingError, says)
    assert outcome(runner) == before and not runner.resumed


@pytest.mark.parametrize("stage", ["run", "train_epoch", "train_iter"])
@pytest.mark.parametrize(
    "again", [lambda runner: runner.fit(data(1)), lambda runner: MonitoredTrainingSession(runner, [])]
)
def test_a_run_inside_a_run_is_refused(stage: str, again: Callable[[Runner], Any]) -> None:
    runner = run_of("numpy")
    handle = hooks(getattr(runner, stage)).add("pre", again)
    check(lambda: runner.fit(data(2)), TrainingError, "was called while this runner is fitting")
    handle.remove()
    runner.fit(data(2))
    assert runner.epoch == 2
