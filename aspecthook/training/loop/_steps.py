"""Going through batches, and what a model makes of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

if TYPE_CHECKING:
    from ._runner import Runner


def batches(runner: Runner, mode: str) -> Iterator[Any]:
    """Give the batches of one pass; what a resumed run has seen of it is not read again."""
    loader = runner.data_loader
    start = runner.progress["inner_iter"] if mode == "train" else 0
    if mode == "train":
        if hasattr(loader, "load_state_dict") and hasattr(loader, "state_dict"):
            loader.load_state_dict({"epoch": runner.epoch, "position": start})
        else:
            if hasattr(loader, "set_epoch"):
                loader.set_epoch(runner.epoch)
            loader = _without_first(loader, start)
    empty, move = True, runner.backend.mover(runner.model)
    for runner.inner_iter, batch in enumerate(loader, start):
        runner.batch = move(batch)
        yield runner.batch
        empty = False
    if empty and not start:
        raise TrainingError(
            f"the data for {mode} gave no batches in epoch {runner.epoch + 1}; {brief(runner.data_loader)} may be "
            "empty, or one that can be gone through only once: give a list or a loader"
        )


# Any: batches, outputs and losses are those of any library.
def loss_of(runner: Runner, batch: Any) -> Any:
    """Give the loss of a batch, and note what else the model has made of it."""
    if hasattr(runner.model, "train_step"):
        made = runner.model.train_step(batch, runner.optimizer)
        return _made(runner, made, "train_step")
    return _made(runner, _computed(runner, batch), "the loss")


def _computed(runner: Runner, batch: Any) -> dict[str, Any]:
    if runner.loss is None:
        raise TrainingError(
            f"{type(runner.model).__name__} has no train_step, and the runner was given no loss; give Runner(..., "
            "loss=...)"
        )
    inputs, targets = _pair(batch)
    predicted = runner.model(inputs)
    return {"loss": runner.loss(predicted, targets), "outputs": predicted, "num_samples": len(targets)}


def _made(runner: Runner, made: Any, by: str) -> Any:
    if not _is_outputs(made):
        raise TrainingError(
            f"{by} of {type(runner.model).__name__} gave {type(made).__name__}, not a dict with a 'loss'; give "
            "{'loss': ..., 'log_vars': {...}, 'num_samples': ...}"
        )
    runner.outputs = made
    log_vars = made.get("log_vars")
    if log_vars is None:  # only then: a number that is read off a GPU is waited for
        log_vars = {"loss": runner.backend.item(made["loss"])}
    runner.logs = {**runner.logs, **log_vars}
    return made["loss"]


def evaluate(runner: Runner, mode: str, step: Callable[[Any], Any]) -> None:
    """Go through one pass without gradients; the means of the numbers over samples go to the logs."""
    sums: dict[str, float] = {}
    seen = 0
    with runner.backend.no_grad():
        for batch in batches(runner, mode):
            outputs = step(batch)
            if isinstance(outputs, Mapping):
                made = cast("Mapping[str, Any]", outputs)
                count = int(made.get("num_samples", 1))
                seen += count
                for name, value in made.get("log_vars", {}).items():
                    sums[name] = sums.get(name, 0.0) + float(value) * count
    means = {f"{mode}_{name}": value / max(seen, 1) for name, value in sums.items()}
    runner.logs = {**runner.logs, **means}


def outputs_of(runner: Runner, batch: Any) -> Any:
    """Give what the model makes of a batch that it is validated or tested on."""
    runner.batch = batch
    if hasattr(runner.model, "val_step"):
        runner.outputs = runner.model.val_step(batch, runner.optimizer)
    else:
        made = _computed(runner, batch)
        made["log_vars"] = {"loss": runner.backend.item(made["loss"])}
        runner.outputs = made
    return runner.outputs


def _is_outputs(made: object) -> bool:
    return isinstance(made, dict) and "loss" in made


def inputs_of(batch: Any) -> Any:
    """Give what a model is called with to predict."""
    given = batch
    if isinstance(batch, (tuple, list)):
        return given[0]
    return given["inputs"] if isinstance(batch, Mapping) and "inputs" in given else given


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


def _without_first(loader: Any, count: int) -> Iterator[Any]:
    """Leave out batches that a resumed run has seen; a loader without a state can only be read and thrown away."""
    for place, batch in enumerate(loader):
        if place >= count:
            yield batch
