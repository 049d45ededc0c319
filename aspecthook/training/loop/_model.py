"""What a model computes for a batch: by steps of its own, as mm has them, or by the loss of the run."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from aspecthook._errors import described
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any

from ._run import Run

# Any, in what follows: batches, losses and outputs are those of any library.


def trained_on(run: Run, batch: Any) -> tuple[dict[str, Any], Any]:
    """Return what a model computes for a batch that it is trained on, and the numbers to log."""
    model = run.model
    made = model.train_step(batch, run.optimizer) if hasattr(model, "train_step") else _supervised(run, batch)
    if not is_any(made, dict) or "loss" not in made:
        raise TrainingError(
            f"train_step of {type(model).__name__} returned {type(made).__name__}, not a dict with a 'loss'; return "
            "{'loss': ..., 'log_vars': {...}, 'num_samples': ...}"
        )
    loss, numbers = made["loss"], made.get("log_vars")
    if numbers is None:  # only then: reading a number from a GPU waits until the GPU has computed it
        size = prod(getattr(loss, "shape", ()))
        if loss is None or size != 1 or not any(hasattr(loss, name) for name in ("item", "__float__")):
            what = "None" if loss is None else f"{size} numbers" if size != 1 else described(loss)
            raise TrainingError(f"the loss is {what}; return a single number that has backward(), such as a mean")
        numbers = {"loss": run.backend.item(loss)}
    return made, numbers


def evaluated_on(run: Run, batch: Any) -> Any:
    """Return what a model computes for a batch that it is validated or tested on."""
    if hasattr(run.model, "val_step"):
        return run.model.val_step(batch, run.optimizer)
    made = _supervised(run, batch)
    return {**made, "log_vars": {"loss": run.backend.item(made["loss"])}}


def inputs_of(batch: Any) -> Any:
    """Return what a model predicts from: the inputs of a batch, or the batch itself if it has no targets."""
    if is_any(batch, tuple, list):
        return batch[0]
    return batch["inputs"] if is_any(batch, Mapping) and "inputs" in batch else batch


def _supervised(run: Run, batch: Any) -> dict[str, Any]:
    if run.loss is None:
        raise TrainingError(
            f"{type(run.model).__name__} has no train_step, and the runner has no loss; give Runner(..., loss=...)"
        )
    if is_any(batch, tuple, list) and len(batch) == 2:
        inputs, targets = batch
    elif is_any(batch, Mapping) and "inputs" in batch and "targets" in batch:
        inputs, targets = batch["inputs"], batch["targets"]
    else:
        raise TrainingError(
            f"a batch is {type(batch).__name__}; a model without train_step needs pairs (inputs, targets), or a "
            "mapping that has both"
        )
    predicted = run.model(inputs)
    return {"loss": run.loss(predicted, targets), "outputs": predicted, "num_samples": len(targets)}
