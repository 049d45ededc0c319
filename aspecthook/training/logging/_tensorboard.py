"""The logger that writes event files for TensorBoard, by tensorboardX."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from time import time
from typing import Any, ClassVar, final

from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._run import Run

from ._files import FileLoggerHook
from ._row import TIMES, Row


@final
class EventFile:
    """A sink that writes an event file, which is made in its folder with the first row.

    TensorBoard drops what older files in the folder have from the step `start` on. `EventsWriter` of tensorboardX
    writes in the thread that has the events; its `SummaryWriter` has another thread for that, which loses the events of
    a program that is killed, and stops it forever where a disk is full.
    """

    def __init__(self, folder: Path, start: int) -> None:
        self.path = folder
        self._start: int | None = start
        self._writer: Any = None  # tensorboardX is imported with the first row, and has no types

    def write(self, row: Row) -> None:
        """Write the numbers of a row by the names of mmcv, at the iteration of the run."""
        scalar: Any = import_module("tensorboardX.summary").scalar
        try:
            self._writer = self._writer or self._opened()
            for name, value in row.numbers.items():
                if not isinstance(value, str) and name not in TIMES:
                    summary = scalar(_tag(row.mode, name), value)
                    self._writer.write_event(_proto().Event(wall_time=time(), step=row.total_iter, summary=summary))
            self._writer.flush()
        except OSError:
            self.close()  # what follows a part of an event is not read, so the next row begins another file
            raise

    def _opened(self) -> Any:
        self.path.mkdir(parents=True, exist_ok=True)
        suffixes = (f".{os.getpid()}.{number}" for number in count())  # several files may begin in one second
        suffix = next(one for one in suffixes if not any(self.path.glob(f"*{one}")))
        writer = import_module("tensorboardX.event_file_writer").EventsWriter(f"{self.path}/events", suffix)
        if self._start is not None:
            log = _proto().SessionLog(status=_proto().SessionLog.START)
            writer.write_event(_proto().Event(wall_time=time(), step=self._start, session_log=log))
            self._start = None
        return writer

    def close(self) -> None:
        """Close the file; what is written after that begins another one, which TensorBoard reads too."""
        writer, self._writer = self._writer, None
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
class TensorboardLoggerHook(FileLoggerHook):
    """Log numbers for TensorBoard, to the folder ``tf_logs`` in the run's `work_dir`. Needs the extra `tensorboard`.

    The names are those of mmcv: ``train/loss``, ``val/accuracy``, ``learning_rate``, ``momentum``. The steps are the
    iterations of the run. Times are left out. Each run begins a file of its own, and TensorBoard drops what older files
    in the folder have from there on: everything if the run is new, and what came after its checkpoint if it is resumed.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: Another folder.

    Example:
        >>> TensorboardLoggerHook.priority
        'VERY_LOW'
    """

    needs: ClassVar[tuple[str, ...]] = ("tensorboardX",)
    default: ClassVar[str] = "tf_logs"

    def _begin(self, runner: Run) -> None:
        done = runner.progress.iter
        self.sink = EventFile(self.target(runner), done + 1 if done else 0)
