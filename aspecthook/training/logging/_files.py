"""Loggers that write files, which a resumed run continues.

The invariant: a file consists of whole lines at any moment, except for the last line of a process that was killed while
writing it. A checkpoint has the size and the checksum of each file, so that a resumed run can remove the lines after
that.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from io import StringIO
from logging import Logger
from math import isfinite
from pathlib import Path
from time import time, time_ns
from typing import Any, ClassVar, TypeAlias, final
from zlib import crc32

from aspecthook.training.checkpoint._files import check_regular, folder_of, own_path, path_of, put, unused_path
from aspecthook.training.checkpoint._format import AnyPath
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._reading import length_of
from aspecthook.training.loop._runner import Runner

from ._loggers import RATES, TIMES, LoggerHook, Row, duration_text, eta_of, number_text, one_line

Mark: TypeAlias = tuple[int, int]  # the size of a file, and its checksum


@final
class LineFile:
    """A file of lines, which is open only while lines are written.

    The mark of a checkpoint says where the file ended when the checkpoint was saved. A resumed run removes the lines
    after the mark, since it will write them again. Without a mark the file is new, and an older one is kept under
    another name.
    """

    def __init__(self, path: Path, logger: Logger, mark: Mark | None, header: str) -> None:
        self.path = path
        self._logger, self._mark, self._header = logger, mark, header.encode()
        self._end: Mark | None = None  # of the file as it is; None until it is begun
        check_regular(path)
        with suppress(OSError):  # if the file cannot be written, the first line raises
            self._end = self._begin()

    def mark(self) -> Mark | None:
        """Return where the file ends, for a checkpoint."""
        return self._end or self._mark

    def write(self, lines: str) -> None:
        """Append whole lines."""
        size, checksum = self._end = self._end or self._begin()
        data = lines.encode()
        append(self.path, data)
        self._end = size + len(data), crc32(data, checksum)

    def _begin(self) -> Mark:
        """Begin the file, or cut it back to its mark."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        found = self.path.read_bytes() if self.path.exists() else b""
        kept = self._kept(found)
        if kept is None and found:
            old = unused_path(self.path)
            self.path.rename(old)
            self._logger.info("%s existed already, and was renamed to %s", self.path, old.name)
        kept = kept or self._header
        if kept != found or not self.path.exists():
            put(self.path, kept)
        return len(kept), crc32(kept)

    def _kept(self, found: bytes) -> bytes | None:
        """Return the part of the file that the run continues; None if the file is missing, or that of another run."""
        if self._mark is None:
            return None
        size, checksum = self._mark
        kept = found[: found.rfind(b"\n") + 1][:size]
        if len(kept) < size and self.path.exists():
            self._logger.warning(
                "the log %s is cut short: it has %d of the %d bytes that it had at the checkpoint. Rows are lost, and "
                "the run continues after byte %d, the end of the last whole line",
                *(self.path, len(found), size, len(kept)),
            )
        elif crc32(kept) != checksum:
            self._logger.warning("%s is missing, or belongs to another run; a new file is begun", self.path)
            return None
        return kept


