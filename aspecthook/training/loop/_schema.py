"""What the state in a checkpoint must look like: checked as a whole, before anything of a run is changed by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aspecthook._errors import brief, described, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any

from ._run import COUNTS, Run

_MOST = 2**53  # of epochs and iterations; beyond it, they are not exact as floats


def check_state(run: Run, checkpoint: Mapping[str, Any], *, resume: bool) -> None:
    """Raise a `TrainingError`, which says where, if a run cannot be restored from this state."""
    if "model" not in checkpoint:
        found = ", ".join(map(brief, checkpoint)) or "nothing"
        raise TrainingError(f"this is not a checkpoint of a run: it has no 'model'; what it has: {found}")
    for name, array in _mapping(checkpoint, "model").items():
        _check_array(f"model[{name!r}]", array)
    if resume:
        _check_progress(_mapping(checkpoint, "progress"))
        _check_optimizer(run, checkpoint.get("optimizer"))
        _check_gradients(run, checkpoint.get("gradients"))
        for name, value in _mapping(checkpoint, "logs").items():
            if not is_any(value, int, float, str):
                raise _wrong(f"logs[{brief(name)}]", "a number or a string", value)
        for name, value in _mapping(checkpoint, "hooks").items():
            if not is_any(value, Mapping):
                raise _wrong(f"hooks[{brief(name)}]", "a dict", value)
        for name, value in _mapping(checkpoint, "settings").items() if "settings" in checkpoint else ():
            if not is_any(name, str) or not is_any(value, str):
                raise _wrong(f"settings[{brief(name)}]", "a string", value)
        if checkpoint.get("data") is not None:
            _mapping(_mapping(checkpoint, "data"), "layout", "'data' in this checkpoint")
        if checkpoint.get("amp") is not None:
            _mapping(checkpoint, "amp")
        _mapping(checkpoint, "random")
        _try_generators(run, generators_of(run, checkpoint))


def _wrong(where: str, wanted: str, found: object) -> TrainingError:
    return TrainingError(
        f"{where} in this checkpoint is {described(found)}, and not {wanted}; no run saves such a state, so load "
        "another checkpoint; nothing was changed"
    )


def _mapping(state: Mapping[str, Any], key: str, where: str = "") -> Mapping[str, Any]:
    if key not in state:
        near = nearest(key, [str(one) for one in state])
        raise TrainingError(
            f"{where or 'this checkpoint'} has no {key!r}; load another checkpoint; nothing was changed{near}"
        )
    if not is_any(state[key], Mapping):
        raise _wrong(f"{where}[{key!r}]" if where else repr(key), "a dict", state[key])
    found: Mapping[str, Any] = state[key]
    return found


def _check_array(where: str, value: Any) -> None:
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise _wrong(where, "an array", value)


def _check_progress(counts: Mapping[str, Any]) -> None:
    for name in COUNTS:
        count = counts.get(name)
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < _MOST:
            raise TrainingError(
                f"progress[{name!r}] in this checkpoint is {brief(count)}, and not a number from 0 up; no run saves "
                "such a state, so load another checkpoint; nothing was changed"
            )


def _check_optimizer(run: Run, state: Any) -> None:
    if not state and (state is None or is_any(state, Mapping)):
        return
    if not is_any(state, Mapping):
        raise _wrong("'optimizer'", "a dict", state)
    if not is_any(state.get("type"), str):
        raise _wrong("optimizer['type']", "a string", state.get("type"))
    kept = _mapping(state, "state", "the optimizer of this checkpoint")
    for number, one in _mapping(kept, "state", "the state of the optimizer in this checkpoint").items():
        if not is_any(one, Mapping):
            raise _wrong(f"the optimizer's state of parameter {brief(number)}", "a dict", one)
    groups: Any = kept.get("param_groups")
    if not is_any(groups, list):
        raise _wrong("the optimizer's 'param_groups'", "a list", groups)
    for group in groups:
        if not is_any(group, Mapping) or not is_any(group.get("params"), list):
            raise _wrong("one of the optimizer's 'param_groups'", "a dict with 'params'", group)
    mine: Any = getattr(run.optimizer, "param_groups", ())
    for ours, theirs in zip(mine, groups, strict=False):
        for name, value in ours.items():
            _check_number(f"the optimizer's {name!r}", value, theirs.get(name, value))


def _check_number(where: str, ours: Any, theirs: Any) -> None:
    """Refuse what is no number where the optimizer has one, or a tuple of them: it would fail in the first step."""
    if is_any(ours, tuple):
        if not is_any(theirs, tuple, list) or len(theirs) != len(ours):
            raise _wrong(where, f"{len(ours)} numbers", theirs)
        for one, other in zip(ours, theirs, strict=True):
            _check_number(where, one, other)
    elif is_any(ours, int, float) and not (is_any(theirs, int, float) or hasattr(theirs, "shape")):
        raise _wrong(where, "a number", theirs)


def _check_gradients(run: Run, gradients: Any) -> None:
    if gradients is None:
        return
    if not is_any(gradients, Mapping):
        raise _wrong("'gradients'", "a dict", gradients)
    shapes = {name: tuple(parameter.shape) for name, parameter in run.backend.parameters(run.model).items()}
    for name, array in gradients.items():
        if array is not None:
            _check_array(f"gradients[{brief(name)}]", array)
            if name in shapes and tuple(array.shape) != shapes[name]:
                raise TrainingError(
                    f"gradients[{name!r}] in this checkpoint has the shape {tuple(array.shape)}, and the parameter "
                    f"{shapes[name]}; load a checkpoint of this model; nothing was changed"
                )


def generators_of(run: Run, checkpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state of the random generators of this rank; if there were fewer ranks, that of one of them."""
    others: Any = checkpoint.get("ranks", [])  # older checkpoints have only rank 0's
    if not is_any(others, list):
        raise _wrong("'ranks'", "a list", others)
    states = [checkpoint["random"], *others]
    state: Any = states[run.rank % len(states)]
    if not is_any(state, Mapping):
        raise _wrong("an item of 'ranks'", "a dict", state)
    found: Mapping[str, Any] = state
    return found


def _try_generators(run: Run, state: Mapping[str, Any]) -> None:
    """Set the generators of random numbers, and set them back: only they know what they accept."""
    before = run.backend.rng_state()
    try:
        run.backend.set_rng_state(state)
    except Exception as error:
        raise TrainingError(
            f"'random' in this checkpoint is not the state of the generators of {run.backend.name} ({brief(error)}); "
            "load another checkpoint; nothing was changed"
        ) from error
    finally:
        run.backend.set_rng_state(before)
