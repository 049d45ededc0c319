"""Checkpoints in a folder, and the run that the folder belongs to.

The invariant: at any moment, also after a kill, the folder names one run, and `newest` finds only checkpoints of that
run. So no run is resumed from the checkpoint of another. If a run is resumed from an earlier checkpoint than its last,
those that were saved later are set aside too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from aspecthook.training._errors import TrainingError

from ._files import own_path, put, sweep, unused_path
from ._format import AnyPath, NoCheckpointError, opened, read

NAME = "run.json"
_KEY = "identity"  # in this file, and in the "meta" of a checkpoint


def load(path: AnyPath) -> dict[str, Any]:  # Any: whatever was saved
    """Return the tree that `save` wrote.

    Args:
        path: The file.

    Raises:
        TrainingError: The file is missing or damaged, or is something else, such as a pickle. If it is damaged, the
            message names the newest good checkpoint in its folder.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     load(file.name)
        Traceback (most recent call last):
          ...
        aspecthook.training.TrainingError: ... is empty; name another file
    """
    file = Path(path)
    try:
        return read(file)
    except NoCheckpointError as error:
        raise TrainingError(f"{file} {error}{_good_one_beside(file) if error.ours else ''}") from error.__cause__


def newest(folder: AnyPath) -> Path | None:
    """Return the checkpoint with the most iterations in a folder; None if it has none, or there is no such folder.

    Of two with equally many iterations, the newer file is returned, and of two equally old ones that with the higher
    number in its name. Times do not come first, since they change when a folder is copied or a clock is set back.
    Other files are ignored, and so are checkpoints that are damaged or cannot be read, with a warning in the log. If
    the folder belongs to a run, checkpoints of other runs are ignored too.

    Raises:
        TrainingError: The folder is a file, or cannot be read; or the file that names its run is damaged.

    Example:
        >>> import tempfile
        >>> from aspecthook.training.checkpoint import save
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for epoch in (9, 10):
        ...         save(f"{folder}/epoch_{epoch}.safetensors", {"epoch": epoch})
        ...     newest(folder).name
        'epoch_10.safetensors'
    """
    return next(_own_checkpoints(Path(folder), logging.getLogger("aspecthook.training")), None)


def _good_one_beside(damaged: Path) -> str:
    """Return the end of a message: which checkpoint to load instead of a damaged one."""
    with suppress(TrainingError):
        for path in _own_checkpoints(damaged.parent):
            with suppress(NoCheckpointError):
                read(path)
                return f". The newest good checkpoint in its folder is {path}"
    return ""


def _own_checkpoints(folder: Path, logger: logging.Logger | None = None) -> Iterator[Path]:
    """Yield the checkpoints of the run that a folder belongs to, or all if it belongs to none, the furthest first."""
    owner = identity_in(folder)
    for found in _found_in(folder, logger):
        if owner is None or found.run in ("", owner):
            yield found.path
        elif logger is not None:
            logger.info("ignored: %s is a checkpoint of another run", found.path)


class _Found(NamedTuple):
    """A checkpoint in a folder. Of two, the greater tuple is further in its run."""

    iter: int  # the number of iterations before it was saved; -1 if it does not say
    time: int
    length: int  # of its name, so that `epoch_10` is further than `epoch_9`
    path: Path
    run: str  # the identity of the run that saved it; "" if it names none


def _read_header(path: Path) -> _Found:
    with opened(path) as (_, text, _):
        time = path.stat().st_mtime_ns  # in this block, which refuses a file that is removed meanwhile
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):  # `load` says what is wrong
            tree = None
    count = _within(tree, "progress", "iter")
    done = count if isinstance(count, int) else -1
    return _Found(done, time, len(path.name), path, identity_of(tree) or "")


def _within(tree: object, part: str, name: str) -> object:
    """Return a value in a part of a checkpoint, which may have been forged; None if it is not there."""
    for key in (part, name):
        tree = cast("Mapping[str, object]", tree).get(key) if isinstance(tree, Mapping) else None
    return tree


def _found_in(folder: Path, logger: logging.Logger | None = None) -> list[_Found]:
    """Return the checkpoints in a folder, the furthest first, and log the damaged ones."""
    found: list[_Found] = []
    try:
        files = [file for file in folder.iterdir() if not file.name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TrainingError(f"{folder} cannot be searched for checkpoints: {error.strerror}") from error
    for file in files:
        try:
            found.append(_read_header(file))
        except NoCheckpointError as error:
            if error.ours and logger is not None:
                logger.warning("ignored: %s %s", file, error)
    return sorted(found, reverse=True)


def saved_by(path: Path) -> str | None:
    """Return the identity of the run that saved a checkpoint; "" if it names none, None if the file is not complete."""
    try:
        return _read_header(path).run
    except NoCheckpointError:
        return None


# The run


def identity_in(folder: Path | None) -> str | None:
    """Return the identity of the run that a folder belongs to; None if it belongs to none.

    Raises:
        TrainingError: The file that names it is damaged. A guess could mix two runs.
    """
    if folder is None or not (path := folder / NAME).exists():
        return None
    identity, cause = None, None
    try:
        if path.is_file():  # the read of a pipe could wait forever
            identity = identity_of({"meta": json.loads(path.read_bytes())})
    except (OSError, ValueError, RecursionError) as error:
        cause = error
    if identity is None:
        raise TrainingError(
            f"{path} does not name a run, so nobody knows whose checkpoints are in this folder; if all of them are "
            "those of the run that you continue, remove it, else use another folder"
        ) from cause
    return identity


def identity_of(checkpoint: object) -> str | None:
    """Return the identity of the run that saved a checkpoint; None if it names none."""
    identity = _within(checkpoint, "meta", _KEY)
    return identity if isinstance(identity, str) else None


def claim_folder(folder: Path, identity: str, *, resumed: bool, done: int) -> Path | None:
    """Make a folder that of a run, and move the checkpoints of others to a subfolder, ``run.1``; return it, or None.

    Others are checkpoints that the run does not continue: those of other runs, and of a resumed run those after the
    iterations that it has done.
    """

    def is_other(found: _Found) -> bool:
        if found.run == identity:
            return resumed and found.iter > done
        # A resumed run may continue a checkpoint that names no run.
        return found.run != "" or not resumed

    sweep(folder)
    is_ours = identity_in(folder) == identity
    others = [found for found in _found_in(folder) if is_other(found)]
    moved_to = unused_path(folder / "run")
    try:
        if others:
            moved_to.mkdir()
        folder.mkdir(parents=True, exist_ok=True)
        if not is_ours:
            # From here on `newest` ignores the others.
            put(own_path(folder, NAME), json.dumps({_KEY: identity}).encode() + b"\n")
        for one in others:
            one.path.rename(moved_to / one.path.name)
    except OSError as error:
        raise TrainingError(
            f"{folder} cannot become the folder of this run: {error.strerror}; free some space, check the permissions, "
            "or give another work_dir"
        ) from error
    return moved_to if others else None
