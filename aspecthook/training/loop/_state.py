"""The state of a run, with everything that is needed to resume it, as one tree of plain values and arrays.

The invariant: a run is restored as a whole, or not at all. Each part of it has a function that returns its state and
one that loads it, and none of them touches a file. The states of all parts are read before any is loaded; if one cannot
be loaded, all are loaded again as they were.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from logging import Logger
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

from aspecthook._errors import brief, described, printable
from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import all_gather
from aspecthook.training.backends._state import is_any
from aspecthook.training.checkpoint._folder import identity_in, identity_of

from ._dialect import Registered, named
from ._reading import Reading

if TYPE_CHECKING:
    from aspecthook.training.backends._backend import Backend

# Any, in what follows: each part has a state of its own kind.

COUNTS = ("epoch", "iter", "step", "inner_iter", "row", "begun", "validated")


@final
@dataclass(slots=True)
class Progress:
    """How far a run has come: where a checkpoint that is saved now must resume from.

    An iteration counts as soon as its body is done, before the hooks after it are called. The run's own `iter`, `step`
    and `epoch` are counted up only after those hooks.
    """

    epoch: int = 0
    iter: int = 0
    step: int = 0
    inner_iter: int = 0  # the iterations of the current epoch
    row: int = 0  # the current row of the workflow
    begun: int = 0  # the epochs or iterations that had been trained when the row began
    validated: int = 0  # the validations of the row

    # Of the current epoch, and not in checkpoints:
    pending_epoch: str | None = None  # the mode of one that the workflow has begun, until its body begins
    length: int | None = None  # the number of batches when its body began, if it is known
    until: float = inf  # the iteration that ends the row of the workflow
    accumulated: bool = False  # whether there are gradients that the optimizer has not used yet

    def state_dict(self) -> dict[str, int]:
        """Return the counts that a checkpoint keeps."""
        return {name: getattr(self, name) for name in COUNTS}

    def load_state_dict(self, counts: Mapping[str, int]) -> None:
        """Restore the counts from a checkpoint."""
        for name in COUNTS:
            count = int(counts[name])
            if count < 0:
                raise ValueError(f"the count {name!r} is {count}")
            setattr(self, name, count)


class Restorable(Protocol):
    """What is kept of a run."""

    model: Any
    optimizer: Any
    amp: Any
    backend: Backend
    progress: Progress
    reading: Reading
    loaders: dict[str, Any]
    logs: dict[str, Any]
    logged: dict[str, Any]
    meta: dict[str, Any]
    registered: list[Registered]
    identity: str
    resumed: bool
    rank: int
    work_dir: Path | None
    logger: Logger

    def move_to(self, counts: Mapping[str, int]) -> None: ...


class Part(NamedTuple):
    """A part of a run: what returns its state, and what restores such a state."""

    state: Callable[[], Any]
    load: Callable[[Any], object]
    may_lack: bool = False  # whether a checkpoint may be without it


def parts_of(run: Restorable) -> dict[str, Part]:
    """Return the parts of a run by their names in checkpoints, in the order in which they are restored."""
    backend, model, reading, progress = run.backend, run.model, run.reading, run.progress

    def load_optimizer(state: Any) -> None:
        if run.optimizer is not None:
            backend.load_optimizer_state(run.optimizer, state)

    def load_amp(state: Any) -> None:
        if run.amp is not None and state is not None:
            run.amp.load_state_dict(state)

    def load_gradients(gradients: Mapping[str, Any] | None) -> None:
        backend.load_gradients(model, gradients or {})  # between two groups of batches there are none
        progress.accumulated = bool(gradients)

    def load_logs(logs: Mapping[str, Any]) -> None:
        run.logs, run.logged = dict(logs), {}

    return {
        "model": Part(lambda: backend.state(model), partial(backend.load_state, model)),
        "optimizer": Part(
            lambda: {} if run.optimizer is None else backend.optimizer_state(run.optimizer), load_optimizer, True
        ),
        "amp": Part(lambda: None if run.amp is None else run.amp.state_dict(), load_amp, True),
        "progress": Part(progress.state_dict, run.move_to),
        "gradients": Part(lambda: backend.gradients(model) if progress.accumulated else None, load_gradients, True),
        "data": Part(
            lambda: reading.state_of(run.loaders.get("train"), progress.epoch, progress.inner_iter),
            partial(setattr, reading, "saved"),
            True,
        ),
        "logs": Part(
            lambda: {name: value for name, value in run.logs.items() if isinstance(value, (int, float, str))}, load_logs
        ),
        "hooks": Part(
            lambda: {name: hook.state_dict() for name, hook in named(run) if hasattr(hook, "state_dict")},
            partial(_load_hooks, run),
        ),
        "random": Part(backend.rng_state, backend.set_rng_state),
    }


def state_of(run: Restorable) -> dict[str, Any]:
    """Return the state of a run, with copies of its arrays; several ranks call it together."""
    generators = all_gather(run.backend.rng_state())
    return {
        "meta": {
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "backend": run.backend.name,
            **run.meta,
            "identity": run.identity,
        },
        **{name: part.state() for name, part in parts_of(run).items()},
        "random": generators[0],
        "ranks": generators[1:],  # the random generators of the others
    }


def restore(run: Restorable, checkpoint: Mapping[str, Any], *, resume: bool, other_run: bool) -> None:
    """Restore the state of a run, or with ``resume=False`` the parameters of its model alone; all of it, or nothing."""
    if "model" not in checkpoint:
        found = ", ".join(map(brief, checkpoint)) or "nothing"
        raise TrainingError(f"this is not a checkpoint of a run: it has no 'model'; what it has: {found}")
    parts = parts_of(run)
    if not resume:
        parts = {"model": parts["model"]}
    elif not other_run:
        _check_identity(run, checkpoint)
    for name, part in parts.items():
        if name not in checkpoint and not part.may_lack:
            raise TrainingError(f"this checkpoint has no {name!r}; load another checkpoint; nothing was changed")
    states = {name: checkpoint.get(name) for name in parts}
    ranks: Any = checkpoint.get("ranks")
    if resume and is_any(ranks, list):  # if there were fewer ranks, several have the generators of one
        states["random"] = [checkpoint["random"], *ranks][run.rank % (len(ranks) + 1)]
    if resume and run.optimizer is not None and states["optimizer"] is None:
        raise TrainingError(
            "the checkpoint was saved without the optimizer, so the run cannot be resumed from it; load the model "
            "alone with load_checkpoint(path)"
        )
    with ExitStack() as undo:
        _note_how_to_undo(run, parts, undo)
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
    if resume:
        run.identity = identity_of(checkpoint) or run.identity


def _note_how_to_undo(run: Restorable, parts: Mapping[str, Part], undo: ExitStack) -> None:
    """Note how to restore the parts of a run as they are now; what is noted last is done first."""

    def keep_items(items: dict[str, Any]) -> None:
        undo.callback(items.update, dict(items))
        undo.callback(items.clear)

    def load_again(hook: Any, state: Any) -> None:
        with suppress(Exception):
            hook.load_state_dict(state)

    attributes = [
        (run, "resumed"),
        (run, "logs"),
        (run, "logged"),
        (run.progress, "accumulated"),
        (run.reading, "saved"),
    ]
    if run.optimizer is not None:  # the very objects, which schedules hold
        attributes.append((run.optimizer, "param_groups"))
        for group in run.optimizer.param_groups:
            keep_items(group)
    for owner, name in attributes:
        undo.callback(setattr, owner, name, getattr(owner, name))
    for name, part in parts.items():
        if name not in ("hooks", "data"):
            undo.callback(part.load, part.state())
    for _, hook in named(run) if "hooks" in parts else []:
        if hasattr(hook, "load_state_dict"):
            # A hook may fail to load the state that it has now, or have none before the run begins; and many only note
            # what they were given, until the run begins. So at last its attributes are what they were.
            keep_items(getattr(hook, "__dict__", {}))
            with suppress(Exception):
                undo.callback(load_again, hook, deepcopy(hook.state_dict()))


def _load_hooks(run: Restorable, states: Mapping[str, Any]) -> None:
    hooks = dict(named(run))
    unknown = [name for name in states if states[name] and name not in hooks]
    if unknown:
        run.logger.warning(
            "the checkpoint has the state of hooks that are not registered: %s", ", ".join(map(printable, unknown))
        )
    for name, hook in hooks.items():
        if name in states and hasattr(hook, "load_state_dict"):
            try:
                hook.load_state_dict(states[name])
            except Exception as error:
                raise TrainingError(
                    f"the hook {name} cannot load its state from the checkpoint: {type(error).__name__}: {error}; "
                    "nothing was changed. Give it the options that it had, or remove it from the runner"
                ) from error


def _check_identity(run: Restorable, checkpoint: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another run than that of the folder, or that the runner itself has made."""
    theirs, held = identity_of(checkpoint), identity_in(run.work_dir)
    ours = run.identity if held is None and run.progress.iter else held
    if theirs is not None and ours not in (None, theirs):
        owner = "this runner has" if held is None else f"{run.work_dir} is the folder of"
        raise TrainingError(
            f"this is a checkpoint of another run: {owner} the run {ours}, and it was saved by {theirs}. To continue "
            "that one here, call resume(path, other_run=True), or give the command --resume FILE --overwrite, which "
            "sets the other checkpoints in the folder aside; nothing was changed"
        )
