"""Other files that are written atomically: readers find the old file or the new one, never a part of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aspecthook._errors import HookTypeError, brief
from aspecthook.training._errors import TrainingError

from ._format import replacing, sweep, write

if TYPE_CHECKING:
    from aspecthook.training.loop._run import Run


def path_of(who: str, path: object) -> Path:
    """Return a path.

    Raises:
        HookTypeError: It is neither a string nor path-like.
    """
    given: Any = path
    if isinstance(path, (str, os.PathLike)):
        return Path(given)
    raise HookTypeError(f"{who}: path={brief(path)} is not a path")


def folder_of(run: Run, who: str, option: str) -> Path:
    """Return the ``work_dir`` of a run, for a hook whose option names no other place for its files.

    Raises:
        TrainingError: The run has no ``work_dir``.
    """
    if run.work_dir is None:
        raise TrainingError(f"the {who} has no folder for its files; give Runner(..., work_dir=...) or {who}({option})")
    return run.work_dir


def put(path: Path, data: bytes) -> None:
    """Write a file atomically, and make its folder.

    Raises:
        OSError: It could not be written; a file that was there before is unchanged.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     put(Path(folder, "runs", "note.txt"), b"done")
        ...     Path(folder, "runs", "note.txt").read_text()
        'done'
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent)
    with replacing(target) as file:
        write(file, memoryview(data))
