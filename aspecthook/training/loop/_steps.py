"""The rules of the training loop: which epoch comes next, and when an iteration, a step or an epoch counts as done.

Two loops follow them: `Runner.train_loop` with `Runner.train_epoch`, and the loop of a session, which pauses before
each step. The rules are functions that are called between steps, and not a generator that makes the steps: a
StopIteration that a hook raises must reach the caller as it is, and a generator would turn it into a RuntimeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any, cast, final

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

from ._run import Run


def next_epoch(run: Run) -> str | None:
    """Return the mode of the epoch that the workflow asks for now, or None if the run is over.

    A run that was resumed from a checkpoint may be in the middle of the workflow.
    """
    done, end = run.done, end_of(run)
    while not run.stopping and (done.row or trained(run) > done.begun or trained(run) < end):
        mode, times = run.workflow[done.row]
        if mode == "train":
            last = row_end(run)
            done.until = None if run.by_epoch or last == inf else int(last)
            over = trained(run) >= last
        else:
            over = done.validated >= times
        if not over:
            done.due = mode
            return mode
        done.row = (done.row + 1) % len(run.workflow)
        done.begun, done.validated = trained(run), 0
    return None


def count_epoch(run: Run, mode: str) -> None:
    """Count the epoch that `next_epoch` has asked for; call what was put off until its end; raise a noted signal."""
    done = run.done
    skipped, done.due = done.due is not None, None
    if skipped and mode == "train":
        _skip_train_epoch(run)
    elif skipped:
        done.validated += 1
    call_later(run)
    run.epoch = done.epoch
    run.interrupts.raise_noted()
    if mode == "train" and row_end(run) == inf and hasattr(run.loaders["train"], "__next__"):
        run.request_stop()  # an iterator can be gone through only once


def _skip_train_epoch(run: Run) -> None:
    """Count an epoch that a hook has skipped; otherwise it would come again for ever."""
    if not run.by_epoch:
        raise TrainingError(
            "a hook has skipped train_epoch, and this run counts iterations, of which none was made; let it skip "
            "train_iter, or ask the run to stop"
        )
    end_pass(run)


def trained(run: Run) -> int:
    """Return how many epochs, or iterations, have been trained."""
    return run.epoch if run.by_epoch else run.iter


def end_of(run: Run) -> float:
    """Return how many epochs, or iterations, are to be trained; infinity if only a hook can end the run."""
    end = run.max_epochs if run.by_epoch else run.max_iters
    return inf if end is None else end


def row_end(run: Run) -> float:
    """Return how many epochs, or iterations, have been trained when the row of the workflow ends."""
    end = end_of(run)
    return end if len(run.workflow) == 1 else min(run.done.begun + run.workflow[run.done.row][1], end)


def call_later(run: Run) -> None:
    """Call what hooks have put off until the end of the stage."""
    while run.later:
        run.later.pop(0)()


def count_iteration(run: Run) -> bool:
    """Count an iteration, and return whether to leave the epoch after it."""
    done = run.done
    # If a hook has skipped the iteration, its batch was read all the same, and may have been the last of a group of
    # which others wait for the optimizer's step.
    if done.accumulated and group_of(run)[1]:
        take_step(run)
    done.iter, done.inner_iter = run.iter + 1, run.inner_iter + 1
    if run.later:
        call_later(run)
    run.iter, run.step = done.iter, done.step
    if done.inner_iter == done.length:
        end_pass(run)
        return True
    return run.stopping or run.interrupts.came is not None or run.iter == done.until


def end_pass(run: Run) -> None:
    """Count the pass over the data that has come to its end."""
    run.done.inner_iter = 0
    run.done.epoch = run.epoch + 1


def group_of(run: Run) -> tuple[int, bool]:
    """Return how many batches share an optimizer step with the one under way, and whether it is the last of them."""
    if run.accumulate == 1:
        return 1, True
    place = run.iter % run.accumulate
    size = run.accumulate
    if run.max_iters is not None:  # the last group of a run may be smaller
        size = max(1, min(size, run.max_iters - (run.iter - place)))
    return size, place + 1 >= size


def take_step(run: Run) -> None:
    """Let the optimizer make a step with the gradients of a group of batches."""
    if run.amp is not None:
        run.amp.unscale(run.optimizer)
    run.optimizer_step()
    run.optimizer.zero_grad()
    run.done.step = run.step + 1
    run.done.accumulated = False


def batches(run: Run, mode: str) -> Iterator[Any]:
    """Yield the batches of one pass over the data, without those that a resumed run has seen."""
    loader = run.data_loader
    start = run.done.inner_iter if mode == "train" else 0
    if mode == "train":
        if hasattr(loader, "load_state_dict") and hasattr(loader, "state_dict"):
            loader.load_state_dict({"epoch": run.epoch, "position": start})
        else:
            if hasattr(loader, "set_epoch"):
                loader.set_epoch(run.epoch)
            loader = _without_first(loader, start)
    empty, move = True, run.backend.mover(run.model)
    for run.inner_iter, batch in enumerate(loader, start):
        run.batch = move(batch)
        yield run.batch
        empty = False
    if empty and not start:
        raise TrainingError(
            f"the data for {mode} gave no batches in epoch {run.epoch + 1}; {brief(run.data_loader)} may be "
            "empty, or one that can be gone through only once: give a list or a loader"
        )


def _without_first(loader: Any, count: int) -> Iterator[Any]:
    """Drop batches that a resumed run has seen: a loader without a state can only be read again."""
    for place, batch in enumerate(loader):
        if place >= count:
            yield batch


def evaluate(run: Run, mode: str, step: Callable[[Any], Any]) -> None:
    """Go through one pass without gradients, and log the means of the model's numbers over the samples."""
    means = Means(mode)
    with run.backend.no_grad():
        for batch in batches(run, mode):
            means.add(step(batch))
    run.logs = {**run.logs, **means.now()}


@final
class Means:
    """Means of the model's numbers over the samples of many batches, by names such as ``val_loss``."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._sums: dict[str, float] = {}
        self._seen = 0

    def add(self, outputs: Any) -> None:
        """Add what the model computes for a batch, if that has numbers."""
        if isinstance(outputs, Mapping):
            made = cast("Mapping[str, Any]", outputs)
            count = int(made.get("num_samples", 1))
            self._seen += count
            for name, value in made.get("log_vars", {}).items():
                self._sums[name] = self._sums.get(name, 0.0) + float(value) * count

    def now(self) -> dict[str, float]:
        """Return the means so far."""
        return {f"{self._mode}_{name}": value / max(self._seen, 1) for name, value in self._sums.items()}


# What a model computes for a batch. Any: batches, outputs and losses are those of any library.


def loss_of(run: Run, batch: Any) -> Any:
    """Return the loss of a batch, and put what else the model computes into ``outputs`` and ``logs``."""
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
    if log_vars is None:  # only then: reading a number off a GPU waits for it
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
