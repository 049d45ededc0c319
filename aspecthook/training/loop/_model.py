"""What a model computes for a batch, by steps of its own or by the loss of the run, and the numbers that a run logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from aspecthook._errors import described
from aspecthook.training._errors import TrainingError

# Any: batches, losses and outputs are those of any library.
Batch: TypeAlias = Sequence[Any] | Mapping[str, Any]
Outputs: TypeAlias = Mapping[str, Any] | None  # None, where a hook has skipped the batch


def computed(model: Any, batch: Batch, loss: Any) -> dict[str, Any]:
    """Return what a model without steps of its own computes for a batch, with the loss of the run."""
    if loss is None:
        raise TrainingError(
            f"{type(model).__name__} has no train_step, and the runner has no loss; give Runner(..., loss=...)"
        )
    if isinstance(batch, (list, tuple)) and len(batch) == 2:
        inputs, targets = batch
    elif isinstance(batch, Mapping) and "inputs" in batch and "targets" in batch:
        inputs, targets = batch["inputs"], batch["targets"]
    else:
        raise TrainingError(
            f"a batch is {type(batch).__name__}; a model without train_step needs pairs (inputs, targets), or a "
            "mapping that has both"
        )
    predicted = model(inputs)
    return {"loss": loss(predicted, targets), "outputs": predicted, "num_samples": len(targets)}


def evaluated(model: Any, batch: Batch, optimizer: Any, loss: Any) -> Any:
    """Return what a model computes for a batch of a validation or a test."""
    if hasattr(model, "val_step"):
        return model.val_step(batch, optimizer)
    outputs = computed(model, batch, loss)
    return {**outputs, "log_vars": numbers_of(outputs)}


def numbers_of(outputs: Outputs) -> Mapping[str, Any]:
    """Return the numbers to log of what a model has computed for a batch that it is trained on."""
    if not isinstance(outputs, dict) or "loss" not in outputs:
        raise TrainingError(
            f"a train_step returned {type(outputs).__name__}, not a dict with a 'loss'; return "
            "{'loss': ..., 'log_vars': {...}, 'num_samples': ...}"
        )
    numbers: Mapping[str, Any] | None = outputs.get("log_vars")
    if numbers is not None:  # then the loss is not read: that waits until a GPU has computed it
        return numbers
    loss: Any = outputs["loss"]
    try:
        return {"loss": float(loss.item() if hasattr(loss, "item") else loss)}
    except Exception as error:
        size = prod(getattr(loss, "shape", ()))
        if size == 1 and hasattr(loss, "item"):
            raise  # what a GPU has failed to compute
        what = "None" if loss is None else f"{size} numbers" if size != 1 else described(loss)
        raise TrainingError(
            f"the loss is {what}; return a single number that has backward(), such as a mean"
        ) from error


def inputs_of(batch: Batch) -> Any:
    """Return what a model predicts from: the inputs of a batch, or the batch itself if it has no targets."""
    if isinstance(batch, (tuple, list)):
        return batch[0]
    return batch["inputs"] if isinstance(batch, Mapping) and "inputs" in batch else batch


def modes_of(model: Any) -> list[tuple[Any, bool]]:
    """Return the modules of a model, also those in its attributes, and whether each is in training mode."""
    wholes: list[Any] = [model, *getattr(model, "__dict__", {}).values()]
    modules = [module for whole in wholes if hasattr(whole, "named_modules") for _, module in whole.named_modules()]
    return [(module, bool(module.training)) for module in modules]


# The numbers that a run logs: their names, which begin with the mode, and their means over batches

VAL = "val_"  # the names of the numbers of a validation begin with it


def of_mode(mode: str, logs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a mode has logged: its name begins the names of the numbers, but for those of training."""
    return {name: value for name, value in logs.items() if name.startswith(f"{mode}_")}


def without_mode(mode: str, logs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a mode has not logged."""
    return {name: value for name, value in logs.items() if not name.startswith(f"{mode}_")}


def logged_by(mode: str, logs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a mode has logged, by names without the mode."""
    return {name.removeprefix(f"{mode}_"): value for name, value in of_mode(mode, logs).items()}


class Means:
    """Means of what a model logs over many batches, weighted by the samples of each."""

    def __init__(self, *shares: Mapping[str, list[float]]) -> None:
        """Begin with the totals of others, such as those of all ranks."""
        self.totals: dict[str, list[float]] = {}  # for each name the sum, and the number of samples
        for share in shares:
            for name, (total, count) in share.items():
                self._count(name, total, count)

    def add(self, outputs: Outputs, logs: Mapping[str, Any] | None = None) -> None:
        """Add the outputs of a batch; of a model that names no numbers, the loss that the runner has logged."""
        if not isinstance(outputs, Mapping):
            return
        count: int = outputs.get("num_samples", 1)
        numbers: Mapping[str, Any] | None = outputs.get("log_vars")
        if numbers is None:
            numbers = {"loss": logs["loss"]} if logs and "loss" in logs else {}
        for name, number in numbers.items():
            self._count(name, float(number) * count, count)

    def _count(self, name: str, total: float, count: float) -> None:
        sums = self.totals.setdefault(name, [0.0, 0])
        sums[0] += total
        sums[1] += count

    def now(self) -> dict[str, Any]:
        """Return the means so far."""
        return {name: total / (count or 1) for name, (total, count) in self.totals.items()}
