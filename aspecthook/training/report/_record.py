"""The record of a run's numbers: of bounded size, and part of the checkpoints.

The invariant: the record depends only on the numbers and their order, and not on where the run was stopped and resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from math import inf, isfinite, nan
from typing import Any, NamedTuple, Self, final

from aspecthook.training.logging._rows import TIMES

_MOST_POINTS = 400  # of a number; a chart is about as many pixels wide
_MOST_ROWS = 500  # of the table
_HUGE = 1e300  # greater numbers count as infinite, because their sums are
_MOST_NAMES = 200  # so that a hook that logs ever new names cannot fill the memory


@final
@dataclass(slots=True, eq=False)
class Window:
    """Consecutive values of a number, as their weighted mean and their extremes.

    NaN and infinity count as `bad`, and are no part of the mean.
    """

    begin: int
    end: int
    count: int = 0
    bad: int = 0
    weight: float = 0.0
    total: float = 0.0
    low: float = inf
    high: float = -inf

    def add(self, at: int, value: float, weight: float) -> None:
        """Add a value."""
        self.end = at
        if not -_HUGE < value < _HUGE:  # NaN compares as false
            self.bad += 1
            return
        self.count += 1
        self.weight += weight
        self.total += value * weight
        self.low = min(self.low, value)
        self.high = max(self.high, value)

    def joined(self, other: Window) -> Window:
        """Return this window and the next one as one."""
        sums = self.count + other.count, self.bad + other.bad, self.weight + other.weight, self.total + other.total
        return Window(self.begin, other.end, *sums, min(self.low, other.low), max(self.high, other.high))

    @property
    def size(self) -> int:
        """The number of values, good and bad."""
        return self.count + self.bad

    @property
    def mean(self) -> float:
        """The mean of the good values; NaN if there is none."""
        return self.total / self.weight if self.weight else nan


# Any: an array; NumPy is not imported before the first checkpoint.
def _packed(windows: Iterable[Window]) -> Any:
    """Return windows as one array, which takes fewer bytes in a checkpoint than lists of numbers."""
    import numpy as np

    rows = [astuple(one) for one in windows]
    return np.array(rows, np.float64).reshape(-1, len(fields(Window)))


def _unpacked(rows: Any) -> list[Window]:
    return [
        Window(int(begin), int(end), int(count), int(bad), *rest) for begin, end, count, bad, *rest in rows.tolist()
    ]


@final
class Series:
    """One number over the iterations of a run: its first value, then means over windows that widen during the run.

    Example:
        >>> series = Series(most=4)
        >>> for iteration in range(1, 10):
        ...     series.add(iteration, float(iteration))
        >>> [(window.begin, window.end, window.mean) for window in series.windows]
        [(1, 1, 1.0), (2, 5, 3.5), (6, 9, 7.5)]
    """

    def __init__(self, most: int = _MOST_POINTS) -> None:
        self.most = most
        self.width = 1
        self.windows: list[Window] = []
        self.last: float = nan

    def add(self, at: int, value: float, weight: float = 1.0) -> None:
        """Add the value of the next iteration."""
        self.last = value
        if len(self.windows) < 2 or self.windows[-1].size >= self.width:
            self.windows.append(Window(at, at))
        self.windows[-1].add(at, value, weight)
        if len(self.windows) > self.most:
            self.width *= 2
            self.windows = [self.windows[0], *joined(self.windows[1:])]

    @property
    def bad(self) -> int:
        """The number of values that were NaN or infinite."""
        return sum(window.bad for window in self.windows)

    def cut(self, after: int) -> None:
        """Remove the values after an iteration."""
        self.windows = [window for window in self.windows if window.begin <= after]
        self.last = self.windows[-1].mean if self.windows else nan

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"width": self.width, "last": self.last, "windows": _packed(self.windows)}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Self:
        """Return the series of a state."""
        series = cls()
        series.width, series.last = int(state["width"]), float(state["last"])
        series.windows = _unpacked(state["windows"])
        return series


def joined(windows: list[Window]) -> list[Window]:
    """Join windows in pairs; the last of an odd number stays as it is."""
    pairs = [one.joined(other) for one, other in zip(windows[::2], windows[1::2], strict=False)]
    return pairs + windows[len(pairs) * 2 :]


class Best(NamedTuple):
    """The best or the last value of a number, and its row."""

    value: float
    row: EpochRow


@final
@dataclass(slots=True, eq=False)
class EpochRow:
    """One row of the table: an epoch, or the iterations between two validations."""

    epoch: int
    iter: int
    since: float
    seconds: float = 0.0
    closed: int | None = None  # the last iteration of the row, once it is closed
    numbers: dict[str, float] = field(default_factory=dict[str, float])
    windows: dict[str, Window] = field(default_factory=dict[str, Window])  # of training, while the row is open

    def value(self, name: str) -> float | None:
        """Return a number; of training its mean over the row, or NaN if one of the values was not finite."""
        window = self.windows.get(name)
        if window is not None:
            return nan if window.bad else window.mean
        return self.numbers.get(name)

    def fold(self) -> None:
        """Keep only the means of the numbers of training: the row is complete."""
        self.numbers = {**{name: self.value(name) or 0.0 for name in self.windows}, **self.numbers}
        self.windows = {}


@final
class Curves:
    """The numbers of a run, as curves over its iterations and as a table of its epochs.

    Curves have means over windows. The table keeps its first and last row, the rows where a number is at its lowest or
    highest, and as many of the others as there is room for.

    Example:
        >>> curves = Curves()
        >>> for iteration in range(1, 5):
        ...     curves.train(iteration, epoch=1, numbers={"loss": 1 / iteration})
        >>> curves.validate(4, epoch=1, numbers={"val_accuracy": 0.9})
        >>> [round(window.mean, 2) for window in curves.series["loss"].windows]
        [1.0, 0.5, 0.33, 0.25]
        >>> [(row.epoch, row.iter, row.value("val_accuracy")) for row in curves.rows]
        [(1, 4, 0.9)]
    """

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self.rows: list[EpochRow] = []
        self.seconds: float = 0.0  # the duration of the run, with the runs that it was resumed from
        self.begun: str | None = None
        self.runs: int = 0
        self.at: int = 0  # the last iteration of training
        self._count = 0

    def train(self, at: int, epoch: int, numbers: Mapping[str, float], samples: float = 1.0) -> None:
        """Add the numbers of an iteration, counted from 1: means over so many samples, as in the logs."""
        row = self._row(at, epoch)
        self.at = row.iter = at
        row.epoch = epoch
        row.seconds = self.seconds - row.since
        for name, value in numbers.items():
            weight = 1.0 if name in TIMES else samples
            row.windows.setdefault(name, Window(at, at)).add(at, value, weight)
            self._add(name, at, value, weight)

    def validate(self, at: int, epoch: int, numbers: Mapping[str, float]) -> None:
        """Add the numbers of a validation or a test after so many iterations, and close the row."""
        row = self.rows[-1] if self.rows and self.rows[-1].iter == at else self._row(at, epoch)
        row.closed = at
        row.seconds = self.seconds - row.since
        for name, value in numbers.items():
            self._add(name, at, value)
            row.numbers[name] = value

    def close(self, *, complete: bool = True) -> None:
        """Note the time of the row, and close it if its epoch is complete: a run may be resumed inside of it."""
        if self.rows:
            if complete:
                self.rows[-1].closed = self.rows[-1].iter
            self.rows[-1].seconds = self.seconds - self.rows[-1].since

    def _add(self, name: str, at: int, value: float, weight: float = 1.0) -> None:
        series = self.series.get(name)
        if series is None:
            if len(self.series) >= _MOST_NAMES:
                return
            series = self.series[name] = Series()
        series.add(at, value, weight)

    def _row(self, at: int, epoch: int) -> EpochRow:
        """Return the row that an iteration belongs to."""
        last = self.rows[-1] if self.rows else None
        if last is not None and (last.closed is None or at <= last.closed):
            return last
        if last is not None:
            last.fold()
        row = EpochRow(epoch, at, self.seconds)
        self._count += 1
        self.rows.append(row)
        if len(self.rows) > _MOST_ROWS:
            self._thin()
        return row

    def _thin(self) -> None:
        """Remove every other row, except the first, the last, and those with an extreme."""
        special = {id(self.rows[0]), id(self.rows[-1])}
        for name in {name for row in self.rows for name in (*row.numbers, *row.windows)}:
            special.update(id(best.row) for best in (self.best(name, "less"), self.best(name, "greater")) if best)
        plain = [row for row in self.rows if id(row) not in special]
        kept = special | {id(row) for row in plain[1::2]}
        self.rows = [row for row in self.rows if id(row) in kept]

    @property
    def is_thinned(self) -> bool:
        """Whether rows were left out."""
        return self._count > len(self.rows)

    def best(self, name: str, rule: str) -> Best | None:
        """Return the best value of a number, the first of several; None if it was never finite."""
        found: Best | None = None
        for row in self.rows:
            value = row.value(name)
            if value is None or not isfinite(value):
                continue
            if found is None or (value > found.value if rule == "greater" else value < found.value):
                found = Best(value, row)
        return found

    def final(self, name: str) -> Best | None:
        """Return the last value of a number."""
        return next((Best(value, row) for row in reversed(self.rows) if (value := row.value(name)) is not None), None)

    def cut(self, after: int) -> None:
        """Remove everything after an iteration that the run was resumed from."""
        for series in self.series.values():
            series.cut(after)
        self.series = {name: series for name, series in self.series.items() if series.windows}
        before, self.rows = len(self.rows), [row for row in self.rows if row.iter <= after]
        self._count -= before - len(self.rows)
        self.at = min(self.at, after)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "series": {name: series.state() for name, series in self.series.items()},
            "rows": [[row.epoch, row.iter, row.since, row.seconds, row.closed, dict(row.numbers)] for row in self.rows],
            "open": {name: _packed([window]) for row in self.rows[-1:] for name, window in row.windows.items()},
            "seconds": self.seconds,
            "begun": self.begun,
            "runs": self.runs,
            "at": self.at,
            "count": self._count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state."""
        self.series = {name: Series.of(series) for name, series in state["series"].items()}
        self.rows = [EpochRow(*row) for row in state["rows"]]
        if self.rows:
            self.rows[-1].windows = {name: _unpacked(window)[0] for name, window in state["open"].items()}
        self.seconds, self.begun, self.runs = state["seconds"], state["begun"], state["runs"]
        self.at, self._count = state["at"], state["count"]
