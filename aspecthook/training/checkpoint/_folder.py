"""How a folder passes from one run to the next.

The invariant: at any moment, also after a kill, the folder names one run, and `newest` finds only checkpoints of it.
Of a run that was resumed from an earlier checkpoint than its last, what was saved after that is set aside too.
"""

from __future__ import annotations

import json
from pathlib import Path

from aspecthook.training._errors import TrainingError

from ._files import own_path, put, sweep
from ._format import oldest_first, origin_of, saved_by
from ._identity import KEY, NAME, identity_in


def take_folder(folder: Path, identity: str, *, resumed: bool, done: int) -> Path | None:
    """Make a folder that of a run, and move the checkpoints that it does not continue to a folder inside, ``run.1``.

    These are the checkpoints of other runs, and of a resumed one those after more than the iterations that it has done.
    Checkpoints that name no run are those of others too, unless the run was resumed, maybe from one of them.

    Returns:
        The folder that they were moved to, which now is that of the other run; None if there were none.
    """
    sweep(folder)
    is_ours = identity_in(folder) == identity
    others = [path for path in oldest_first(folder) if _is_other(path, identity, resumed=resumed, done=done)]
    if is_ours and not others:
        return None
    try:
        aside = _begun(folder, saved_by(others[-1])) if others else None
        folder.mkdir(parents=True, exist_ok=True)
        if not is_ours:
            _write(folder, identity)  # from here on `newest` ignores the others
        for path in others:
            assert aside is not None
            path.rename(aside / path.name)
    except OSError as error:
        raise TrainingError(
            f"{folder} cannot become the folder of this run: {error.strerror}; free some space, check the permissions, "
            "or give another work_dir"
        ) from error
    return aside


def _is_other(path: Path, identity: str, *, resumed: bool, done: int) -> bool:
    """Whether a file is a checkpoint that the run does not continue."""
    origin = origin_of(path)
    if origin is None:
        return False
    if origin.run == identity:
        return resumed and origin.iter > done
    return origin.run != "" or not resumed


def _begun(folder: Path, identity: str | None) -> Path:
    """Make an unused folder for the checkpoints of a run."""
    number = 1
    while (aside := folder / f"run.{number}").exists():
        number += 1
    aside.mkdir()
    if identity:
        _write(aside, identity)
    return aside


def _write(folder: Path, identity: str) -> None:
    put(own_path(folder, NAME), json.dumps({KEY: identity}).encode() + b"\n")
