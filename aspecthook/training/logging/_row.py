"""A row of the log, what takes rows, which values are numbers, and how numbers and durations look as text.

Text, JSON lines, CSV, TensorBoard, a bar and curves are all sinks of rows, and show the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import isfinite
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol

PLACE = ("mode", "epoch", "iter")
TIMES = ("time", "data_time")
# The modes other than training: the names of their numbers begin with the mode, as in `val_loss`.
_PREFIXES = ("val_", "test_", "predict_")


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

    @classmethod
    def of_state(cls, state: Sequence[Any]) -> Row:
        """Return the row that a checkpoint has as a list; raise if it is none."""
        mode, epoch, place, total, numbers = state
        found = values_of(numbers)
        if len(found) != len(numbers):
            raise ValueError("the state has values that no row can hold")
        return cls(str(mode), int(epoch), int(place), int(total), found)


class Sink(Protocol):
    """Where rows go: an object with these two methods.

    Example:
        >>> class Print:
        ...     def write(self, row):
        ...         print(row.mode, row.iter, row.numbers["loss"])
        ...
        ...     def close(self): ...
    """

    def write(self, row: Row, /) -> object:
        """Take a row."""

    def close(self) -> object:
        """Finish: the run has ended. A test after it, or another run, may write again."""


def number_of(value: object) -> float | None:
    """Return a single number as an int or a float of Python, also that of an array; None for booleans and the rest.

    Example:
        >>> import numpy as np
        >>> [number_of(value) for value in (3, 0.5, np.float32(0.5), np.ones((1, 1)), True, "0.5", np.ones(2))]
        [3, 0.5, 0.5, 1.0, None, None, None]
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    shape, item = getattr(value, "shape", None), getattr(value, "item", None)
    if shape is not None and callable(item) and all(size == 1 for size in shape):
        return number_of(item())
    return None


def values_of(logs: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the numbers and texts in logs that a row can hold; the place of a row is not among them."""
    found = {name: str(value) if isinstance(value, str) else number_of(value) for name, value in logs.items()}
    return {name: value for name, value in found.items() if value is not None and name not in PLACE}


def is_of(name: str, mode: str) -> bool:
    """Whether a logged name belongs to a mode: ``"train"`` has the names without a prefix."""
    return not name.startswith(_PREFIXES) if mode == "train" else name.startswith(f"{mode}_")


def rates_of(optimizer: object) -> dict[str, float | str]:
    """Return the learning rate and the momentum, if there is one: of the first group, and of each where they differ."""
    groups: list[Mapping[str, Any]] = list(getattr(optimizer, "param_groups", ()))
    found: dict[str, float | str] = {}
    for word in ("lr", "momentum"):
        # The first beta of Adam is its momentum.
        given = [group.get(word, group.get("betas", (None,))[0] if word == "momentum" else None) for group in groups]
        rates = [rate for rate in map(number_of, given) if rate is not None]
        if rates and (word == "lr" or any(rates)):
            shown = rates if any(rate != rates[0] for rate in rates) else rates[:1]
            found.update((f"{word}_{n}" if n else word, rate) for n, rate in enumerate(shown))
    return found


# As text


def number_text(value: float | str) -> str:
    """Return a number for a line of a log: with four places, or as ``3.000e-05`` where places would say little."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, int) or not isfinite(value):
        return str(value)
    return f"{value:.4f}" if not value or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"


def duration_text(seconds: float) -> str:
    """Return a duration as mmcv writes it, such as ``1:02:05``."""
    return str(timedelta(seconds=round(min(seconds, 1e13))))  # an estimate may be infinite


def one_line(text: str, encoding: str | None = None) -> str:
    r"""Return a text on one line: without control characters, and without those that an encoding does not have.

    Example:
        >>> one_line("an\nother\x1b[2J"), one_line("Δ loss", "ascii")
        ('an other?[2J', '? loss')
    """
    shown = "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
    return shown.encode(encoding or "utf-8", "replace").decode(encoding or "utf-8")
