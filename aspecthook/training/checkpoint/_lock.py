"""The lock of a folder: one process writes it at a time.

The lock is that of an open descriptor, which the system drops when the process ends, however it ends. A process that is
forked, such as a worker that loads data, would keep it alive, and so closes its copy of the descriptor. The file says
who holds the lock, and is removed with it; one that a killed process has left behind is taken over.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any, final
from weakref import WeakSet

from aspecthook._errors import printable
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any

from ._files import own_path, write

_NAME = ".run.lock"
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # the errors of a lock that another process has
_LOCKS: WeakSet[FolderLock] = WeakSet()  # of this process, for its forks


@final
class FolderLock:
    """The lock of a folder, from its creation to `release`.

    Raises:
        TrainingError: Another process, or another runner of this one, has it.
        OSError: The file cannot be written, or its file system has no locks.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = own_path(folder, _NAME)
        self._file: FileIO | None = None
        while self._file is None:
            file = FileIO(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
            try:
                _lock(file)
                if self._is_there(file):
                    self._file = file
            except OSError as error:
                if error.errno in _HELD:
                    raise _refusal(folder, file) from None
                raise
            finally:
                if self._file is None:
                    file.close()
        _LOCKS.add(self)
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        self._file.truncate()
        write(self._file, memoryview(json.dumps(holder).encode()))

    def _is_there(self, file: FileIO) -> bool:
        """Whether a locked file is still that of the path: the process that had the lock may have removed it."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock, and remove its file."""
        file, self._file = self._file, None
        if file is None:
            return
        if os.name == "nt":  # which does not remove an open file
            file.close()
        with suppress(OSError):  # a file that stays is taken over by the next run
            self._path.unlink()  # elsewhere, while it is locked: another process could have locked it otherwise
        file.close()

    def forget(self) -> None:
        """Close the descriptor in a forked process; the lock stays with its parent."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _lock(file: FileIO) -> None:
    """Lock a file without waiting."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(2**30)  # no process can read what another one has locked, and the text is for all to read
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _refusal(folder: Path, file: FileIO) -> TrainingError:
    try:
        holder: Any = json.loads(file.read(1000) or b"{}")
    except (OSError, ValueError, RecursionError):  # it is being written at this moment
        holder = {}
    who = "another process"
    if is_any(holder, Mapping) and holder:
        pid, host, since = (printable(str(holder.get(name))) for name in ("pid", "host", "since"))
        is_this = (pid, host) == (str(os.getpid()), socket.gethostname())
        who = f"{'another runner of this process' if is_this else 'another process'}, {pid} on {host}, since {since}"
    return TrainingError(
        f"{folder} is written by {who}; wait until it has ended, or give another work_dir. Nothing was changed"
    )


def _forget_all() -> None:
    for lock in tuple(_LOCKS):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