def append(path: Path, data: bytes) -> None:
    """Append to a file, all or nothing."""
    with open(path, "ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            while data:
                data = data[file.write(data) :]
        except OSError:
            file.truncate(size)
            raise


def as_text(cell: str) -> str:
    """Return a cell that a spreadsheet shows as text: a formula gets an apostrophe before it, and is not computed."""
    return f"'{cell}" if re.match("'*[=+@\\-\t\r]", cell) else cell


class FileLoggerHook(LoggerHook):
    """The base of hooks that write a file, or a folder of files; a relative path is inside the run's `work_dir`."""

    default: ClassVar[str]  # the path unless another is given

    def __init__(
        self, interval: int = 10, *, by_epoch: bool = True, ignore_last: bool = True, path: AnyPath | None = None
    ) -> None:
        super().__init__(None, interval, by_epoch=by_epoch, ignore_last=ignore_last)
        self.path: Path = path_of(type(self).__name__, self.default if path is None else path)

    def target(self, runner: Runner) -> Path:
        """Return the path of the file."""
        if self.path.is_absolute():
            return self.path
        return own_path(folder_of(runner.work_dir, type(self).__name__, "path='/...'"), self.path)


class LineLoggerHook(FileLoggerHook):
    """The base of hooks that write lines to a file."""

    header: ClassVar[str] = ""  # the first line of a new file
    file: LineFile | None = None  # from the beginning of the run on

    def _open(self, runner: Runner) -> None:
        mark: Mark | None = None if self._loaded is None else self._loaded["file"]
        self.file = LineFile(self.target(runner), runner.logger, mark, self.header)
        self._sink, self._sink_name = self.file.write, self.file.path

    def state_dict(self) -> dict[str, Any]:
        return {"file": None if self.file is None else self.file.mark(), **super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["file"] is not None:
            size, checksum = map(int, state["file"])
            state = {**state, "file": (size, checksum)}
        super().load_state_dict(state)


@HOOKS.register
class TextLoggerHook(LineLoggerHook):
    """Log lines of text, to ``log.txt`` in the run's `work_dir` and to the run's logger.

    The logger gets them at level INFO, which Python hides unless logging is configured; on a terminal, use
    `ProgressHook`. With an `IterTimerHook` the lines have an estimate of the remaining time.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: The file; a relative path is inside the run's `work_dir`. Without a path and a `work_dir`, only the logger
            gets the lines.

    Example:
        >>> TextLoggerHook(interval=100, by_epoch=False).interval
        100
    """

    default = "log.txt"

    def _open(self, runner: Runner) -> None:
        if runner.work_dir is not None or self.path != Path(self.default):
            super()._open(runner)

    def _write(self, runner: Runner, row: Row) -> None:
        numbers = [f"{name}: {number_text(value)}" for name, value in row.numbers.items()]
        mode, total = f"({row.mode})", None
        if row.mode == "train":
            mode, total = "", length_of(runner.loaders.get("train")) if self.by_epoch else runner.max_iters
            eta = eta_of(runner)
            numbers += [] if eta is None else [f"eta: {duration_text(eta)}"]
        place = f"Epoch{mode} [{row.epoch}]" if self.by_epoch else f"Iter{mode} "
        place += f"[{row.iter}]" if total is None else f"[{row.iter}/{total}]"
        line = one_line(f"{place}  {', '.join(numbers)}")
        runner.logger.info("%s", line)
        self._send(runner, f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}\n")


@HOOKS.register
class JsonLoggerHook(LineLoggerHook):
    """Log rows as JSON lines to ``log.jsonl`` in the run's `work_dir`; NaN and infinity become ``null``.

    Each line is written at once. A resumed run removes the lines after its checkpoint and writes them again, so that
    the file ends up as if the run had never stopped. A new run renames an older file to ``log.1.jsonl``. If the disk is
    full, the run continues with a warning, and the missing lines are written as soon as there is room.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: The file; a relative path is inside the run's `work_dir`.

    Example:
        >>> JsonLoggerHook(path="metrics.jsonl").path.name
        'metrics.jsonl'
    """

    default = "log.jsonl"

    def _write(self, runner: Runner, row: Row) -> None:
        numbers = {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in row.flat().items()}
        self._send(runner, f"{json.dumps(numbers)}\n")


@HOOKS.register
class CsvLoggerHook(LineLoggerHook):
    """Log numbers as a table, to ``log.csv`` in the run's `work_dir`.

    The columns are ``mode``, ``epoch``, ``iter``, ``name`` and ``value``. Each number has a line of its own, so a
    number that is first logged late in the run needs no new column. A resumed run continues the file as it does that
    of a `JsonLoggerHook`.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: The file; a relative path is inside the run's `work_dir`.

    Example:
        >>> CsvLoggerHook(interval=1, ignore_last=False).default
        'log.csv'
    """

    default = "log.csv"
    header = "mode,epoch,iter,name,value\n"

    def _write(self, runner: Runner, row: Row) -> None:
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for name, value in row.numbers.items():
            shown = as_text(one_line(value)) if isinstance(value, str) else value
            writer.writerow([row.mode, row.epoch, row.iter, as_text(one_line(name)), shown])
        self._send(runner, text.getvalue())


@final
class EventFile:
    """An event file, which is made in its folder with the first row.

    TensorBoard ignores the events that older files in the folder have from the step `start` on. The file is written by
    the `EventsWriter` of tensorboardX, in this thread. Its `SummaryWriter` has a thread of its own, which loses the
    events of a program that is killed, and hangs the program if the disk is full.
    """

    def __init__(self, folder: Path, start: int) -> None:
        self._folder = folder
        self._start: int | None = start
        self._writer: Any = None  # tensorboardX is imported with the first row, and has no types

    def write(self, row: Row) -> None:
        """Write the numbers of a row at the iteration of the run; rates have the same names in all modes."""
        scalar = import_module("tensorboardX.summary").scalar
        try:
            if not self._writer:
                self._open()
            for name, value in row.numbers.items():
                if not isinstance(value, str) and name not in TIMES:
                    tag = name if name in RATES else f"{row.mode}/{name.removeprefix(f'{row.mode}_')}"
                    self._write_event(row.total_iter, summary=scalar(tag, value))
            self._writer.flush()
        except OSError:
            self.close()  # TensorBoard reads nothing after an incomplete event, so the next row begins another file
            raise

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        suffix = f".{os.getpid()}.{time_ns()}"  # several files may begin in one second
        self._writer = import_module("tensorboardX.event_file_writer").EventsWriter(f"{self._folder}/events", suffix)
        if self._start is not None:
            log = import_module("tensorboardX.proto.event_pb2").SessionLog
            self._write_event(self._start, session_log=log(status=log.START))
            self._start = None

    def _write_event(self, step: int, **content: Any) -> None:
        event = import_module("tensorboardX.proto.event_pb2").Event
        self._writer.write_event(event(wall_time=time(), step=step, **content))

    def close(self) -> None:
        """Close the file; the next row begins another one, which TensorBoard reads too."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(OSError):  # the disk is full
                writer.close()

    __del__ = close


@HOOKS.register
class TensorboardLoggerHook(FileLoggerHook):
    """Log numbers for TensorBoard, to the folder ``tf_logs`` in the run's `work_dir`. Needs tensorboardX.

    Names are ``train/loss``, ``val/accuracy``, ``lr``, ``momentum`` and so on. The steps are the iterations of the run.
    Times are left out. Each run begins its own file. TensorBoard then ignores the older files in the folder: all their
    steps if the run is new, or the steps after the checkpoint if it is resumed.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: The folder; a relative path is inside the run's `work_dir`.

    Example:
        >>> TensorboardLoggerHook.priority
        'VERY_LOW'
    """

    needs: ClassVar[tuple[str, ...]] = ("tensorboardX",)
    default: ClassVar[str] = "tf_logs"

    def _open(self, runner: Runner) -> None:
        done = runner.progress.iter
        self._sink_name = folder = self.target(runner)
        self._sink = EventFile(folder, done + 1 if done else 0).write
