"""The rows of a log: which numbers they hold, and when they are due.

What is in a row is what `Run.log` was called with in its iterations, or in its validation.

The invariant: the rows depend only on how much of the run is done, and not on which hook asks for them, or when. So a
checkpoint holds the same rows whether it is saved before or after the loggers are called for an iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any, TypeAlias, cast, final

from aspecthook.training.backends._state import is_any
from aspecthook.training.loop._run import Run

from ._numbers import is_of, number_of, rates_of

# Flat, so that every format can hold it. The texts are the mode, and those that a model has logged.
LogRow: TypeAlias = dict[str, float | str]

PLACE = ("mode", "epoch", "iter")
TIMES = ("time", "data_time")


@final
class LogRows:
    """Collects the numbers of iterations, and returns a row of their means when one is due.

    Each iteration counts for one row at most, weighted by its ``num_samples``; times are not weighted.

    The options are those of `LoggerHook`.
    """

    def __init__(self, interval: int, *, by_epoch: bool, ignore_last: bool) -> None:
        self.interval, self.by_epoch, self.ignore_last = interval, by_epoch, ignore_last
        self._sums: dict[str, list[float]] = {}  # by name: the sum, and its weight
        # What has been seen of the run: iterations, complete epochs, and the epoch and iteration of the last row.
        self.done = self._epochs = 0
        self._place = (0, 0)
        self._mode: str | None = None  # of the validation, or the test, that has begun

    def begin(self, runner: Run) -> None:
        """Begin at the iteration that the run has reached, and keep the sums if they belong to this run."""
        now = runner.done
        self._mode = None
        if self.done != now.iter:
            self._sums.clear()
            self.done, self._epochs = now.iter, now.epoch
            self._place = (now.epoch + bool(now.inner_iter), now.inner_iter)

    # Training

    def advance(self, runner: Run, done: int | None = None) -> list[LogRow]:
        """Collect what the run has done since the last call, and return the rows that are due.

        `done` is the number of an iteration that ends, even if a hook has skipped it.
        """
        rows: list[LogRow] = []
        now = runner.done
        done = now.iter if done is None else done
        if done > self.done:
            rows += self._take(runner, done, fresh=now.iter == done)
        if now.epoch > self._epochs:
            self._epochs = now.epoch
            if not self.ignore_last and (self.by_epoch or runner.by_epoch):
                rows += self.close(runner)
            if self.by_epoch:
                self._sums.clear()
        return rows

    def close(self, runner: Run) -> list[LogRow]:
        """Return a row of what was collected since the last one, if anything was, and start over."""
        if not self._sums:
            return []
        count = self._place[1] if self.by_epoch else self.done
        place: LogRow = {"mode": "train", "epoch": self._place[0], "iter": count}
        row = _joined(place, rates_row(runner.optimizer), self.means(runner.logs))
        self._sums.clear()
        return [row]

    def means(self, logs: Mapping[str, Any]) -> LogRow:
        """Return the means since the last row, times last; a number that was not logged since keeps its value."""
        found: LogRow = {}
        for name, value in (*_of_training(logs), *((name, None) for name in self._sums)):
            total, weight = self._sums.get(name, (0.0, 0.0))
            newest = value_of(value)
            if weight:
                found[name] = total / weight
            elif newest is not None:
                found.setdefault(name, newest)
        return {name: found[name] for name in sorted(found, key=TIMES.__contains__)}

    def _take(self, runner: Run, done: int, *, fresh: bool) -> list[LogRow]:
        inner = runner.inner_iter + 1
        self.done, self._place = done, (runner.epoch + 1, inner)
        if fresh:
            self._add(runner)
        due = bool(self.interval) and (inner if self.by_epoch else done) % self.interval == 0
        last = not self.by_epoch and not runner.by_epoch and done == runner.max_iters
        return self.close(runner) if due or (last and not self.ignore_last) else []

    def _add(self, runner: Run) -> None:
        count = samples_of(runner)
        for name, value in _of_training(runner.logged):
            number = number_of(value)
            if number is not None:
                weight = 1.0 if name in TIMES else count
                row = self._sums.setdefault(name, [0.0, 0.0])
                row[0] += number * weight
                row[1] += weight

    # Validations

    def begin_validation(self, runner: Run) -> None:
        """Begin a validation or a test."""
        self._mode = runner.mode

    def end_validation(self, runner: Run) -> list[LogRow]:
        """Return a row of the numbers that a validation or a test has logged.

        Its epoch and iteration are those that the training has reached.
        """
        mode, self._mode = self._mode, None
        if mode is None:  # a hook has skipped the validation
            return []
        new = {name: value_of(value) for name, value in runner.logs.items() if name in runner.logged}
        numbers = {name: value for name, value in new.items() if value is not None and is_of(name, mode)}
        return [_joined(self._place_of(runner, mode), rates_row(runner.optimizer), numbers)] if numbers else []

    def _place_of(self, runner: Run, mode: str) -> LogRow:
        now = runner.done
        inside = now.inner_iter
        count = (inside or self._place[1]) if self.by_epoch else now.iter
        return {"mode": mode, "epoch": now.epoch + bool(inside), "iter": count}

    # The state for a checkpoint

    def state(self, runner: Run | None) -> tuple[dict[str, Any], list[LogRow]]:
        """Return the state for a checkpoint saved now, and the rows that are due by now and were not returned yet."""
        ahead = copy(self)
        ahead._sums = {name: list(row) for name, row in self._sums.items()}
        rows = [] if runner is None else [*ahead.advance(runner), *ahead.end_validation(runner)]
        state = {"sums": ahead._sums, "iters": ahead.done, "epochs": ahead._epochs, "place": list(ahead._place)}
        return state, rows

    def check(self, state: Mapping[str, Any]) -> None:
        """Raise what `load` would raise, before the run begins."""
        copy(self).load(state)

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state."""
        self._sums = {name: [float(value) for value in row] for name, row in state["sums"].items()}
        self.done, self._epochs = int(state["iters"]), int(state["epochs"])
        self._place = (int(state["place"][0]), int(state["place"][1]))


