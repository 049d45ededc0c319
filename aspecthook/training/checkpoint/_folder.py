"""How a folder passes from one run to the next.

The invariant: at any moment, also after a kill, the folder names one run, and `newest` finds only checkpoints of it.
"""

from __future__ import annotations

import json
from pathlib import Path

from aspecthook.training._errors import TrainingError

from ._files import own_path, put
from ._format import oldest_first, saved_by, shards_of
from ._identity import KEY, NAME, identity_in


def take_folder(folder: Path, identity: str, *, resumed: bool) -> Path | None:
    """Make a folder that of a run, and move the checkpoints of others in it to a folder inside, ``run.1``.

    Checkpoints that name no run are those of others too, unless the run was resumed, maybe from one of them.

    Returns:
        The folder that they were moved to, which now is that of the other run; None if there were none.
    """
    if identity_in(folder) == identity:
        return None
    known = {None, identity, "" if resumed else None}
    others = [path for path in oldest_first(folder) if saved_by(path) not in known]
    try:
        aside = _begun(folder, saved_by(others[-1])) if others else None
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, identity)  # from here on `newest` ignores the others
        for path in others:
            assert aside is not None
            shards = shards_of(path)
            path.rename(aside / path.name)
            if shards is not None and (folder / shards).exists():
                (folder / shards).rename(aside / shards)
    except OSError as error:
        raise TrainingError(
            f"{folder} cannot become the folder of this run: {error.strerror}; free some space, check the permissions, "
            "or give another work_dir"
        ) from error
    return aside


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
