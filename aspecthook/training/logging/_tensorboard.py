"""The logger for TensorBoard."""

from __future__ import annotations

import os
from pathlib import Path

from aspecthook.training.checkpoint._files import folder_of, own_path
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._run import Run

from ._event_files import EventFile, require_tensorboardx
from ._line_files import Tolerance
from ._loggers import LoggerHook
from ._rows import PLACE, TIMES, LogRow, rates_row


@HOOKS.register
class TensorboardLoggerHook(LoggerHook):
    """Log numbers for TensorBoard, to the folder ``tf_logs`` in the run's `work_dir`. Needs the extra `tensorboard`.

    The names are those of mmcv: ``train/loss``, ``val/accuracy``, ``learning_rate``, ``momentum``. The steps are the
    iterations of the run. Times are left out. Each run begins a file of its own, and TensorBoard drops what older files
    in the folder have from there on: everything if the run is new, and what came after its checkpoint if it is resumed.
    If the disk is full, the run continues, as with the `JsonLoggerHook`.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        log_dir: Another folder.

    Example:
        >>> TensorboardLoggerHook.priority
        'VERY_LOW'
    """

    def __init__(
        self,
        interval: int = 10,
        *,
        by_epoch: bool = True,
        ignore_last: bool = True,
        log_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(interval, by_epoch=by_epoch, ignore_last=ignore_last)
        require_tensorboardx("TensorboardLoggerHook")
        self.log_dir: Path | None = None if log_dir is None else Path(log_dir)
        self._file: EventFile | None = None

    def _begin(self, runner: Run) -> list[LogRow]:
        rows = super()._begin(runner)
        if self._file is None or not self._is_rerun(runner):
            done = runner.done.iter
            folder = self.log_dir or own_path(folder_of(runner, "TensorboardLoggerHook", "log_dir=..."), "tf_logs")
            self._file = EventFile(folder, start=done + 1 if done else 0)
            self._tolerating = Tolerance(folder, runner.logger)
        return rows

    def log(self, runner: Run, row: LogRow) -> None:
        """Write the numbers of a row."""
        if self._file is None:  # outside a run, before any
            return
        mode, rates = str(row["mode"]), rates_row(runner.optimizer)
        numbers = {
            _tag(mode, name, name in rates): value
            for name, value in row.items()
            if not isinstance(value, str) and name not in (*PLACE, *TIMES)
        }
        self._file.add_numbers(numbers, self._rows.done)
        with self._tolerating():
            self._file.write()


def _tag(mode: str, name: str, is_rate: bool) -> str:
    if not is_rate:
        return f"{mode}/{name.removeprefix(f'{mode}_')}"
    word, _, group = name.partition("_")
    return "/".join(filter(None, ({"lr": "learning_rate"}.get(word, word), group)))
