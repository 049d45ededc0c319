"""How a run is restored from a checkpoint, which is one tree of plain values and arrays.

The invariant: a run is restored as a whole, or not at all. Each part of it has a function that returns its state and
one that loads it, and none of them touches a file. What a part was is noted before any is loaded; if one cannot be
loaded, all are made again what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from copy import deepcopy
from functools import partial
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aspecthook._errors import brief, described, printable
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._folder import identity_in, identity_of

from ._dialect import Registered

if TYPE_CHECKING:
    from aspecthook.training.backends._backend import Backend


# Any, in what follows: each part has a state of its own kind.
class Part(NamedTuple):
    """A part of a run: what returns its state, and what restores such a state."""

    state: Callable[[], Any]
    load: Callable[[Any], object]


# The parts whose present states are loaded again if a checkpoint is refused; what the others replace, the run keeps.
_AGAIN = ("model", "optimizer", "amp", "gradients", "random")


def parts_of(backend: Backend, model: Any, optimizer: Any, amp: Any) -> dict[str, Part]:
    """Return the parts of a run that are trained, by their names in checkpoints."""
    parts = {"model": Part(partial(backend.state, model), partial(backend.load_state, model))}
    if optimizer is not None:
        state, load = backend.optimizer_state, backend.load_optimizer_state
        parts["optimizer"] = Part(partial(state, optimizer), partial(load, optimizer))
    if amp is not None:
        parts["amp"] = Part(amp.state_dict, amp.load_state_dict)
    return parts


def load_parts(parts: Mapping[str, Part], checkpoint: Mapping[str, Any], hooks: Iterable[Any]) -> None:
    """Restore parts of a run, among them its hooks, from a checkpoint; if one cannot be, all are what they were."""
    if "model" not in checkpoint:
        found = ", ".join(map(brief, checkpoint)) or "nothing"
        raise TrainingError(f"this is not a checkpoint of a run: it has no 'model'; what it has: {found}")
    for name in parts:
        if name not in checkpoint and name not in ("optimizer", "amp"):
            raise TrainingError(f"this checkpoint has no {name!r}; load another checkpoint; nothing was changed")
    if "optimizer" in parts and checkpoint.get("optimizer") is None:
        raise TrainingError(
            "the checkpoint was saved without the optimizer, so the run cannot be resumed from it; load the model "
            "alone with load_checkpoint(path)"
        )
    with ExitStack() as undo:
        for hook in hooks:
            _note_hook(undo, hook)
        for name in _AGAIN:
            if name in parts:
                undo.callback(parts[name].load, parts[name].state())
        for name, part in parts.items():
            state = checkpoint.get(name)
            try:
                part.load(state)
            except TrainingError:
                raise
            except Exception as error:
                raise TrainingError(
                    f"{name!r} in this checkpoint is {described(state)} that cannot be restored "
                    f"({type(error).__name__}: {printable(str(error))}); load another checkpoint; nothing was changed"
                ) from error
        undo.pop_all()


def _note_hook(undo: ExitStack, hook: Any) -> None:
    """Note how to make a hook that has a state again what it is.

    A hook may fail to load the state that it has now, or have none before the run begins; and many only note what they
    were given, until the run begins. So at last its attributes are what they were.
    """

    def load_again(state: Any) -> None:
        with suppress(Exception):
            hook.load_state_dict(state)

    if hasattr(hook, "load_state_dict"):
        attributes: dict[str, Any] = getattr(hook, "__dict__", {})
        undo.callback(attributes.update, dict(attributes))
        undo.callback(attributes.clear)
        with suppress(Exception):
            undo.callback(load_again, deepcopy(hook.state_dict()))


def states_of(registered: Iterable[Registered]) -> dict[str, Any]:
    """Return the states of the hooks of a run, by their names."""
    return {one.name: one.hook.state_dict() for one in registered if hasattr(one.hook, "state_dict")}


def load_hooks(registered: Iterable[Registered], logger: Logger, states: Mapping[str, Any]) -> None:
    """Restore the hooks of a run, each by its name."""
    hooks = {one.name: one.hook for one in registered}
    unknown = ", ".join(printable(name) for name in states if states[name] and name not in hooks)
    if unknown:
        logger.warning("the checkpoint has the state of hooks that are not registered: %s", unknown)
    for name, hook in hooks.items():
        if name in states and hasattr(hook, "load_state_dict"):
            try:
                hook.load_state_dict(states[name])
            except Exception as error:
                raise TrainingError(
                    f"the hook {name} cannot load its state from the checkpoint: {type(error).__name__}: {error}; "
                    "nothing was changed. Give it the options that it had, or remove it from the runner"
                ) from error


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
