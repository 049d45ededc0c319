"""What a model computes for a batch: the loss to train with, or the outputs to validate, test and predict with."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from aspecthook._errors import described
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any

from ._run import Run

# Any: batches, outputs and losses are those of any library.


def loss_of(run: Run, batch: Any) -> Any:
    """Return the loss of a batch, and set ``outputs`` and ``logs`` to what else the model computes."""
    if hasattr(run.model, "train_step"):
        made = run.model.train_step(batch, run.optimizer)
        if not is_any(made, dict) or "loss" not in made:
            raise TrainingError(
                f"train_step of {type(run.model).__name__} returned {type(made).__name__}, not a dict with a 'loss'; "
                "return {'loss': ..., 'log_vars': {...}, 'num_samples': ...}"
            )
    else:
        made = _computed(run, batch)
    run.outputs = made
    log_vars = made.get("log_vars")
    if log_vars is None:  # only then: reading a number from a GPU waits until the GPU has computed it
        _check_single(made["loss"])
        log_vars = {"loss": run.backend.item(made["loss"])}
    run.log(log_vars)
    return made["loss"]


def _check_single(loss: Any) -> None:
    size = prod(getattr(loss, "shape", ()))
    if loss is None or size != 1 or not any(hasattr(loss, name) for name in ("item", "__float__")):
        what = "None" if loss is None else f"{size} numbers" if size != 1 else described(loss)
        raise TrainingError(f"the loss is {what}; return a single number that has backward(), such as a mean")


def outputs_of(run: Run, batch: Any) -> Any:
    """Return what the model computes for a batch that it is validated or tested on."""
    run.batch = batch
    if hasattr(run.model, "val_step"):
        run.outputs = run.model.val_step(batch, run.optimizer)
    else:
        run.outputs = _computed(run, batch)
        run.outputs["log_vars"] = {"loss": run.backend.item(run.outputs["loss"])}
    return run.outputs


def inputs_of(batch: Any) -> Any:
    """Return what a model is called with to predict."""
    if is_any(batch, tuple, list):
        return batch[0]
    return batch["inputs"] if is_any(batch, Mapping) and "inputs" in batch else batch


def _computed(run: Run, batch: Any) -> dict[str, Any]:
    if run.loss is None:
        raise TrainingError(
            f"{type(run.model).__name__} has no train_step, and the runner has no loss; give Runner(..., loss=...)"
        )
    inputs, targets = _pair(batch)
    predicted = run.model(inputs)
    return {"loss": run.loss(predicted, targets), "outputs": predicted, "num_samples": len(targets)}


def _pair(batch: Any) -> tuple[Any, Any]:
    if is_any(batch, tuple, list) and len(batch) == 2:
        return batch[0], batch[1]
    if is_any(batch, Mapping) and "inputs" in batch and "targets" in batch:
        return batch["inputs"], batch["targets"]
    raise TrainingError(
        f"a batch is {type(batch).__name__}; a model without train_step needs pairs (inputs, targets), or a mapping "
        "that has both"
    )
