"""The state of a run, with everything that is needed to resume it, as one tree of plain values and arrays.

The invariant: a run is restored as a whole, or not at all. Each part of it has a function that returns its state and
one that loads it, and none of them touches a file. The states of all parts are read before any is loaded; if one cannot
be loaded, all are loaded again as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from functools import partial
from logging import Logger
from pathlib import Path
from typing import Any, NamedTuple

from aspecthook._errors import brief, described, printable
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any
from aspecthook.training.checkpoint._folder import identity_in, identity_of


# Any, in what follows: each part has a state of its own kind.
class Part(NamedTuple):
    """A part of a run: what returns its state, and what restores such a state.

    If a checkpoint is refused, the part is as it was before: the state that it had is loaded again, by what `again`
    returns if that is given. Then the attributes that it `keeps`, all of which a state may not have, are set to what
    they were; without a name, the items of a dict.
    """

    state: Callable[[], Any]
    load: Callable[[Any], object]
    may_lack: bool = False  # whether a checkpoint may be without it
    again: Callable[[], Callable[[], object]] | None = None
    keeps: Iterable[tuple[Any, str]] = ()

    def note_how_to_undo(self, undo: ExitStack) -> None:
        """Note how to restore the part as it is now; what is noted last is done first."""
        for owner, name in self.keeps:
            if name:
                undo.callback(setattr, owner, name, getattr(owner, name))
            else:
                undo.callback(owner.update, dict(owner))
                undo.callback(owner.clear)
        undo.callback(partial(self.load, self.state()) if self.again is None else self.again())


def restore(parts: Mapping[str, Part], checkpoint: Mapping[str, Any], rank: int) -> None:
    """Restore parts of a run from a checkpoint; all of them, or none."""
    if "model" not in checkpoint:
        found = ", ".join(map(brief, checkpoint)) or "nothing"
        raise TrainingError(f"this is not a checkpoint of a run: it has no 'model'; what it has: {found}")
    for name, part in parts.items():
        if name not in checkpoint and not part.may_lack:
            raise TrainingError(f"this checkpoint has no {name!r}; load another checkpoint; nothing was changed")
    states = {name: checkpoint.get(name) for name in parts}
    if "optimizer" in states and states["optimizer"] is None:
        raise TrainingError(
            "the checkpoint was saved without the optimizer, so the run cannot be resumed from it; load the model "
            "alone with load_checkpoint(path)"
        )
    ranks: Any = checkpoint.get("ranks")
    if "random" in states and is_any(ranks, list):  # if there were fewer ranks, several have the generators of one
        states["random"] = [checkpoint["random"], *ranks][rank % (len(ranks) + 1)]
    with ExitStack() as undo:
        for part in parts.values():
            part.note_how_to_undo(undo)
        for name, part in parts.items():
            try:
                part.load(states[name])
            except TrainingError:
                raise
            except Exception as error:
                raise TrainingError(
                    f"{name!r} in this checkpoint is {described(states[name])} that cannot be restored "
                    f"({type(error).__name__}: {printable(str(error))}); load another checkpoint; nothing was changed"
                ) from error
        undo.pop_all()


def hooks_part(named: Sequence[tuple[str, Any]], logger: Logger) -> Part:
    """Return the hooks of a run, with their names, as a part of it."""

    def load(states: Mapping[str, Any]) -> None:
        unknown = ", ".join(printable(name) for name in states if states[name] and name not in dict(named))
        if unknown:
            logger.warning("the checkpoint has the state of hooks that are not registered: %s", unknown)
        for name, hook in named:
            if name in states and hasattr(hook, "load_state_dict"):
                try:
                    hook.load_state_dict(states[name])
                except Exception as error:
                    raise TrainingError(
                        f"the hook {name} cannot load its state from the checkpoint: {type(error).__name__}: {error}; "
                        "nothing was changed. Give it the options that it had, or remove it from the runner"
                    ) from error

    def again() -> Callable[[], None]:
        # A hook may fail to load the state that it has now, or have none before the run begins; and many only note what
        # they were given, until the run begins. So at last its attributes are what they were.
        before: list[tuple[Any, Any]] = []
        for hook in loading:
            with suppress(Exception):
                before.append((hook, deepcopy(hook.state_dict())))

        def load_again() -> None:
            for hook, state in reversed(before):
                with suppress(Exception):
                    hook.load_state_dict(state)

        return load_again

    loading = [hook for _, hook in named if hasattr(hook, "load_state_dict")]
    states = lambda: {name: hook.state_dict() for name, hook in named if hasattr(hook, "state_dict")}  # noqa: E731
    return Part(states, load, again=again, keeps=[(getattr(hook, "__dict__", {}), "") for hook in loading])


def check_identity(checkpoint: object, own: str | None, work_dir: Path | None) -> None:
    """Refuse the checkpoint of another run than that of the folder, or that the runner itself has made, its `own`."""
    theirs, held = identity_of(checkpoint), identity_in(work_dir)
    ours = own if held is None else held
    if theirs is not None and ours not in (None, theirs):
        owner = "this runner has" if held is None else f"{work_dir} is the folder of"
        raise TrainingError(
            f"this is a checkpoint of another run: {owner} the run {ours}, and it was saved by {theirs}. To continue "
            "that one here, call resume(path, other_run=True), or give the command --resume FILE --overwrite, which "
            "sets the other checkpoints in the folder aside; nothing was changed"
        )
