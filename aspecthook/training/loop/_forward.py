"""What a model computes for a batch: the loss to train with, or the outputs to validate, test and predict with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aspecthook.training._errors import TrainingError

from ._run import Run

# Any: batches, outputs and losses are those of any library.


def loss_of(run: Run, batch: Any) -> Any:
    """Return the loss of a batch, and set ``outputs`` and ``logs`` to what else the model computes."""
    if hasattr(run.model, "train_step"):
        made = run.model.train_step(batch, run.optimizer)
        if not _has_loss(made):
            raise TrainingError(
                f"train_step of {type(run.model).__name__} returned {type(made).__name__}, not a dict with a 'loss'; "
                "return {'loss': ..., 'log_vars': {...}, 'num_samples': ...}"
            )
    else:
        made = _computed(run, batch)
    run.outputs = made
    log_vars = made.get("log_vars")
    if log_vars is None:  # only then: reading a number from a GPU waits until the GPU has computed it
        log_vars = {"loss": run.backend.item(made["loss"])}
    run.logs = {**run.logs, **log_vars}
    return made["loss"]


def _has_loss(made: object) -> bool:
    return isinstance(made, dict) and "loss" in made


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
    given = batch
    if isinstance(batch, (tuple, list)):
        return given[0]
    return given["inputs"] if isinstance(batch, Mapping) and "inputs" in given else given


def _computed(run: Run, batch: Any) -> dict[str, Any]:
    if run.loss is None:
        raise TrainingError(
            f"{type(run.model).__name__} has no train_step, and the runner has no loss; give Runner(..., loss=...)"
        )
    inputs, targets = _pair(batch)
    predicted = run.model(inputs)
    return {"loss": run.loss(predicted, targets), "outputs": predicted, "num_samples": len(targets)}


def _pair(batch: Any) -> tuple[Any, Any]:
    given = batch
    if isinstance(batch, (tuple, list)) and len(given) == 2:
        return given[0], given[1]
    if isinstance(batch, Mapping) and "inputs" in given and "targets" in given:
        return given["inputs"], given["targets"]
    raise TrainingError(
        f"a batch is {type(given).__name__}; a model without train_step needs pairs (inputs, targets), or a mapping "
        "that has both"
    )
