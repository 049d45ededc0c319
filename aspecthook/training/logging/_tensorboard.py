"""The logger for TensorBoard. It writes its file itself: a writer in the background can lose events, or hang."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from socket import gethostname
from struct import pack
from time import time
from typing import TYPE_CHECKING, Any

from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._hook import HOOKS

from ._files import append
from ._loggers import LoggerHook
from ._rows import PLACE, TIMES, Row, rates_row

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner


@HOOKS.register
class TensorboardLoggerHook(LoggerHook):
    """Log numbers as events for TensorBoard, to ``tf_logs`` in the run's `work_dir`; needs the extra `tensorboard`.

    They are called ``train/loss``, ``val/accuracy``, ``learning_rate``, ``momentum``, as mmcv has it, and stand at the
    iteration of the run. Times are left out. TensorBoard is told to pass over what older files in the folder have from
    where the run begins: all of another run, and of one that is resumed what came after its checkpoint. As to full
    disks, see `JsonLoggerHook`.

    Args:
        interval: See `LoggerHook`.
        by_epoch: See `LoggerHook`.
        ignore_last: See `LoggerHook`.
        log_dir: Another folder.

    Raises:
        TrainingError: The package tensorboardX is missing.

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
        if find_spec("tensorboardX") is None:
            raise TrainingError("TensorboardLoggerHook needs tensorboardX; pip install 'aspecthook[tensorboard]'")
        self.log_dir = None if log_dir is None else Path(log_dir)
        self._file: Path | None = None
        self._held = b""  # what is not written yet
        self._full = False

    def _begin(self, runner: Runner) -> list[Row]:
        rows = super()._begin(runner)
        if self._file is None or not self._goes_on(runner):
            self._file, self._held = self._named(runner), _beginning(runner.progress["iter"])
        return rows

    def _named(self, runner: Runner) -> Path:
        folder = self.log_dir if self.log_dir is not None else runner.work_dir and runner.work_dir / "tf_logs"
        if folder is None:
            raise TrainingError(
                "the TensorboardLoggerHook has no folder for its files; give Runner(..., work_dir=...) or "
                "TensorboardLoggerHook(log_dir=...)"
            )
        name = f"events.out.tfevents.{time():.0f}.{gethostname()}.{os.getpid()}"
        number = 0  # several runs may begin in one second
        while (file := folder / f"{name}.{number}").exists():
            number += 1
        return file

    def log(self, runner: Runner, row: Row) -> None:
        """Write the numbers of a row."""
        if self._file is None:  # outside a run, before any
            return
        self._held += _numbers(self._rows.done, row, rates_row(runner.optimizer))
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            append(self._file, self._held)
        except OSError as error:
            if not self._full:
                runner.logger.warning(
                    "events cannot be written to %s: %s; the run goes on, and what is missing there is kept until "
                    "there is room",
                    self._file.parent,
                    error.strerror,
                )
            self._full = True
            return
        self._held, self._full = b"", False


def _beginning(done: int) -> bytes:
    """Say of what kind the file is, and from which iteration on older files are to be passed over."""
    events = _module("proto.event_pb2")
    begun = events.SessionLog(status=events.SessionLog.START)
    step = done + 1 if done else 0
    return _record(file_version="brain.Event:2") + _record(step=step, session_log=begun)


def _numbers(step: int, row: Row, rates: Row) -> bytes:
    summary: Any = _module("proto.summary_pb2").Summary
    values = [
        summary.Value(tag=_tag(str(row["mode"]), name, name in rates), simple_value=value)
        for name, value in row.items()
        if not isinstance(value, str) and name not in (*PLACE, *TIMES)
    ]
    return _record(step=step, summary=summary(value=values))


# Any: what protocol buffers take.
def _record(**fields: Any) -> bytes:
    """Give an event as TensorFlow's files have it: its length, and itself, each with a checksum."""
    data: bytes = _module("proto.event_pb2").Event(wall_time=time(), **fields).SerializeToString()
    length = pack("<Q", len(data))
    checksum = _module("record_writer").masked_crc32c
    return length + pack("<I", checksum(length)) + data + pack("<I", checksum(data))


def _tag(mode: str, name: str, is_rate: bool) -> str:
    if not is_rate:
        return f"{mode}/{name.removeprefix(f'{mode}_')}"
    word, _, group = name.partition("_")
    return "/".join(filter(None, ({"lr": "learning_rate"}.get(word, word), group)))


def _module(name: str) -> Any:
    return import_module(f"tensorboardX.{name}")
