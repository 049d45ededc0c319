"""Hooks that write what a run logs: lines of text, JSON lines, a CSV table.

What a row is, and when it is due, is the same for all of them.
"""

from __future__ import annotations

import json
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from aspecthook.training._errors import TrainingError
from aspecthook.training._options import whole_number
from aspecthook.training.hooks._hook import HOOKS, Hook

from ._files import LineFile, TableFile
from ._numbers import duration_text, number_text, one_line
from ._rows import PLACE, Row, Rows, length_of
from ._timers import eta_of

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner


class LoggerHook(Hook, ABC):
    """The base of loggers: override `log`, which is given a row where one is due.

    A row of the training has the means over the iterations since the last row, weighted by ``num_samples``; each
    validation, and each test, makes a row of its own. A row is a dict: ``mode``; ``epoch``, counted from 1; ``iter``,
    how many iterations of the epoch, or of the run, are behind; ``lr`` and ``momentum`` of the first parameter group,
    and ``lr_1`` … where others differ; then what was logged: ``loss``, ``grad_norm``, ``val_accuracy``, ``time``. Rank
    0 alone logs.

    Args:
        interval: Every how many iterations a row is due; 0 for never.
        by_epoch: Count the iterations of each epoch; else those of the run.
        ignore_last: Leave out the last iterations of an epoch if they are fewer than `interval`; else they make a row.

    Raises:
        HookOptionError: The interval is less than 0.
        HookTypeError: The interval is no whole number.

    Example:
        >>> class Print(LoggerHook):
        ...     def log(self, runner, row):
        ...         print(row["mode"], row["iter"], row["loss"])
        >>> Print(interval=50).ignore_last
        True
    """

    priority: int | str = "VERY_LOW"

    def __init__(self, interval: int = 10, *, by_epoch: bool = True, ignore_last: bool = True) -> None:
        self.interval = whole_number(type(self).__name__, "interval", interval, 0)
        self.by_epoch, self.ignore_last = by_epoch, ignore_last
        self._rows = Rows(interval, by_epoch=by_epoch, ignore_last=ignore_last)
        self._runner: weakref.ref[Runner] | None = None
        self._loaded: Mapping[str, Any] | None = None

    @abstractmethod
    def log(self, runner: Runner, row: Row) -> None:
        """Write a row."""

    def before_run(self, runner: Runner) -> None:
        """Begin, or go on where a run that is resumed was."""
        if runner.rank != 0:
            return
        if self._loaded is not None:
            self._rows.load(self._loaded["rows"])
        self._rows.begin(runner)
        rows = self._begin(runner)
        self._runner, self._loaded = weakref.ref(runner), None
        self._log_all(runner, rows)

    def _begin(self, runner: Runner) -> list[Row]:  # noqa: ARG002
        """Make ready to log; give the rows that a run that is resumed still has to log."""
        return [] if self._loaded is None else list(self._loaded["due"])

    def _goes_on(self, runner: Runner) -> bool:
        """Say whether this is a further run of a runner, and is not resumed."""
        return self._loaded is None and self._runner is not None and self._runner() is runner

    def _log_all(self, runner: Runner, rows: list[Row]) -> None:
        for row in rows:
            self.log(runner, row)

    def after_train_iter(self, runner: Runner) -> None:
        """Log what is due after an iteration."""
        if runner.rank != 0:
            return
        if self._runner is None:  # the hook was registered in the middle of a run
            self.before_run(runner)
        self._log_all(runner, self._rows.advance(runner, runner.iter + 1))

    def after_train_epoch(self, runner: Runner) -> None:
        """Log what is due after an epoch."""
        if self._runner is not None:
            self._log_all(runner, self._rows.advance(runner))

    def before_val_epoch(self, runner: Runner) -> None:
        """Log first what is due of the training: a validation may be made in the middle of an iteration's hooks."""
        if runner.rank == 0:
            self.after_train_epoch(runner)
            self._rows.begin_validation(runner)

    def after_val_epoch(self, runner: Runner) -> None:
        """Log a validation."""
        if runner.rank == 0:
            self._log_all(runner, self._rows.end_validation(runner))

    before_test_epoch, after_test_epoch = before_val_epoch, after_val_epoch
    before_predict_epoch = after_train_epoch

    def state_dict(self) -> dict[str, Any]:
        """Give what was gathered for the next row, and the rows that are due and not logged yet."""
        if self._loaded is not None:
            return dict(self._loaded)
        rows, due = self._rows.state(self._runner() if self._runner is not None else None)
        return {"rows": rows, "due": due}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given, when the run begins."""
        self._loaded = state


class _FileLoggerHook(LoggerHook):
    """What loggers into a file have in common."""

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
        self.path = None if path is None else Path(path)
        self._file: LineFile | None = None

    def _begin(self, runner: Runner) -> list[Row]:
        rows = super()._begin(runner)
        if self._file is not None and self._goes_on(runner):
            return rows
        path = self._path(runner)
        file = self._file = None if path is None else self.kind(path, runner.logger)
        mark = None if self._loaded is None else self._loaded["file"]
        if file is None:
            return rows
        if mark is not None:
            return rows[file.resume(mark, len(rows)) :]
        if runner.progress["iter"]:
            file.go_on()
        else:
            file.begin()
        return rows

    def _path(self, runner: Runner) -> Path | None:
        if self.path is not None:
            return self.path
        if runner.work_dir is None:
            name = type(self).__name__
            raise TrainingError(
                f"the {name} has no folder for its file; give Runner(..., work_dir=...) or {name}(path=...)"
            )
        return runner.work_dir / self.default

    def state_dict(self) -> dict[str, Any]:
        """Give besides how much of the file there is, and what could not be written to it."""
        if self._loaded is not None:
            return dict(self._loaded)
        state = super().state_dict()
        held = [] if self._file is None else [row for row, _ in self._file.held]
        return {**state, "due": [*held, *state["due"]], "file": None if self._file is None else self._file.mark}


@HOOKS.register
class TextLoggerHook(_FileLoggerHook):
    """Log lines of text, to ``log.txt`` in the run's `work_dir` and to the run's logger.

    The logger is given them at the level INFO, which nobody sees unless logging is set up; for the terminal there is
    `ProgressHook`. How long the rest of the training will take is said if there is an `IterTimerHook`.

    Args:
        interval: See `LoggerHook`.
        by_epoch: See `LoggerHook`.
        ignore_last: See `LoggerHook`.
        path: Another file. Without that and a `work_dir`, the logger alone is given the lines.

    Example:
        >>> TextLoggerHook(interval=100, by_epoch=False).interval
        100
    """

    default = "log.txt"

    def _path(self, runner: Runner) -> Path | None:
        return None if self.path is None and runner.work_dir is None else super()._path(runner)

    def log(self, runner: Runner, row: Row) -> None:
        """Write a line."""
        line = f"{self._place(runner, row)}  {self._numbers(runner, row)}"
        runner.logger.info("%s", line)
        if self._file is not None:
            self._file.write(row, f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}")

    def _place(self, runner: Runner, row: Row) -> str:
        mode = "" if row["mode"] == "train" else f"({row['mode']})"
        what = f"Epoch{mode} [{row['epoch']}]" if self.by_epoch else f"Iter{mode} "
        length = length_of(runner.loaders.get("train")) if self.by_epoch else runner.max_iters
        return f"{what}[{row['iter']}{'' if length is None or mode else f'/{length}'}]"

    def _numbers(self, runner: Runner, row: Row) -> str:
        shown = [f"{one_line(name)}: {_shown(name, value)}" for name, value in row.items() if name not in PLACE]
        eta = eta_of(runner) if row["mode"] == "train" else None
        return ", ".join([*shown, *([] if eta is None else [f"eta: {duration_text(eta)}"])])


@HOOKS.register
class JsonLoggerHook(_FileLoggerHook):
    """Log rows as JSON lines: one object a line, to ``log.jsonl`` in the run's `work_dir`.

    What is infinite or not a number is ``null``, since JSON has neither; a column of them stays one of numbers for
    whoever reads it.

    A line is written at once, and whole. A run that is resumed cuts off what was written after its checkpoint, so that
    the file becomes that of a run that never ended; a new run keeps an older file, as ``log.1.jsonl``. Where the disk
    is full, the run goes on, with a warning, and what is missing is written when there is room.

    Args:
        interval: See `LoggerHook`.
        by_epoch: See `LoggerHook`.
        ignore_last: See `LoggerHook`.
        path: Another file.

    Example:
        >>> JsonLoggerHook(path="metrics.jsonl").path.name
        'metrics.jsonl'
    """

    default = "log.jsonl"

    def log(self, runner: Runner, row: Row) -> None:  # noqa: ARG002
        """Write an object."""
        if self._file is not None:
            self._file.write(row, json.dumps({name: _json(value) for name, value in row.items()}))


@HOOKS.register
class CsvLoggerHook(_FileLoggerHook):
    """Log rows as a table, to ``log.csv`` in the run's `work_dir`; as to kills and full disks, see `JsonLoggerHook`.

    The file is a whole table at any time: where a number comes that has no column yet, such as the first of a
    validation, it is written anew and put in the place of the old one. A cell is empty where a row has no such number.

    Args:
        interval: See `LoggerHook`.
        by_epoch: See `LoggerHook`.
        ignore_last: See `LoggerHook`.
        path: Another file.

    Example:
        >>> CsvLoggerHook(interval=1, ignore_last=False).default
        'log.csv'
    """

    kind = TableFile
    default = "log.csv"

    def log(self, runner: Runner, row: Row) -> None:  # noqa: ARG002
        """Write a line."""
        if self._file is not None:
            self._file.write(row, "")


def _json(value: float | str) -> float | str | None:
    return value if isinstance(value, (str, int)) or isfinite(value) else None


def _shown(name: str, value: float | str) -> str:
    is_rate = name == "lr" or name.startswith("lr_")
    return f"{value:.3e}" if is_rate and not isinstance(value, str) else number_text(value)