def samples_of(runner: Run) -> float:
    """Return over how many samples the numbers of an iteration are means."""
    outputs = runner.outputs
    return float(outputs.get("num_samples", 1)) if is_any(outputs, Mapping) else 1.0


def _of_training(logs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in logs.items() if is_of(name, "train"))


def _joined(place: LogRow, *parts: LogRow) -> LogRow:
    """Join the parts of a row; a number that a model calls ``epoch`` does not replace the epoch of the row."""
    row = dict(place)
    for part in parts:
        row.update((name, value) for name, value in part.items() if name not in PLACE)
    return row


# Any: what a model has logged.
def value_of(value: Any) -> float | str | None:
    """Return a number or a text as a row holds it; None if it is neither."""
    return str(value) if isinstance(value, str) else number_of(value)


def loaded_rows(rows: Any) -> list[LogRow]:
    """Return the rows of a state; raise a ValueError if they are none."""
    found = [{str(name): value_of(value) for name, value in row.items()} for row in rows]
    if any(None in row.values() or not {*PLACE} <= row.keys() for row in found):
        raise ValueError("the state has rows that are none")
    return cast("list[LogRow]", found)


def rates_row(optimizer: Any) -> LogRow:
    """Return the learning rate and the momentum, if there is one: of the first group, and of each where they differ."""
    groups: list[Mapping[str, Any]] = list(getattr(optimizer, "param_groups", ()))
    row: LogRow = {}
    for word, rates in rates_of(optimizer).items():
        first = rates[0]
        if first is None or (word == "momentum" and not any(rates)):
            continue
        row[word] = first
        others = enumerate(rates) if any(rate != first for rate in rates) else ()
        row.update((f"{word}_{groups[n].get('name', n)}", rate) for n, rate in others if n and rate is not None)
    return row
