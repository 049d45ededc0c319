"""Files that are written atomically: readers, even after a crash, find the old file or the new one, never a part.

A file is written under a temporary name in its folder, synced, and renamed. `safetensors.numpy.save_file` renames its
file too, but does not sync it and makes it readable by its owner alone; and after a kill nobody can tell that its
temporary file is left over (version 0.8, issue 782).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

from aspecthook._errors import HookTypeError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.loop._run import Run

_TEMPORARY = ".checkpoint-{}.saving"


def path_of(who: str, path: object, option: str = "path", if_none: str = "") -> Path:
    """Return a path that a method or a hook was given, after a check of its type."""
    given: Any = path
    if isinstance(path, (str, os.PathLike)):
        return Path(given)
    raise HookTypeError(f"{who}: {option}={brief(path)} is not a path{if_none if path is None else ''}")


def folder_of(run: Run, who: str, option: str) -> Path:
    """Return the ``work_dir`` of a run, for a hook whose option names no other place for its files."""
    if run.work_dir is None:
        raise TrainingError(f"the {who} has no folder for its files; give Runner(..., work_dir=...) or {who}({option})")
    return run.work_dir


def own_path(folder: Path, name: str | os.PathLike[str]) -> Path:
    """Return the path of a file that a run keeps in its folder.

    Raises:
        TrainingError: It is a pipe or a device; or a symlink leads out of the folder, as one in a folder that was
            received may, so that what is written would go elsewhere.
    """
    path, home = folder / name, os.path.realpath(folder)
    real = Path(os.path.realpath(path))
    if real != Path(os.path.normpath(os.path.join(home, name))) and not real.is_relative_to(home):
        raise TrainingError(
            f"{path} leads out of its folder, to {real}; remove the symlink, or give that path itself as an option"
        )
    check_regular(path)
    return path


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device, which would be waited for without end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise TrainingError(f"{path} is not a regular file; remove it, or give another path")


def unused_path(path: Path) -> Path:
    """Return an unused path: this one, with a number before the suffix."""
    number = 1
    while (found := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    return found


def put(path: Path, data: bytes) -> None:
    """Write a file atomically; if that fails, a file that was there before is unchanged."""
    with replacing(path) as file:
        write(file, memoryview(data))


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[FileIO]:
    """Yield a new file that replaces another one after the block, or is removed if the block fails.

    Symlinks are followed, and missing folders are made.
    """
    target = _target(path)
    sweep(target.parent)
    temporary, file = _created(target.parent, 0o600 if target.exists() else 0o666)
    with file:
        try:
            yield file
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            os.fsync(file.fileno())
            if os.name == "nt":  # Windows cannot rename an open file
                file.close()
            temporary.replace(target)
        except BaseException:
            with _ignored():
                temporary.unlink()
            raise
    _sync_folder(target.parent)


def _target(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path leads to, and make its folder."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(errno.EEXIST, "it exists and is not a regular file, so it is not replaced")
    missing = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        _sync_folder(folder.parent)
    return target


def _created(folder: Path, mode: int = 0o666) -> tuple[Path, FileIO]:
    """Create a temporary file, locked as long as this process lives and has it open.

    It is never readable by more users than the file that it will replace, whose own mode it gets last.
    """
    while True:
        temporary = folder / _TEMPORARY.format(token_hex(8))
        file = FileIO(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "r+")
        try:
            with _ignored():  # some network file systems have no locks; `sweep` fails there too and removes nothing
                _lock(file, wait=True)
            if os.fstat(file.fileno()).st_nlink:
                return temporary, file
        except BaseException:
            file.close()
            with _ignored():
                temporary.unlink()
            raise
        file.close()  # another process has removed it before it was locked


def allocate(file: FileIO, size: int) -> None:
    """Reserve the space of a file where the system can: a full disk is noticed at once, and writing is faster."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system can
                raise


def write(file: FileIO, rest: memoryview) -> None:
    """Write everything, unbuffered: closing a buffered file after an error would write again."""
    while rest:
        rest = rest[file.write(rest) :]


def sweep(folder: Path) -> None:
    """Remove the temporary files of killed processes, whose locks are gone, so that they do not fill the disk."""
    for leftover in folder.glob(_TEMPORARY.format("*")):
        with _ignored(), leftover.open("r+b") as file:
            _lock(file, wait=False)
            leftover.unlink()


def _lock(file: IO[bytes] | FileIO, *, wait: bool) -> None:
    if os.name == "posix":  # Windows does not remove an open file anyway
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system supports it."""
    if os.name != "posix":
        return
    try:
        number = os.open(folder, os.O_RDONLY)
    except PermissionError:  # the folder may be writable but not readable
        return
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync folders
            raise
    finally:
        os.close(number)


@contextmanager
def _ignored() -> Generator[None]:
    try:
        yield
    except OSError:
        pass
