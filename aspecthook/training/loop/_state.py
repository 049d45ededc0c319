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
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from aspecthook._errors import brief, described, printable
from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import all_gather
from aspecthook.training.backends._state import is_any
from aspecthook.training.checkpoint._folder import identity_in, identity_of

from ._run import COUNTS, Run, named


# Any, in what follows: each part has a state of its own kind.
class Part(NamedTuple):
    """A part of a run: what returns its state, and what restores such a state."""

    state: Callable[[], Any]
    load: Callable[[Any], object]
    may_lack: bool = False  # whether a checkpoint may be without it


def parts_of(run: Run) -> dict[str, Part]:
    """Return the parts of a run by their names in checkpoints, in the order in which they are restored."""
    backend, model, optimizer, amp, progress = run.backend, run.model, run.optimizer, run.amp, run.progress

    def load_progress(counts: Mapping[str, Any]) -> None:
        progress.load_state_dict(counts)
        run.epoch, run.iter = progress.epoch, progress.iter
        run.step, run.inner_iter = progress.step, progress.inner_iter

    def load_amp(state: Any) -> None:
        if state is not None:
            amp.load_state_dict(state)

    def load_gradients(gradients: Mapping[str, Any] | None) -> None:
        backend.load_gradients(model, gradients or {})  # between two groups of batches there are none
        progress.accumulated = bool(gradients)

    def load_logs(logs: Mapping[str, Any]) -> None:
        run.logs, run.logged = dict(logs), {}

    def data_state() -> Any:
        return run.reading.state_of(run.loaders.get("train"), progress.epoch, progress.inner_iter)

    parts = {"model": Part(lambda: backend.state(model), partial(backend.load_state, model))}
    if optimizer is not None:
        load_optimizer = partial(backend.load_optimizer_state, optimizer)
        parts["optimizer"] = Part(lambda: backend.optimizer_state(optimizer), load_optimizer, True)
    if amp is not None:
        parts["amp"] = Part(amp.state_dict, load_amp, True)
    return parts | {
        "progress": Part(progress.state_dict, load_progress),
        "gradients": Part(lambda: backend.gradients(model) if progress.accumulated else None, load_gradients, True),
        "data": Part(data_state, partial(setattr, run.reading, "saved"), True),
        "logs": Part(
            lambda: {name: value for name, value in run.logs.items() if isinstance(value, (int, float, str))}, load_logs
        ),
        "hooks": Part(
            lambda: {name: hook.state_dict() for name, hook in named(run) if hasattr(hook, "state_dict")},
            partial(_load_hooks, run),
        ),
        "random": Part(backend.rng_state, backend.set_rng_state),
    }


def state_of(run: Run) -> dict[str, Any]:
    """Return the state of a run, with copies of its arrays; several ranks call it together."""
    generators = all_gather(run.backend.rng_state())
    return {
        "meta": {
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "backend": run.backend.name,
            "identity": run.identity,
        },
        **{name: part.state() for name, part in parts_of(run).items()},
        "random": generators[0],
        "ranks": generators[1:],  # the random generators of the others
    }


def restore(run: Run, checkpoint: Mapping[str, Any], *, resume: bool, other_run: bool) -> None:
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
    if "optimizer" in states and states["optimizer"] is None:
        raise TrainingError(
            "the checkpoint was saved without the optimizer, so the run cannot be resumed from it; load the model "
            "alone with load_checkpoint(path)"
        )
    ranks: Any = checkpoint.get("ranks")
    if resume and is_any(ranks, list):  # if there were fewer ranks, several have the generators of one
        states["random"] = [checkpoint["random"], *ranks][run.rank % (len(ranks) + 1)]
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
        run.identity, run.resumed = identity_of(checkpoint) or run.identity, True


def _note_how_to_undo(run: Run, parts: Mapping[str, Part], undo: ExitStack) -> None:
    """Note how to restore the parts of a run as they are now; what is noted last is done first."""

    def keep_items(items: dict[str, Any]) -> None:
        undo.callback(items.update, dict(items))
        undo.callback(items.clear)

    def load_again(hook: Any, state: Any) -> None:
        with suppress(Exception):
            hook.load_state_dict(state)

    attributes: list[tuple[Any, str]] = [
        *((run, name) for name in ("epoch", "iter", "step", "inner_iter", "logs", "logged")),
        *((run.progress, name) for name in (*COUNTS, "accumulated")),
        (run.reading, "saved"),
    ]
    if run.optimizer is not None:  # the very objects, which schedules hold
        attributes.append((run.optimizer, "param_groups"))
        for group in run.optimizer.param_groups:
            keep_items(group)
    for owner, name in attributes:
        undo.callback(setattr, owner, name, getattr(owner, name))
    for name in ("model", "optimizer", "amp", "gradients", "random"):
        if name in parts:
            undo.callback(parts[name].load, parts[name].state())
    for _, hook in named(run) if "hooks" in parts else []:
        if hasattr(hook, "load_state_dict"):
            # A hook may fail to load the state that it has now, or have none before the run begins; and many only note
            # what they were given, until the run begins. So at last its attributes are what they were.
            keep_items(getattr(hook, "__dict__", {}))
            with suppress(Exception):
                undo.callback(load_again, hook, deepcopy(hook.state_dict()))


def _load_hooks(run: Run, states: Mapping[str, Any]) -> None:
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


def _check_identity(run: Run, checkpoint: Mapping[str, Any]) -> None:
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
