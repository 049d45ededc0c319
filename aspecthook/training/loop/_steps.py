"""The rules of the training loop: what comes next, when it counts as done, and what a model computes for a batch.

Two callers follow them: `Runner.train_loop` with `Runner.train_epoch`, and a session, which pauses before each step.
Both ask `next_epoch`, iterate over `batches`, and call `count_iteration` and `count_epoch`. These two are not parts of
the iterator, because they call hooks: a StopIteration that a hook raises must reach the caller unchanged, and Python
turns one that leaves a generator into a RuntimeError (PEP 479).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf, prod
from typing import Any

from aspecthook._errors import brief, described
from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import all_gather, highest, process_group
from aspecthook.training.backends._state import is_any

from ._checks import length_of
from ._interrupts import Terminated
from ._logs import Means
from ._reading import layout_of
from ._run import Progress, Run

# Any, in what follows: batches, outputs and losses are those of any library.

# What comes next


def next_epoch(run: Run) -> str | None:
    """Return the mode of the next epoch, or None if the run is over.

    A run that was resumed from a checkpoint may be in the middle of its workflow.
    """
    progress = run.progress
    mode = _advance(run, progress, trained(run))
    if mode is not None:
        progress.pending_epoch = mode
    if mode == "train":
        progress.until = inf if run.by_epoch else row_end(run, progress)
    return mode


def validation_follows(run: Run) -> bool:
    """Whether the workflow validates before it trains again or ends, for hooks at the end of an epoch."""
    progress = run.progress
    return _advance(run, replace(progress), progress.epoch if run.by_epoch else progress.iter) == "val"


def _advance(run: Run, progress: Progress, trained: int) -> str | None:
    """Move to the row of the workflow that has the next epoch, and return its mode, or None if the run is over."""
    end = end_of(run)
    # A run that was resumed after the last iteration of an epoch has only the hooks after the epoch left. A hook that
    # stops it at once had stopped it in that iteration, and the epoch ended all the same.
    goes_on = not run.stopping or 0 < run.progress.inner_iter == run.progress.length
    while goes_on and (progress.row or trained > progress.begun or trained < end):
        mode, times = run.workflow[progress.row]
        if trained < row_end(run, progress) if mode == "train" else progress.validated < times:
            return mode
        progress.row = (progress.row + 1) % len(run.workflow)
        progress.begun, progress.validated = trained, 0
    return None


def count_epoch(run: Run, mode: str) -> None:
    """Count the epoch that `next_epoch` asked for, call what hooks have put off until its end, raise a noted signal."""
    progress = run.progress
    if progress.pending_epoch is not None:  # a hook has skipped it
        progress.pending_epoch = None
        if mode == "val":
            progress.validated += 1
        elif run.by_epoch:
            end_pass(run)  # otherwise it would be the next one forever
        else:
            raise TrainingError(
                "a hook skipped train_epoch in a run that counts iterations, so the run would never end; skip "
                "train_iter in the hook, or call request_stop()"
            )
    while run.after_stage_calls:
        run.after_stage_calls.pop(0)()
    run.interrupts.judging, run.logged = False, {}
    run.epoch = progress.epoch
    agree_to_end(run)
    run.interrupts.raise_noted()
    if mode == "train" and row_end(run, progress) == inf and hasattr(run.loaders["train"], "__next__"):
        run.request_stop()  # the data are an iterator, which has only one pass


def trained(run: Run) -> int:
    """Return how many epochs, or iterations, have been trained."""
    return run.epoch if run.by_epoch else run.iter


def end_of(run: Run) -> float:
    """Return how many epochs, or iterations, are to be trained; infinity if only a hook can end the run."""
    end = run.max_epochs if run.by_epoch else run.max_iters
    return inf if end is None else end


def row_end(run: Run, progress: Progress) -> float:
    """Return how many epochs, or iterations, have been trained when the row of the workflow ends."""
    end = end_of(run)
    return end if len(run.workflow) == 1 else min(progress.begun + run.workflow[progress.row][1], end)


def count_iteration(run: Run) -> bool:
    """Count an iteration, and return whether to leave the epoch after it."""
    progress = run.progress
    # A hook may have skipped this iteration. If its batch was the last of a group, the gradients of the other batches
    # still wait for the optimizer's step.
    if progress.accumulated and group_of(run)[1]:
        take_step(run)
    progress.iter, progress.inner_iter = run.iter + 1, run.inner_iter + 1
    while run.after_stage_calls:
        run.after_stage_calls.pop(0)()
    run.iter, run.step, run.logged = progress.iter, progress.step, {}
    run.writes.poll()
    if progress.inner_iter == progress.length:
        end_pass(run)
        return True
    agree_to_end(run)
    return run.stopping or run.interrupts.came is not None or run.iter == progress.until


def agree_to_end(run: Run) -> None:
    """End the run on all ranks if a hook or a signal ends it on one: the others would wait for that one forever."""
    if process_group() is None:
        return
    signalled = run.interrupts.came is not None
    most = highest(2 if signalled else int(run.stopping))
    run.stopping = run.stopping or most > 0
    if most > 1 and not signalled:
        run.interrupts.came = Terminated("another rank was interrupted")


def end_pass(run: Run) -> None:
    """Count a complete pass over the data."""
    run.progress.inner_iter = 0
    run.progress.epoch = run.epoch + 1


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
    """Call the optimizer step for the gradients of a group of batches."""
    if run.amp is not None:
        run.amp.unscale(run.optimizer)
    run.optimizer_step()
    run.optimizer.zero_grad()
    run.progress.step = run.step + 1
    run.progress.accumulated = False


def batches(run: Run, mode: str) -> Iterator[Any]:
    """Yield the batches of one pass over the data, without those that a resumed run has seen, and count the pass."""
    loader = run.data_loader
    start = run.progress.inner_iter if mode == "train" else 0
    if mode == "train":
        run.progress.pending_epoch = None
        loader, length = run.reading.begin(loader, run.epoch, start)
        note_length(run, length, length_of(run.data_loader))
    empty, move = True, run.backend.mover(run.model)
    for run.inner_iter, batch in enumerate(loader, start):
        run.batch = move(batch)
        yield run.batch
        empty = False
    if empty and not start:
        raise TrainingError(
            f"the data for {mode} had no batches in epoch {run.epoch + 1}: {brief(run.data_loader)} is empty, or an "
            "iterator that has only one pass; give a list or a loader"
        )
    if mode == "train":
        end_pass(run)


def note_length(run: Run, length: int | None, later: int | None) -> None:
    """Note the length of the epoch that begins or continues; and what it means for the number of iterations of a run.

    The epochs before, and the rest of this one, may have been divided into other batches than those to come, which are
    assumed to have `later` batches each. Each may have another length, and notes it when it begins.
    """
    run.progress.length = length
    if run.by_epoch and run.max_epochs is not None:
        before, left = run.iter - run.progress.inner_iter, run.max_epochs - run.epoch
        unknown = length is None or later is None
        run.max_iters = None if unknown else before + ((length or 0) + (left - 1) * (later or 0) if left > 0 else 0)


def evaluate(run: Run, mode: str, step: Callable[[Any], Any]) -> None:
    """Call a step for each batch of one pass, without gradients, and log the means of the model's numbers."""
    means = Means()
    with run.backend.no_grad():
        for batch in batches(run, mode):
            means.add(step(batch))
    if is_divided(run.data_loader):
        means = Means.of_all(all_gather(means.totals))
    run.log({f"{mode}_{name}": mean for name, mean in means.now().items()})


def is_divided(loader: object) -> bool:
    """Whether the ranks share the samples of a loader, so that the numbers of one are not those of all."""
    return process_group() is not None and layout_of(loader).get("world_size", 1) > 1


# What a model computes


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
    loss, log_vars = made["loss"], made.get("log_vars")
    if log_vars is None:  # only then: reading a number from a GPU waits until the GPU has computed it
        size = prod(getattr(loss, "shape", ()))
        if loss is None or size != 1 or not any(hasattr(loss, name) for name in ("item", "__float__")):
            what = "None" if loss is None else f"{size} numbers" if size != 1 else described(loss)
            raise TrainingError(f"the loss is {what}; return a single number that has backward(), such as a mean")
        log_vars = {"loss": run.backend.item(loss)}
    run.log(log_vars)
    return loss


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
