"""Event files, which TensorBoard reads.

They are written by the thread that has the events: the writers of tensorboardX and PyTorch have a thread of their own,
which can lose events when the process ends, or keep it from ending.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from socket import gethostname
from struct import pack
from time import time
from typing import Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._files import own_path

from ._line_files import append, cut_back

_BINS = 30  # of a histogram, as in TensorFlow


@final
class EventFile:
    """A file of events, made in a folder when the first events are written.

    Events are added in memory, and written by `write`. If the disk is full, the next call writes them.
    """

    def __init__(self, folder: Path, start: int | None = None) -> None:
        name = f"events.out.tfevents.{time():.0f}.{gethostname()}.{os.getpid()}"
        number = 0
        while (path := folder / f"{name}.{number}").exists():  # several files may begin in one second
            number += 1
        self.path = path
        self._pending = _record(file_version="brain.Event:2")
        if start is not None:  # TensorBoard drops what older files of the folder have from this step on
            events = _module("proto.event_pb2")
            self._pending += _record(step=start, session_log=events.SessionLog(status=events.SessionLog.START))

    @classmethod
    def resumed(cls, folder: Path, mark: tuple[str, int], logger: Any) -> EventFile:
        """Return the file of a `mark`, cut back to it; a new file, with a warning, if that one is shorter or missing.

        A file whose steps are epochs and batches needs that: a `start` would drop the events of both from there on.
        """
        name, size = mark
        path = own_path(folder, Path(name).name)
        if not size:
            return cls(folder)
        if not path.exists() or path.stat().st_size < size:
            logger.warning("the events in %s are cut short; what is missing is lost, and a new file is begun", path)
            return cls(folder)
        cut_back(path, size, logger)
        file = object.__new__(cls)
        file.path, file._pending = path, b""
        return file

    def mark(self) -> tuple[str, int]:
        """Return the name of the file and its length, for a checkpoint; 0 if nothing was written yet."""
        return self.path.name, self.path.stat().st_size if self.path.exists() else 0

    def add_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Add numbers by name."""
        summary: Any = _module("proto.summary_pb2").Summary
        values = [summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        if values:
            self._pending += _record(step=step, summary=summary(value=values))

    def add_histogram(self, name: str, array: Any, step: int) -> None:  # Any: an array of NumPy
        """Add a histogram of the finite numbers of an array."""
        import numpy as np

        finite = array[np.isfinite(array)]
        if finite.size:
            self._pending += _record(step=step, summary=_module("summary").histogram(name, finite, _BINS))

    def write(self) -> None:
        """Write what was added, all or nothing; if it cannot be written, it is kept for the next call."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        append(self.path, self._pending)
        self._pending = b""


def require_tensorboardx(who: str) -> None:
    """Raise an error if the package that knows the format is missing."""
    if find_spec("tensorboardX") is None:
        raise TrainingError(f"{who} needs tensorboardX; pip install 'aspecthook[tensorboard]'")


# Any: the fields of an event of protocol buffers.
def _record(**fields: Any) -> bytes:
    """Return an event in the format of TensorFlow's files: its length and its data, each with a checksum."""
    data: bytes = _module("proto.event_pb2").Event(wall_time=time(), **fields).SerializeToString()
    length = pack("<Q", len(data))
    checksum = _module("record_writer").masked_crc32c
    return length + pack("<I", checksum(length)) + data + pack("<I", checksum(data))


def _module(name: str) -> Any:
    return import_module(f"tensorboardX.{name}")
