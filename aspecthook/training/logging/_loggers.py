"""Hooks that log rows: as lines of text, as JSON lines, as a CSV table."""

from __future__ import annotations

import json
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

from aspecthook.training._options import flag, whole_number
from aspecthook.training.checkpoint._files import folder_of, own_path, path_of
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._checks import length_of
from aspecthook.training.loop._run import Run

from ._line_files import LineFile, TableFile
from ._numbers import duration_text, number_text, one_line
from ._rows import PLACE, LogRow, LogRows, loaded_rows
from ._timers import eta_of


class LoggerHook(Hook, ABC):
    """The base of loggers: override `log`, which is called with each row.

    A training row has the means over the iterations since the last row, weighted by ``num_samples``. Each validation
    and each test adds a row of its own. A row is a dict: ``mode``; ``epoch``, counted from 1; ``iter``, the number of
    iterations done in the epoch, or in the run; ``lr`` and ``momentum`` of the first parameter group, and ``lr_1`` … of
    groups that differ; then the logged numbers, such as ``loss``, ``grad_norm``, ``val_accuracy``, ``time``. Only rank
    0 logs.

    Args:
        interval: Log a row every so many iterations; 0 for never.
        by_epoch: Count the iterations of each epoch; otherwise those of the run.
        ignore_last: Leave out the last iterations of an epoch if they are fewer than `interval`; otherwise they make a
            row.

    Example:
        >>> class Print(LoggerHook):
        ...     def log(self, runner, row):
        ...         print(row["mode"], row["iter"], row["loss"])
        >>> Print(interval=50).ignore_last
        True
    """

    priority: int | str = "VERY_LOW"

    def __init__(self, interval: int = 10, *, by_epoch: bool = True, ignore_last: bool = True) -> None:
        who = type(self).__name__
        self.interval: int = whole_number(who, "interval", interval, 0)
        self.by_epoch: bool = flag(who, "by_epoch", by_epoch)
        self.ignore_last: bool = flag(who, "ignore_last", ignore_last)
        self._rows = LogRows(interval, by_epoch=by_epoch, ignore_last=ignore_last)
        self._runner: weakref.ref[Run] | None = None
        self._loaded: Mapping[str, Any] | None = None

    @abstractmethod
    def log(self, runner: Run, row: LogRow) -> None:
        """Write a row."""

    def before_run(self, runner: Run) -> None:
        """Begin, or continue where the resumed run had stopped."""
        if runner.rank != 0:
            return
        if self._loaded is not None:
            self._rows.load(self._loaded["rows"])
        self._rows.begin(runner)
        rows = self._begin(runner)
        self._runner, self._loaded = weakref.ref(runner), None
        self._log_all(runner, rows)

    def _begin(self, runner: Run) -> list[LogRow]:  # noqa: ARG002
        """Prepare to log. Return the rows that a resumed run still has to log."""
        return [] if self._loaded is None else list(self._loaded["due"])

    def _is_rerun(self, runner: Run) -> bool:
        """Whether the same runner runs again without a resume."""
        return self._loaded is None and self._runner is not None and self._runner() is runner

    def _log_all(self, runner: Run, rows: list[LogRow]) -> None:
        for row in rows:
            self.log(runner, row)

    def after_train_iter(self, runner: Run) -> None:
        """Log what is due after an iteration."""
        if runner.rank != 0:
            return
        if self._runner is None:  # the hook was registered during the run
            self.before_run(runner)
        self._log_all(runner, self._rows.advance(runner, runner.iter + 1))

    def after_train_epoch(self, runner: Run) -> None:
        """Log what is due after an epoch."""
        if self._runner is not None:
            self._log_all(runner, self._rows.advance(runner))

    def before_val_epoch(self, runner: Run) -> None:
        """Log the training rows that are due: a hook may validate before the loggers are called for the iteration."""
        if runner.rank == 0:
            self.after_train_epoch(runner)
            self._rows.begin_validation(runner)

    def after_val_epoch(self, runner: Run) -> None:
        """Log a validation."""
        if runner.rank == 0:
            self._log_all(runner, self._rows.end_validation(runner))

    before_test_epoch = before_val_epoch
    after_test_epoch = after_val_epoch
    before_predict_epoch = after_train_epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the next row, and the rows that are due and not logged yet."""
        if self._loaded is not None:
            return dict(self._loaded)
        rows, due = self._rows.state(self._runner() if self._runner is not None else None)
        return {"rows": rows, "due": due}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state when the run begins."""
        self._rows.check(state["rows"])
        self._loaded = {**state, "due": loaded_rows(state["due"])}


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
        super().__init__(interval, by_epoch=by_epoch, ignore_last=ignore_last)
        self.path: Path | None = None if path is None else path_of(type(self).__name__, path)
        self._file: LineFile | None = None

    def _begin(self, runner: Run) -> list[LogRow]:
        rows = super()._begin(runner)
        if self._file is not None and self._is_rerun(runner):
            return rows
        path = self._path(runner)
        file = self._file = None if path is None else self.kind(path, runner.logger)
        mark = None if self._loaded is None else self._loaded["file"]
        if file is not None:
            if mark is not None:
                file.resume(mark)
            elif runner.done.iter:
                file.reopen()
            else:
                file.begin()
        return rows

    def _path(self, runner: Run) -> Path | None:
        return self.path or own_path(folder_of(runner, type(self).__name__, "path=..."), self.default)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the file too, and the rows that could not be written to it."""
        if self._loaded is not None:
            return dict(self._loaded)
        state = super().state_dict()
        pending = [] if self._file is None else [row for row, _ in self._file.pending]
        return {**state, "due": [*pending, *state["due"]], "file": None if self._file is None else self._file.mark}


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

    default = "log.txt"

    def _path(self, runner: Run) -> Path | None:
        return None if self.path is None and runner.work_dir is None else super()._path(runner)

    def log(self, runner: Run, row: LogRow) -> None:
        """Write a line."""
        line = one_line(f"{self._place(runner, row)}  {self._numbers(runner, row)}")
        runner.logger.info("%s", line)
        if self._file is not None:
            self._file.write(row, f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}")

    def _place(self, runner: Run, row: LogRow) -> str:
        mode = "" if row["mode"] == "train" else f"({row['mode']})"
        what = f"Epoch{mode} [{row['epoch']}]" if self.by_epoch else f"Iter{mode} "
        length = length_of(runner.loaders.get("train")) if self.by_epoch else runner.max_iters
        return f"{what}[{row['iter']}{'' if length is None or mode else f'/{length}'}]"

    def _numbers(self, runner: Run, row: LogRow) -> str:
        shown = [f"{name}: {_shown(name, value)}" for name, value in row.items() if name not in PLACE]
        eta = eta_of(runner) if row["mode"] == "train" else None
        return ", ".join([*shown, *([] if eta is None else [f"eta: {duration_text(eta)}"])])


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

    default = "log.jsonl"

    def log(self, runner: Run, row: LogRow) -> None:  # noqa: ARG002
        """Write an object."""
        if self._file is not None:
            self._file.write(row, json.dumps({name: _json(value) for name, value in row.items()}))


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

    def log(self, runner: Run, row: LogRow) -> None:  # noqa: ARG002
        """Write a line."""
        if self._file is not None:
            self._file.write(row, "")


def _json(value: float | str) -> float | str | None:
    return value if isinstance(value, (str, int)) or isfinite(value) else None


def _shown(name: str, value: float | str) -> str:
    is_rate = name == "lr" or name.startswith("lr_")
    return f"{value:.3e}" if is_rate and not isinstance(value, str) else number_text(value)
