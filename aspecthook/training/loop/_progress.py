"""How far a run has come, and what its workflow does next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

from aspecthook._errors import ConfigError, brief, nearest
from aspecthook.training._options import whole_number

Workflow: TypeAlias = tuple[tuple[str, int], ...]

COUNTS = ("epoch", "iter", "step", "inner_iter", "unfinished", "row", "begun", "validated")


@final
@dataclass(slots=True)
class Progress:
    """How far a run has come: where a checkpoint that is saved now must resume from.

    An iteration counts as soon as its body is done, before the hooks after it are called. The run's own `iter`, `step`
    and `epoch` are counted up only after those hooks.
    """

    by_epoch: bool = True  # whether the workflow counts epochs, or else iterations
    epoch: int = 0
    iter: int = 0
    step: int = 0
    inner_iter: int = 0  # the iterations of the current epoch
    unfinished: int = 0  # 1 while an epoch is under way, from its begin until the hooks after it are called
    row: int = 0  # the current row of the workflow
    begun: int = 0  # the epochs or iterations that had been trained when the row began
    validated: int = 0  # the validations of the row

    # Of the current epoch, and not in checkpoints:
    length: int | None = None  # the number of batches when its body began, if it is known
    accumulated: bool = False  # whether there are gradients that the optimizer has not used yet

    def state_dict(self) -> dict[str, int]:
        """Return the counts that a checkpoint keeps."""
        return {name: getattr(self, name) for name in COUNTS}

    def loaded(self, counts: Mapping[str, Any]) -> Progress:
        """Return the progress with the counts from a checkpoint."""
        loaded: dict[str, Any] = {name: int(counts[name]) for name in COUNTS}
        for name, value in loaded.items():
            if value < 0:
                raise ValueError(f"the count {name!r} is {value}")
        return replace(self, **loaded)

    # The workflow: rows of a mode and a number of epochs, or of iterations, which are repeated until the end

    @property
    def trained(self) -> int:
        """How many epochs, or iterations, have been trained."""
        return self.epoch if self.by_epoch else self.iter

    def row_end(self, workflow: Workflow, end: float) -> float:
        """Return how many epochs, or iterations, have been trained when the row of the workflow ends."""
        return end if len(workflow) == 1 else min(self.begun + workflow[self.row][1], end)

    def advance(self, workflow: Workflow, end: float, *, stopping: bool) -> str | None:
        """Move to the row of the workflow that has the next epoch, and return its mode; None if the run is over."""
        # A run may be resumed in the middle of its workflow, and of an epoch that has no more left than hooks after it.
        # They are called also if another hook stops the run at once: it had stopped it in that epoch.
        goes_on = not stopping or self.unfinished
        while goes_on and (self.row or self.unfinished or self.trained > self.begun or self.trained < end):
            mode, times = workflow[self.row]
            is_left = self.unfinished or self.trained < self.row_end(workflow, end)
            if is_left if mode == "train" else self.validated < times:
                return mode
            self.row = (self.row + 1) % len(workflow)
            self.begun, self.validated = self.trained, 0
        return None


def workflow_of(rows: Iterable[Any]) -> Workflow:
    """Return the rows of a workflow: pairs of a mode and the number of epochs or iterations in it."""
    found: list[tuple[str, int]] = []
    for row in rows:
        try:
            mode, times = row
        except (TypeError, ValueError):
            mode = times = None
        if mode not in ("train", "val"):
            near = nearest(str(mode), ["train", "val"])
            raise ConfigError(
                f"workflow={brief(row)}: give pairs of 'train' or 'val' and a number, such as ('train', 1){near}"
            )
        found.append((mode, whole_number("Runner", f"workflow: the number after {mode!r}", times, 1)))
    if not any(mode == "train" for mode, _ in found):
        raise ConfigError("a workflow without 'train' never ends; use validate()")
    return tuple(found)
