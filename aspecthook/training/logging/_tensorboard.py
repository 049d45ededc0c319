"""Event files for TensorBoard, written by tensorboardX."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
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

from ._line_files import FileSink
from ._loggers import LoggerHook
from ._row import TIMES, Row, Sink

_BINS = 30  # of a histogram, as in TensorFlow


@final
class EventFile(FileSink):
    """A sink that writes an event file, which is made in its folder with the first event.

    TensorBoard drops what older files in the folder have from the step `start` on. `EventsWriter` of tensorboardX
    writes in the thread that has the events; its `SummaryWriter` has another thread for that, and loses the events of a
    program that is killed.
    """

    def __init__(self, folder: Path, logger: Any, start: int | None = None) -> None:  # Any: a logger, or one like it
        super().__init__(folder, logger)
        self._start = start
        self._name = ""  # of the file
        self._writer: Any = None  # tensorboardX is imported with the first event; here and below
        self._waiting: list[Any] = []  # events that could not be written yet

    def write(self, row: Row) -> None:
        """Write the numbers of a row by the names of mmcv, at the iteration of the run."""
        plain = {name: value for name, value in row.numbers.items() if not isinstance(value, str) and name not in TIMES}
        self.add({_tag(row.mode, name): value for name, value in plain.items()}, row.total_iter)

    def add(self, numbers: Mapping[str, float], step: int, arrays: Iterable[tuple[str, Any]] = ()) -> None:
        """Write numbers, and histograms of the finite numbers of arrays, by name."""
        import numpy as np

        summary: Any = import_module("tensorboardX.summary")
        found = [summary.scalar(name, value) for name, value in numbers.items()]
        for name, array in arrays:
            if np.isfinite(array).any():
                found.append(summary.histogram(name, array[np.isfinite(array)], _BINS))
        self._waiting += [_event(step=step, summary=one) for one in found]
        with self._tolerating():
            if self._writer:
                self._writer.flush()  # an event that is in its buffer since the disk was full
            elif self._waiting:
                self._open()
            while self._waiting:
                self._writer.write_event(self._waiting.pop(0))
                # An event goes into an empty buffer: so it is never written in part, even where a disk is full.
                self._writer.flush()

    def _open(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        suffixes = (f".{os.getpid()}.{number}" for number in count())  # several files may begin in one second
        suffix = next(one for one in suffixes if not any(self.path.glob(f"*{one}")))
        self._writer = import_module("tensorboardX.event_file_writer").EventsWriter(f"{self.path}/events", suffix)
        self._name = next(self.path.glob(f"*{suffix}")).name
        if self._start is not None:
            log: Any = import_module("tensorboardX.proto.event_pb2").SessionLog
            self._waiting.insert(0, _event(step=self._start, session_log=log(status=log.START)))

    def close(self) -> None:
        """Close the file; what is added after that begins another one, which TensorBoard reads too."""
        writer, self._writer, self._start = self._writer, None, None
        if writer is not None:
            with suppress(OSError):  # that the disk is full has been said
                writer.close()

    __del__ = close

    def mark(self) -> tuple[str, int]:
        """Return the name of the file and its length, for a checkpoint; 0 if nothing was written yet."""
        return self._name, (self.path / self._name).stat().st_size if self._name else 0

    @staticmethod
    def cut(folder: Path, mark: tuple[str, int], logger: Any) -> None:
        """Remove what an earlier process has written after a `mark`; warn if something before it is missing."""
        name, size = mark
        path = own_path(folder, Path(name).name)
        if not size:
            return
        if path.exists() and path.stat().st_size >= size:
            os.truncate(path, size)
        else:
            logger.warning("the events in %s are cut short; what is missing is lost", path)


# Any: the fields of an event of protocol buffers.
def _event(**fields: Any) -> Any:
    return import_module("tensorboardX.proto.event_pb2").Event(wall_time=time(), **fields)


def require_tensorboardx(who: str) -> None:
    """Raise an error if the package that knows the format is missing."""
    if find_spec("tensorboardX") is None:
        raise TrainingError(f"{who} needs tensorboardX; pip install tensorboardX")


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
        super().__init__(None, interval, by_epoch=by_epoch, ignore_last=ignore_last)
        require_tensorboardx("TensorboardLoggerHook")
        self.log_dir: Path | None = None if log_dir is None else Path(log_dir)

    def _begin(self, runner: Run, *, rerun: bool) -> None:
        if self.sink is None or not rerun:
            done = runner.progress.iter
            folder = self.log_dir or own_path(
                folder_of(runner.work_dir, "TensorboardLoggerHook", "log_dir=..."), "tf_logs"
            )
            self.sink: Sink | None = EventFile(folder, runner.logger, start=done + 1 if done else 0)


def _tag(mode: str, name: str) -> str:
    word, _, group = name.partition("_")
    if word not in ("lr", "momentum"):
        return f"{mode}/{name.removeprefix(f'{mode}_')}"
    return "/".join(filter(None, ({"lr": "learning_rate"}.get(word, word), group)))
