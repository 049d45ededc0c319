"""The state of a run, with everything that is needed to resume it, as one tree of plain values and arrays."""

from __future__ import annotations

import platform
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from aspecthook import AspecthookError, hooks
from aspecthook._errors import printable
from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import all_gather
from aspecthook.training.backends._state import map_leaves
from aspecthook.training.checkpoint._identity import identity_in, identity_of

from ._names import named
from ._run import Run
from ._schema import check_state, generators_of
from ._settings import settings_of, tell_differences

_CHANGED = (
    "epoch",
    "iter",
    "step",
    "inner_iter",
    "resumed",
    "logs",
    "logged",
    "identity",
    "settings",
)  # by `_resume`, of the run itself


def state_of(run: Run, meta: Mapping[str, Any] | None, *, copy: bool) -> dict[str, Any]:
    """Return the state of a run, with copies of its arrays if told so; several ranks call it together."""
    generators = all_gather(run.backend.rng_state())
    return {
        "meta": {
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "backend": run.backend.name,
            **run.meta,
            **(meta or {}),
            "identity": run.identity,
        },
        "progress": run.progress,
        "data": run.reading.state_of(run.loaders.get("train"), run.done.epoch, run.done.inner_iter),
        "model": run.backend.state(run.model, copy=copy),
        "optimizer": {} if run.optimizer is None else run.backend.optimizer_state(run.optimizer, copy=copy),
        "gradients": run.backend.gradients(run.model, copy=copy) if run.done.accumulated else None,
        "amp": None if run.amp is None else run.amp.state_dict(),
        "random": generators[0],
        "ranks": generators[1:],  # the random generators of the others
        "logs": {name: value for name, value in run.logs.items() if isinstance(value, (int, float, str))},
        "hooks": {name: hook.state_dict() for name, hook in named(run) if hasattr(hook, "state_dict")},
        "settings": settings_of(run) if run.settings is None else run.settings,
    }


def is_shown(run: Run) -> bool:
    """Whether hooks that are not the package's own see what is saved, and may change it or keep it for later."""
    try:
        mounts = hooks(type(run).write_checkpoint), hooks(run.write_checkpoint)
    except AspecthookError:  # a subclass has overridden it with a method that is no mount point
        return True
    owners = [getattr(hook.function, "__self__", None) for mount in mounts for hook in mount]
    return not all(type(owner).__module__.startswith("aspecthook.") for owner in owners)


def copied_arrays(state: Mapping[str, Any]) -> dict[int, Any]:
    """Return the arrays that `state_of` has copied, by their identities; a hook's may be those that it works with.

    They are kept alive: a hook may replace one, and the next array might then have its identity.
    """
    found: dict[int, Any] = {}
    map_leaves(
        lambda leaf: found.setdefault(id(leaf), leaf),
        [state[name] for name in ("model", "optimizer", "gradients", "random")],
    )
    return found


def restore(run: Run, checkpoint: Mapping[str, Any], *, resume: bool, other_run: bool) -> None:
    """Restore the state of a run, or with ``resume=False`` the parameters of its model alone; all of it, or nothing."""
    check_state(run, checkpoint, resume=resume)
    optimizer = checkpoint.get("optimizer")
    if resume and not other_run:
        _check_identity(run, checkpoint)
    if resume and run.optimizer is not None and optimizer is None:
        raise TrainingError(
            "the checkpoint was saved without the optimizer, so the run cannot be resumed from it; load the model "
            "alone with load_checkpoint(path)"
        )
    settings = settings_of(run) if run.settings is None else run.settings
    with ExitStack() as undo:
        undo.callback(run.backend.load_state, run.model, run.backend.state(run.model))
        if resume:
            _undo_all(run, checkpoint, undo)
        run.backend.load_state(run.model, checkpoint["model"])
        if resume:
            _resume(run, checkpoint)
            tell_differences(run, checkpoint.get("settings", {}), settings)
        undo.pop_all()


