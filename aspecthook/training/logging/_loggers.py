"""Hooks that make rows of what a run logs, and write them to a sink: lines of text, JSON lines, a CSV table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from aspecthook._errors import HookTypeError, brief
from aspecthook.training._options import flag, whole_number
from aspecthook.training.backends._state import is_any
from aspecthook.training.checkpoint._files import folder_of, own_path, path_of
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._checks import length_of
from aspecthook.training.loop._run import Run

from ._line_files import JsonFile, LineFile, TableFile, TextFile
from ._numbers import duration_text, is_of, number_text, one_line, rates_of
from ._row import TIMES, Row, Sink, value_of, values_of
from ._timers import eta_of


class LoggerHook(Hook):
    """Write rows of the log to a sink: any object with ``write(row)`` and ``close()``.

    A training row has the means over the iterations since the last row, weighted by ``num_samples``. Each validation
    and each test adds a row of its own. Only rank 0 logs. A sink that raises gets no more rows, with one warning, and
    the run continues.

    Args:
        sink: Where the rows go.
        interval: Write a row every so many iterations; 0 for never.
        by_epoch: Count the iterations of each epoch; otherwise those of the run.
        ignore_last: Leave out the last iterations of an epoch if they are fewer than `interval`; otherwise they make a
            row.

    Example:
        >>> class Print:
        ...     def write(self, row):
        ...         print(row.mode, row.iter, row.numbers["loss"])
        ...
        ...     def close(self): ...
        >>> LoggerHook(Print(), interval=50).ignore_last
        True
    """

    priority: int | str = "VERY_LOW"

    def __init__(
        self, sink: Sink | None = None, interval: int = 10, *, by_epoch: bool = True, ignore_last: bool = True
    ) -> None:
        who = type(self).__name__
        if type(self) is LoggerHook and not all(callable(getattr(sink, name, None)) for name in ("write", "close")):
            raise HookTypeError(f"LoggerHook: sink={brief(sink)} has no write(row) and close(); give one that has both")
        self.sink: Sink | None = sink
        self.interval: int = whole_number(who, "interval", interval, 0)
        self.by_epoch: bool = flag(who, "by_epoch", by_epoch)
        self.ignore_last: bool = flag(who, "ignore_last", ignore_last)
        self._run: Run | None = None  # that this hook has rows of, from its beginning on
        self._loaded: Mapping[str, Any] | None = None  # a state, until the run begins
        self._sums: dict[str, list[float]] = {}  # since the last row, by name: the sum, and its weight
        self._done = 0  # the iterations of the run that this hook has seen
        self._place = (0, 0)  # the epoch of the newest iteration, and its number in it; both from 1
        self._mode = ""  # of the validation or the test that is under way

    # When

    def before_run(self, runner: Run) -> None:
        """Begin, or continue where the resumed run had stopped."""
        if runner.rank != 0:
            return
        loaded, now = self._loaded, runner.progress
        if loaded is not None:
            self._sums, self._done, self._place = loaded["sums"], loaded["iters"], tuple(loaded["place"])
        self._begin(runner, rerun=loaded is None and self._run is runner)
        self._run, self._loaded, self._mode = runner, None, ""
        if loaded is not None and loaded["unseen"] is not None:
            self._take(runner, *loaded["unseen"])
        if self._done != now.iter:  # the hook was not there, and has sums of something else
            self._sums.clear()
            self._done, self._place = now.iter, (now.epoch + bool(now.inner_iter), now.inner_iter)
        self._end_epoch(runner)

    def _begin(self, runner: Run, *, rerun: bool) -> None:
        """Prepare the sink; `rerun` if the same runner runs again without a resume."""

    def after_train_iter(self, runner: Run) -> None:
        """Add up what the iteration has logged, and write a row if it is due."""
        if runner.rank == 0:
            if self._run is None:  # the hook was registered during the run
                self.before_run(runner)
            self._advance(runner, runner.iter + 1)

    def after_train_epoch(self, runner: Run) -> None:
        """Write a row of the last iterations of an epoch."""
        if self._run is not None:
            self._advance(runner, runner.progress.iter)
            self._end_epoch(runner)

    def before_val_epoch(self, runner: Run) -> None:
        """Write the training rows that are due: a hook may validate before this one is called for the iteration."""
        if runner.rank == 0:
            self.after_train_epoch(runner)
            self._mode = runner.mode

    def after_val_epoch(self, runner: Run) -> None:
        """Write a row of a validation, unless a hook has skipped it."""
        if runner.rank == 0 and self._mode:
            self._take(runner, *self._newest(runner))
            self._mode = ""

    before_test_epoch = before_val_epoch
    after_test_epoch = after_val_epoch
    before_predict_epoch = after_train_epoch

    def always_run(self, runner: Run, exc: BaseException | None) -> None:  # noqa: ARG002  # for subclasses
        """Close the sink."""
        if runner.rank == 0:
            self._to_sink(runner, None)

    # Rows

    def _advance(self, runner: Run, done: int) -> None:
        """Add up what was logged since the last call; `done` iterations are over, one that a hook skipped included."""
        if done > self._done:
            logged = values_of(runner.logged) if done == runner.progress.iter else {}
            self._take(runner, "train", done, runner.epoch + 1, runner.inner_iter + 1, logged, samples_of(runner))

    def _newest(self, runner: Run) -> tuple[str, int, int, int, dict[str, float | str], float]:
        """Return what `_take` takes of the validation under way, or of an iteration that this hook has not seen."""
        logged = values_of(runner.logged)
        if self._mode:
            numbers = {name: value for name, value in logged.items() if is_of(name, self._mode)}
            epoch, inner = self._place
            return self._mode, self._done, epoch, inner, numbers, 1.0
        return "train", runner.progress.iter, runner.epoch + 1, runner.inner_iter + 1, logged, samples_of(runner)

    def _take(
        self,
        runner: Run,
        mode: str,
        done: int,
        epoch: int,
        inner: int,
        logged: Mapping[str, float | str],
        samples: float,
    ) -> None:
        """Write a row of a validation, or add up what an iteration has logged, and write a row if that is due."""
        if mode != "train":
            if logged:
                self._write(runner, self._row(runner, mode, dict(logged)))
            return
        self._done, self._place = done, (epoch, inner)
        for name, number in logged.items():
            if is_of(name, "train") and not isinstance(number, str):
                weight = 1.0 if name in TIMES else samples
                sums = self._sums.setdefault(name, [0.0, 0.0])
                sums[0] += number * weight
                sums[1] += weight
        due = bool(self.interval) and (inner if self.by_epoch else done) % self.interval == 0
        last = not self.by_epoch and not runner.by_epoch and done == runner.max_iters
        if due or (last and not self.ignore_last):
            self._write_training(runner)

    def _end_epoch(self, runner: Run) -> None:
        """Write the rest of an epoch that is complete. A second call finds no sums, and does nothing."""
        if runner.progress.inner_iter == 0:
            if not self.ignore_last and (self.by_epoch or runner.by_epoch):
                self._write_training(runner)
            if self.by_epoch:
                self._sums.clear()

    def _write_training(self, runner: Run) -> None:
        """Write a row of what was added up since the last one, if anything was, and start over."""
        if self._sums:
            self._write(runner, self._row(runner, "train", self._means(runner)))
            self._sums.clear()

    def _row(self, runner: Run, mode: str, numbers: dict[str, float | str]) -> Row:
        """Return a row at the place that the training has reached."""
        epoch, inner = self._place
        return Row(
            mode, epoch, inner if self.by_epoch else self._done, self._done, rates_of(runner.optimizer) | numbers
        )

    def _means(self, runner: Run) -> dict[str, float | str]:
        """Return the means since the last row, times last; a number that was not logged since keeps its value."""
        found = {name: value for name, value in values_of(runner.logs).items() if is_of(name, "train")}
        found.update((name, total / weight) for name, (total, weight) in self._sums.items() if weight)
        return {name: found[name] for name in sorted(found, key=TIMES.__contains__)}

    def _write(self, runner: Run, row: Row) -> None:
        self._to_sink(runner, row)

    def _to_sink(self, runner: Run, row: Row | None) -> None:
        """Write a row, or close the sink; what a sink raises does not end the run."""
        sink = self.sink
        if sink is None:
            return
        try:
            _ = sink.close() if row is None else sink.write(row)
        except Exception as error:
            self.sink = None
            runner.logger.warning(
                "the sink %s has failed, and gets no more rows; the run continues", type(sink).__name__, exc_info=error
            )

    # The state for a checkpoint

    def state_dict(self) -> dict[str, Any]:
        """Return the sums for the next row; and what was logged, and this hook was not called for yet."""
        if self._loaded is not None:
            return dict(self._loaded)
        runner = self._run
        unseen = runner is not None and (bool(self._mode) or runner.progress.iter > self._done)
        return {
            "sums": {name: list(row) for name, row in self._sums.items()},
            "iters": self._done,
            "place": list(self._place),
            "unseen": list(self._newest(runner)) if runner is not None and unseen else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state when the run begins."""
        unseen, (epoch, inner) = state["unseen"], state["place"]
        if unseen is not None:
            mode, *counts, logged, samples = unseen
            done, at_epoch, at_inner = map(int, counts)
            unseen = [str(mode), done, at_epoch, at_inner, checked_values(logged), float(samples)]
        self._loaded = {
            **state,
            "sums": {str(name): [float(total), float(weight)] for name, (total, weight) in state["sums"].items()},
            "iters": int(state["iters"]),
            "place": [int(epoch), int(inner)],
            "unseen": unseen,
        }


