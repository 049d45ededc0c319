"""Files beside the checkpoints: whoever reads one finds the old or the new, and never half of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from aspecthook._errors import HookTypeError, brief

from ._format import _beside, _sweep, _write


def path_of(who: str, path: object) -> Path:
    """Give a path, and refuse what is none.

    Raises:
        HookTypeError: It is none.
    """
    given: Any = path
    if isinstance(path, (str, os.PathLike)):
        return Path(given)
    raise HookTypeError(f"{who}: path={brief(path)} is no path")


def put(path: Path, data: bytes) -> None:
    """Write a file beside and rename it, its folder made.

    Raises:
        OSError: It could not be written; what stood there still does.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     put(Path(folder, "runs", "note.txt"), b"done")
        ...     Path(folder, "runs", "note.txt").read_text()
        'done'
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target.parent)
    with _beside(target) as file:
        _write(file, memoryview(data))
