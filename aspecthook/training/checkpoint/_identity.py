"""The identity of the run that a folder belongs to, in a file of the folder; each checkpoint has that of its run.

Without it, a run could be resumed from the checkpoints that another one has left in its folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any

NAME = "run.json"
KEY = "identity"  # in this file, and in the "meta" of a checkpoint


def identity_in(folder: Path | None) -> str | None:
    """Return the identity of the run that a folder belongs to; None if it belongs to none.

    Raises:
        TrainingError: The file is damaged. To guess would be to mix two runs.
    """
    path = None if folder is None else folder / NAME
    if path is None or not path.exists():
        return None
    found: Any = None
    try:
        if path.is_file():  # to read a pipe would wait forever
            found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path) from error
    identity = identity_of({"meta": found})
    if identity is None:
        raise _unreadable(path)
    return identity


def identity_of(checkpoint: Any) -> str | None:
    """Return the identity of the run that has saved a checkpoint; None if it names none."""
    meta: Any = checkpoint.get("meta") if is_any(checkpoint, Mapping) else None
    identity: Any = meta.get(KEY) if is_any(meta, Mapping) else None
    return identity if isinstance(identity, str) else None


def _unreadable(path: Path) -> TrainingError:
    return TrainingError(
        f"{path} does not name a run, so nobody knows whose checkpoints are in this folder; if all of them are those "
        "of the run that you continue, remove it, else use another folder"
    )
