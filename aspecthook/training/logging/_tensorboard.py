"""The logger that writes event files for TensorBoard, by tensorboardX."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from time import time
from typing import Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._files import folder_of, own_path
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._run import Run

from ._loggers import LoggerHook
from ._row import TIMES, Row, Sink


@final
class EventFile:
    """A sink that writes an event file, which is made in its folder with the first row.

    TensorBoard drops what older files in the folder have from the step `start` on. `EventsWriter` of tensorboardX
    writes in the thread that has the events; its `SummaryWriter` has another thread for that, which loses the events of
    a program that is killed, and stops it forever where a disk is full.
    """

    def __init__(self, folder: Path, start: int) -> None:
        self._folder = folder
        self._start: int | None = start
        self._writer: Any = None  # tensorboardX is imported with the first row, and has no types

    def write(self, row: Row) -> None:
        """Write the numbers of a row by the names of mmcv, at the iteration of the run."""
        scalar: Any = import_module("tensorboardX.summary").scalar
        writer = self._writer or self._open()
        for name, value in row.numbers.items():
            if not isinstance(value, str) and name not in TIMES:
                summary = scalar(_tag(row.mode, name), value)
                writer.write_event(_proto().Event(wall_time=time(), step=row.total_iter, summary=summary))
        writer.flush()

    def _open(self) -> Any:
        self._folder.mkdir(parents=True, exist_ok=True)
        suffixes = (f".{os.getpid()}.{number}" for number in count())  # several files may begin in one second
        suffix = next(one for one in suffixes if not any(self._folder.glob(f"*{one}")))
        self._writer = import_module("tensorboardX.event_file_writer").EventsWriter(f"{self._folder}/events", suffix)
        if self._start is not None:
            log = _proto().SessionLog(status=_proto().SessionLog.START)
            self._writer.write_event(_proto().Event(wall_time=time(), step=self._start, session_log=log))
        return self._writer

    def close(self) -> None:
        """Close the file; what is written after that begins another one, which TensorBoard reads too."""
        writer, self._writer, self._start = self._writer, None, None
        if writer is not None:
            with suppress(OSError):  # that the disk is full has been said
                writer.close()

    __del__ = close


def _proto() -> Any:
    return import_module("tensorboardX.proto.event_pb2")


def _tag(mode: str, name: str) -> str:
    word, _, group = name.partition("_")
    if word not in ("lr", "momentum"):
        return f"{mode}/{name.removeprefix(f'{mode}_')}"
    return "/".join(filter(None, ({"lr": "learning_rate"}.get(word, word), group)))


@HOOKS.register
class TensorboardLoggerHook(LoggerHook):
    """Log numbers for TensorBoard, to the folder ``tf_logs`` in the run's `work_dir`. Needs the extra `tensorboard`.

    The names are those of mmcv: ``train/loss``, ``val/accuracy``, ``learning_rate``, ``momentum``. The steps are the
    iterations of the run. Times are left out. Each run begins a file of its own, and TensorBoard drops what older files
    in the folder have from there on: everything if the run is new, and what came after its checkpoint if it is resumed.

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
        super().__init__(None, interval, by_epoch=by_epoch, ignore_last=ignore_last)
        if find_spec("tensorboardX") is None:
            raise TrainingError("TensorboardLoggerHook needs tensorboardX; pip install tensorboardX")
        self.log_dir: Path | None = None if log_dir is None else Path(log_dir)

    def _begin(self, runner: Run) -> None:
        done = runner.progress.iter
        folder = self.log_dir or own_path(folder_of(runner.work_dir, "TensorboardLoggerHook", "log_dir=..."), "tf_logs")
        self.sink: Sink | None = EventFile(folder, done + 1 if done else 0)
