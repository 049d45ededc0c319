"""How a run is restored from a checkpoint, which is one tree of plain values and arrays.

The invariant: a run is restored as a whole, or not at all. What a run replaces, such as its counts, is read before
anything is changed. A part that is changed where it is, such as the model, has a function that returns its state and
one that loads it, and none of them touches a file. What these parts were is noted before any is loaded; if one cannot
be loaded, all are made again what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from aspecthook._errors import described, printable
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._folder import identity_in, identity_of

from ._hook_list import HookList

Loaded = TypeVar("Loaded")


# A part of a run that is changed where it is: what returns its state, and what loads such a state.
Part: TypeAlias = tuple[Callable[[], Any], Callable[[Any], object]]  # Any: each part has a state of its own kind


def read(checkpoint: Mapping[str, Any], name: str, load: Callable[[Any], Loaded]) -> Loaded:
    """Return what a function makes of a part of a checkpoint; raise an error that names a part that does not fit."""
    state = checkpoint.get(name)
    if (name not in checkpoint and name != "amp") or (name == "optimizer" and state is None):
        raise TrainingError(
            f"this checkpoint has no {name!r}, so the run cannot be resumed from it; load another checkpoint, or the "
            "model alone with load_checkpoint(path); nothing was changed"
        )
    try:
        return load(state)
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(
            f"{name!r} in this checkpoint is {described(state)} that cannot be restored "
            f"({type(error).__name__}: {printable(str(error))}); load another checkpoint; nothing was changed"
        ) from error


def load_parts(parts: Mapping[str, Part], checkpoint: Mapping[str, Any], hooks: HookList) -> None:
    """Load the states of parts, in their order; if one cannot be loaded, all are made again what they were."""
    with ExitStack() as undo:
        for name, (state, load) in parts.items():
            if name == "hooks":
                hooks.note(undo)
            else:
                undo.callback(load, state())
        for name, (_, load) in parts.items():
            read(checkpoint, name, load)
        undo.pop_all()


def check_identity(checkpoint: object, own: str | None, work_dir: Path | None) -> None:
    """Refuse the checkpoint of another run than that of the folder, or that the runner itself has made, its `own`."""
    theirs, ours = identity_of(checkpoint), identity_in(work_dir) or own
    if None not in (theirs, ours) and theirs != ours:
        raise TrainingError(
            f"this is a checkpoint of another run: this one, or its folder, is {ours}, and {theirs} saved it. To "
            "continue that one here, call resume(path, other_run=True), or give the command --resume FILE --overwrite, "
            "which sets the other checkpoints in the folder aside; nothing was changed"
        )