class _FileLoggerHook(LoggerHook):
    """The base of loggers that write a file."""

    kind: ClassVar[type[LineFile]] = LineFile
    default: ClassVar[str]

    def __init__(
        self,
        interval: int = 10,
        *,
        by_epoch: bool = True,
        ignore_last: bool = True,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(None, interval, by_epoch=by_epoch, ignore_last=ignore_last)
        self.path: Path | None = None if path is None else path_of(type(self).__name__, path)

    def _begin(self, runner: Run, *, rerun: bool) -> None:
        if self.sink is None or not rerun:
            file = self._open(runner)
            self.sink: Sink | None = file
            if file is not None:
                file.begin(None if self._loaded is None else self._loaded["file"], is_new=runner.progress.iter == 0)

    def _open(self, runner: Run) -> LineFile | None:
        path = self.path or own_path(folder_of(runner.work_dir, type(self).__name__, "path=..."), self.default)
        return self.kind(path, runner.logger)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the file too."""
        if self._loaded is not None:
            return dict(self._loaded)
        return {**super().state_dict(), "file": self.sink.mark() if isinstance(self.sink, LineFile) else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state when the run begins."""
        if state["file"] is not None:
            self.kind.check(state["file"])
        super().load_state_dict(state)


@HOOKS.register
class TextLoggerHook(_FileLoggerHook):
    """Log lines of text, to ``log.txt`` in the run's `work_dir` and to the run's logger.

    The logger gets them at level INFO, which Python hides unless logging is configured; on a terminal, use
    `ProgressHook`. With an `IterTimerHook` the lines have an estimate of the remaining time.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: Another file. Without a path and a `work_dir`, only the logger gets the lines.

    Example:
        >>> TextLoggerHook(interval=100, by_epoch=False).interval
        100
    """

    kind: ClassVar[type[LineFile]] = TextFile
    default = "log.txt"

    def _open(self, runner: Run) -> LineFile | None:
        if self.path is None and runner.work_dir is None:
            return None
        file = super()._open(runner)
        assert isinstance(file, TextFile)
        file.text = lambda row: self._line(runner, row)
        return file

    def _write(self, runner: Run, row: Row) -> None:
        runner.logger.info("%s", self._line(runner, row))
        super()._write(runner, row)

    def _line(self, runner: Run, row: Row) -> str:
        mode = "" if row.mode == "train" else f"({row.mode})"
        what = f"Epoch{mode} [{row.epoch}]" if self.by_epoch else f"Iter{mode} "
        length = length_of(runner.loaders.get("train")) if self.by_epoch else runner.max_iters
        place = f"{what}[{row.iter}{'' if length is None or mode else f'/{length}'}]"
        shown = [f"{name}: {_shown(name, value)}" for name, value in row.numbers.items()]
        eta = eta_of(runner) if row.mode == "train" else None
        return one_line(f"{place}  {', '.join([*shown, *([] if eta is None else [f'eta: {duration_text(eta)}'])])}")


@HOOKS.register
class JsonLoggerHook(_FileLoggerHook):
    """Log rows as JSON lines: one object a line, to ``log.jsonl`` in the run's `work_dir`.

    NaN and infinity become ``null``, since JSON has neither.

    Each line is written at once. A resumed run removes the lines after its checkpoint, so that the file ends up as if
    the run had never stopped; a new run renames an older file to ``log.1.jsonl``. If the disk is full, the run
    continues with a warning, and the missing lines are written when there is room.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: Another file.

    Example:
        >>> JsonLoggerHook(path="metrics.jsonl").path.name
        'metrics.jsonl'
    """

    kind: ClassVar[type[LineFile]] = JsonFile
    default = "log.jsonl"


@HOOKS.register
class CsvLoggerHook(_FileLoggerHook):
    """Log rows as a table, to ``log.csv`` in the run's `work_dir`. It resumes as the file of `JsonLoggerHook` does.

    The file is a valid table at any time. A number without a column, such as the first one of a validation, adds a
    column, for which the file is replaced by a new one. A cell is empty where a row does not have the number.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: Another file.

    Example:
        >>> CsvLoggerHook(interval=1, ignore_last=False).default
        'log.csv'
    """

    kind: ClassVar[type[LineFile]] = TableFile
    default = "log.csv"


def _shown(name: str, value: float | str) -> str:
    is_rate = name == "lr" or name.startswith("lr_")
    return f"{value:.3e}" if is_rate and not isinstance(value, str) else number_text(value)


def samples_of(runner: Run) -> float:
    """Return over how many samples the numbers of an iteration are means."""
    outputs = runner.outputs
    return float(outputs.get("num_samples", 1)) if is_any(outputs, Mapping) else 1.0


def checked_values(values: Any) -> dict[str, float | str]:
    """Return the values of a state; raise a ValueError if a row cannot hold them."""
    found = {str(name): value_of(value) for name, value in values.items()}
    if None in found.values():
        raise ValueError("the state has values that no row can hold")
    return values_of(found)
