"""Files that are written atomically: readers, even after a crash, find the old file or the new one, never a part.

A file is written in a hidden folder beside its place, synced, and renamed. Each process has a folder of its own, and
`sweep` finds those of killed processes by their names.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aspecthook._errors import HookTypeError, brief
from aspecthook.training._errors import TrainingError

_HIDDEN = ".saving-"


def path_of(who: str, path: object, option: str = "path", if_none: str = "") -> Path:
    """Return a path that a method or a hook was given, after a check of its type."""
    if isinstance(path, (str, os.PathLike)):
        return Path(path)  # pyright: ignore[reportUnknownArgumentType]
    raise HookTypeError(f"{who}: {option}={brief(path)} is not a path{if_none if path is None else ''}")


def folder_of(work_dir: Path | None, who: str, option: str) -> Path:
    """Return the ``work_dir`` of a run, for a hook whose option names no other place for its files."""
    if work_dir is None:
        raise TrainingError(f"the {who} has no folder for its files; give Runner(..., work_dir=...) or {who}({option})")
    return work_dir


def own_path(folder: Path, name: str | os.PathLike[str]) -> Path:
    """Return the path of a file that a run keeps in its folder.

    Raises:
        TrainingError: It is a pipe or a device; or a symlink leads out of the folder, which may have come from somebody
            else, so that the file would be written elsewhere.
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
    """Refuse a pipe or a device, for which the process could wait forever."""
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
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """Yield the path of a new file that replaces another one after the block, or is removed if the block fails.

    Symlinks are followed, and missing folders are made. Until the file is complete, only its owner can read it; then it
    has the mode of the one that it replaces, or that of any new file.
    """
    target = Path(os.path.realpath(path))
    check_regular(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=_HIDDEN, dir=target.parent, ignore_cleanup_errors=True) as hidden:
        temporary = Path(hidden, "file")
        temporary.touch()
        mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    _sync_folder(target.parent)


def sweep(folder: Path) -> None:
    """Remove the files that killed processes have left, before they fill the disk."""
    for hidden in folder.glob(f"{_HIDDEN}*"):
        shutil.rmtree(hidden, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system can."""
    try:
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
    except OSError as error:
        # Windows opens no folders, one may be writable but not readable, and some network file systems sync none.
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP):
            raise
