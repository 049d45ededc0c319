"""A row of the log, and what takes rows: text, JSON lines, CSV, TensorBoard, a bar and curves are all sinks of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ._numbers import number_of

PLACE = ("mode", "epoch", "iter")
TIMES = ("time", "data_time")


class Row(NamedTuple):
    """Numbers of a run, and where they were logged.

    Attributes:
        mode: ``"train"``, ``"val"`` or ``"test"``.
        epoch: The epoch, counted from 1.
        iter: The iterations done in the epoch, or in the run, whichever the logger counts.
        total_iter: The iterations done in the run.
        numbers: Means over the samples of a training row; ``lr`` and ``momentum`` of the first parameter group, and
            ``lr_1`` … of groups that differ, come first, and times last. Texts that were logged are here too.

    Example:
        >>> Row("train", 2, 10, 110, {"lr": 0.1, "loss": 0.5}).flat()
        {'mode': 'train', 'epoch': 2, 'iter': 10, 'lr': 0.1, 'loss': 0.5}
    """

    mode: str
    epoch: int
    iter: int
    total_iter: int
    numbers: dict[str, float | str]

    def flat(self) -> dict[str, float | str]:
        """Return the place and the numbers in one dict, as files have them."""
        return {"mode": self.mode, "epoch": self.epoch, "iter": self.iter, **self.numbers}


class Sink(Protocol):
    """Where rows go: an object with these two methods.

    Example:
        >>> class Losses:
        ...     def __init__(self):
        ...         self.losses = []
        ...
        ...     def write(self, row):
        ...         self.losses.append(row.numbers["loss"])
        ...
        ...     def close(self): ...
    """

    def write(self, row: Row, /) -> object:
        """Take a row."""

    def close(self) -> object:
        """Finish: the run has ended. A test after it, or another run, may write again."""


# Any: what a model has logged.
def value_of(value: Any) -> float | str | None:
    """Return a number or a text as a row holds it; None if it is neither."""
    return str(value) if isinstance(value, str) else number_of(value)


def values_of(logs: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the numbers and texts in logs that a row can hold; the place of a row is not among them."""
    found = {name: value_of(value) for name, value in logs.items() if name not in PLACE}
    return {name: value for name, value in found.items() if value is not None}