def _resume(run: Run, checkpoint: Mapping[str, Any]) -> None:
    """Restore everything but the model."""
    optimizer = checkpoint.get("optimizer")
    if run.optimizer is not None and optimizer is not None:
        run.backend.load_optimizer_state(run.optimizer, optimizer)
    if run.amp is not None and checkpoint.get("amp") is not None:
        run.amp.load_state_dict(checkpoint["amp"])
    run.backend.load_gradients(run.model, checkpoint.get("gradients") or {})  # between two groups there are none
    run.progress = checkpoint["progress"]
    run.done.accumulated = bool(checkpoint.get("gradients"))
    run.reading.saved = checkpoint.get("data")
    run.logs, run.logged = dict(checkpoint["logs"]), {}
    states = checkpoint["hooks"]
    unknown = [name for name in states if states[name] and name not in dict(named(run))]
    if unknown:
        run.logger.warning(
            "the checkpoint has the state of hooks that are not registered: %s", ", ".join(map(printable, unknown))
        )
    for name, hook in named(run):
        if name in states and hasattr(hook, "load_state_dict"):
            try:
                hook.load_state_dict(states[name])
            except Exception as error:
                raise TrainingError(
                    f"the hook {name} cannot load its state from the checkpoint: {type(error).__name__}: {error}; "
                    "nothing was changed. Give it the options that it had, or remove it from the runner"
                ) from error
    run.backend.set_rng_state(generators_of(run, checkpoint))
    run.identity = identity_of(checkpoint) or run.identity


def _undo_all(run: Run, checkpoint: Mapping[str, Any], undo: ExitStack) -> None:
    """Note how to undo what `_resume` changes."""
    undo.callback(run.backend.set_rng_state, run.backend.rng_state())
    kept: list[tuple[object, str, Any]] = [(run, name, getattr(run, name)) for name in _CHANGED]
    kept += [(run.done, field.name, getattr(run.done, field.name)) for field in fields(run.done)]
    kept += [(run.reading, "saved", run.reading.saved)]
    for target, name, value in kept:
        undo.callback(setattr, target, name, value)
    undo.callback(run.backend.load_gradients, run.model, run.backend.gradients(run.model))
    if run.amp is not None:
        undo.callback(run.amp.load_state_dict, run.amp.state_dict())
    if run.optimizer is not None:
        _undo_optimizer(run, undo)
    for name, hook in named(run):
        if name in checkpoint["hooks"] and hasattr(hook, "load_state_dict"):
            _undo_hook(hook, undo)


def _undo_optimizer(run: Run, undo: ExitStack) -> None:
    """Note how to undo the loading of the optimizer: its state, and the very groups, which schedules may hold."""
    groups = [(group, dict(group)) for group in run.optimizer.param_groups]

    def restore_groups() -> None:
        for group, values in groups:
            group.clear()
            group.update(values)
        run.optimizer.param_groups[:] = [group for group, _ in groups]

    undo.callback(restore_groups)
    undo.callback(run.backend.load_optimizer_state, run.optimizer, run.backend.optimizer_state(run.optimizer))


def _undo_hook(hook: Any, undo: ExitStack) -> None:
    """Note how to undo the loading of a hook.

    First it loads the state that it has now. It may fail at that too, or have no state before the run begins; and many
    hooks only note what they were given, until the run begins. So then its attributes are what they were.
    """
    attributes = getattr(hook, "__dict__", None)
    if attributes is not None:
        undo.callback(attributes.update, dict(attributes))
        undo.callback(attributes.clear)
    with suppress(Exception):
        before = deepcopy(hook.state_dict())

        def load() -> None:
            with suppress(Exception):
                hook.load_state_dict(before)

        undo.callback(load)


def _check_identity(run: Run, checkpoint: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another run than that of the folder, or that the runner itself has made."""
    theirs, held = identity_of(checkpoint), identity_in(run.work_dir)
    ours = run.identity if held is None and run.done.iter else held
    if theirs is not None and ours not in (None, theirs):
        owner = "this runner has" if held is None else f"{run.work_dir} is the folder of"
        raise TrainingError(
            f"this is a checkpoint of another run: {owner} the run {ours}, and it was saved by {theirs}. To continue "
            "that one here, call resume(path, other_run=True), or give the command --resume FILE --overwrite, which "
            "sets the other checkpoints in the folder aside; nothing was changed"
        )


@contextmanager
def preserved(run: Run, *more: str) -> Generator[None]:
    """Restore the run after ``with``, which may validate, test or predict: its place, data and the mode of its model.

    `more` are other attributes to restore.

    The mode of each module of a model is restored, since some of them may be in another mode than the model.
    """
    names = ("mode", "data_loader", "inner_iter", "batch", "outputs", "loaders", *more)
    kept = {name: getattr(run, name) for name in names}
    run.loaders = dict(run.loaders)
    due, run.done.due = run.done.due, None  # so that this is not taken for the validation that the workflow has begun
    wholes: list[Any] = [run.model, *getattr(run.model, "__dict__", {}).values()]
    modules = [module for whole in wholes if hasattr(whole, "named_modules") for _, module in whole.named_modules()]
    training = [bool(module.training) for module in modules]
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(run, name, value)
        run.done.due = due
        if run.mode == "train" and callable(getattr(run.model, "train", None)):
            run.model.train()
        for module, was_training in zip(modules, training, strict=True):
            module.training = was_training
