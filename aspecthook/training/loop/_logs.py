"""The numbers that a run logs: their names, which begin with the mode, and their means over batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aspecthook.training.backends._state import is_any

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

    def __init__(self, totals: Mapping[str, list[float]] | None = None) -> None:
        # For each name the sum, and the number of samples.
        self.totals: dict[str, list[float]] = {name: list(total) for name, total in (totals or {}).items()}

    @classmethod
    def of_all(cls, shares: Iterable[Mapping[str, list[float]]]) -> Means:
        """Return the means over the batches of all ranks, of the totals of each."""
        means = cls()
        for share in shares:
            for name, (total, count) in share.items():
                sums = means.totals.setdefault(name, [0.0, 0])
                sums[0] += total
                sums[1] += count
        return means

    def add(self, outputs: Any, logs: Mapping[str, Any] | None = None) -> None:
        """Add the outputs of a batch; of a model that names no numbers, the loss that the runner has logged."""
        if outputs.__class__ is not dict and not is_any(outputs, Mapping):  # none, where a hook has skipped the batch
            return
        count: int = outputs.get("num_samples", 1)
        numbers: Mapping[str, Any] | None = outputs.get("log_vars")
        if numbers is None:
            numbers = {"loss": logs["loss"]} if logs and "loss" in logs else {}
        for name in numbers:
            total = self.totals.get(name)
            if total is None:
                self.totals[name] = total = [0.0, 0]
            total[0] += float(numbers[name]) * count
            total[1] += count

    def now(self) -> dict[str, Any]:
        """Return the means so far."""
        return {name: total / (count or 1) for name, (total, count) in self.totals.items()}
