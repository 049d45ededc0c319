"""Loggers that write a line for each row, to files that a run continues after it was killed.

The invariant: a file consists of whole lines at any moment, except for the last line of a process that was killed while
writing it. A checkpoint has the size and the checksum of each file, so that a resumed run can remove the lines that
came later.
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
from typing import Any, ClassVar, final
from zlib import crc32

from aspecthook.training._options import whole_number
from aspecthook.training.checkpoint._files import check_regular, folder_of, own_path, path_of, put, unused_path
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._reading import length_of
from aspecthook.training.loop._runner import Runner

from ._loggers import TIMES, LoggerHook, Row, duration_text, eta_of, number_text, one_line


@final
class LineFile:
    """A file of lines, which is open only while some are written.

    The mark says where the file ended at the checkpoint that the run was resumed from. What came later is removed,
    since the run will write it again. Without a mark the file is new, and an older one is kept under another name.
    """

    def __init__(self, path: Path, logger: Logger, mark: Mapping[str, int] | None, header: str) -> None:
        self.path = path
        self._logger, self._mark, self._header = logger, mark, header.encode()
        self._is_begun = False
        self._size = self._sum = 0  # of the file, and its checksum
        check_regular(path)
        with suppress(OSError):  # the first line will tell
            self._begin()

    def mark(self) -> Mapping[str, int] | None:
        """Return where the file ends, for a checkpoint."""
        return {"size": self._size, "sum": self._sum} if self._is_begun else self._mark

    def _begin(self) -> None:
        """Begin the file, or cut it back to where it was; do nothing if that was done."""
        if self._is_begun:
            return
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
        self._size, self._sum = len(kept), crc32(kept)
        self._is_begun = True

    def _kept(self, found: bytes) -> bytes | None:
        """Return what the run continues of a file; None if the file is that of another run."""
        if self._mark is None:
            return None
        whole, size = found[: found.rfind(b"\n") + 1], self._mark["size"]
        kept = whole[:size]
        if len(kept) < size:
            told = (
                "the log %s is cut short: it has %d of the %d bytes that it had at the checkpoint. The rows that are "
                "missing are lost, and the run continues after byte %d, the end of the last whole line"
            )
            self._logger.warning(told, self.path, len(found), size, len(kept))
        elif crc32(kept) != self._mark["sum"]:
            self._logger.warning("%s does not belong to the resumed run; a new file is begun", self.path)
            return None
        return kept

    def write(self, lines: str) -> None:
        """Append whole lines."""
        self._begin()
        data = lines.encode()
        append(self.path, data)
        self._size, self._sum = self._size + len(data), crc32(data, self._sum)

    def close(self) -> None:
        """Do nothing: the file is open only while lines are written."""


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
    """Return a string as a cell that spreadsheets show and do not compute: after an apostrophe, if it is a formula."""
    return f"'{cell}" if re.match("'*[=+@\\-\t\r]", cell) else cell


class FileLoggerHook(LoggerHook):
    """The base of hooks that write a file, or a folder of files; a relative path is inside the run's `work_dir`."""

    default: ClassVar[str]  # the path unless another is given

    def __init__(
        self,
        interval: int = 10,
        *,
        by_epoch: bool = True,
        ignore_last: bool = True,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(None, interval, by_epoch=by_epoch, ignore_last=ignore_last)
        self.path: Path = path_of(type(self).__name__, self.default if path is None else path)

    def target(self, runner: Runner) -> Path:
        """Return the path of the file."""
        if self.path.is_absolute():
            return self.path
        return own_path(folder_of(runner.work_dir, type(self).__name__, "path='/...'"), self.path)


class _LineLoggerHook(FileLoggerHook):
    """The base of loggers whose files are continued by a resumed run."""

    header: ClassVar[str] = ""  # the first line of a new file

    def _begin(self, runner: Runner) -> None:
        mark = None if self._loaded is None else self._loaded["file"]
        self.sink: Any = LineFile(self.target(runner), runner.logger, mark, self.header)

    def state_dict(self) -> dict[str, Any]:
        return {"file": None if self.sink is None else self.sink.mark(), **super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        mark = state["file"]
        if mark is not None:
            mark = {name: whole_number(type(self).__name__, name, mark[name], 0) for name in ("size", "sum")}
        super().load_state_dict({**state, "file": mark})


@HOOKS.register
class TextLoggerHook(_LineLoggerHook):
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

    def _begin(self, runner: Runner) -> None:
        if runner.work_dir is not None or self.path != Path(self.default):
            super()._begin(runner)

    def _write(self, runner: Runner, row: Row) -> None:
        mode = "" if row.mode == "train" else f"({row.mode})"
        length = length_of(runner.loaders.get("train")) if self.by_epoch else runner.max_iters
        place = f"Epoch{mode} [{row.epoch}]" if self.by_epoch else f"Iter{mode} "
        place += f"[{row.iter}{'' if length is None or mode else f'/{length}'}]"
        numbers = [f"{name}: {_number(name, value)}" for name, value in row.numbers.items()]
        eta = None if mode else eta_of(runner)
        if eta is not None:
            numbers.append(f"eta: {duration_text(eta)}")
        line = one_line(f"{place}  {', '.join(numbers)}")
        runner.logger.info("%s", line)
        self._send(runner, f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}\n")


def _number(name: str, value: float | str) -> str:
    is_rate = name == "lr" or name.startswith("lr_")
    return f"{value:.3e}" if is_rate and not isinstance(value, str) else number_text(value)


@HOOKS.register
class JsonLoggerHook(_LineLoggerHook):
    """Log rows as JSON lines to ``log.jsonl`` in the run's `work_dir`; NaN and infinity become ``null``.

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

    def _write(self, runner: Runner, row: Row) -> None:
        numbers = {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in row.flat().items()}
        self._send(runner, f"{json.dumps(numbers)}\n")


@HOOKS.register
class CsvLoggerHook(_LineLoggerHook):
    """Log numbers as a table, to ``log.csv`` in the run's `work_dir`. It resumes as the file of `JsonLoggerHook` does.

    The columns are ``mode``, ``epoch``, ``iter``, ``name`` and ``value``: each number has a line of its own, so that a
    number that is logged for the first time late in the run needs no new column.

    Args:
        interval, by_epoch, ignore_last: See `LoggerHook`.
        path: Another file.

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
        suffix = f".{os.getpid()}.{time_ns()}"  # several files may begin in one second
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

    def _begin(self, runner: Runner) -> None:
        done = runner.progress.iter
        self.sink: Any = EventFile(self.target(runner), done + 1 if done else 0)
