"""All that a run needs to go on as if nothing had happened, as one tree of plain values and arrays."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aspecthook.training._errors import TrainingError

if TYPE_CHECKING:
    from ._runner import Runner


def state_of(runner: Runner, meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Give the state of a run."""
    return {
        "meta": {
            "saved": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "backend": runner.backend.name,
            **runner.meta,
            **(meta or {}),
        },
        "progress": runner.progress,
        "model": runner.backend.state(runner.model),
        "optimizer": {} if runner.optimizer is None else runner.backend.optimizer_state(runner.optimizer),
        "gradients": runner.backend.gradients(runner.model) if runner.in_group else None,
        "amp": None if runner.amp is None else runner.amp.state_dict(),
        "random": runner.backend.rng_state(),
        "logs": {name: value for name, value in runner.logs.items() if isinstance(value, (int, float, str))},
        "hooks": {name: hook.state_dict() for name, hook in named(runner) if hasattr(hook, "state_dict")},
    }


def named(runner: Runner) -> list[tuple[str, Any]]:
    """Give the hooks of a run by names of their own: a second one of a class is numbered."""
    seen: dict[str, int] = {}
    rows: list[tuple[str, Any]] = []
    for hook in runner.hooks:
        name = type(hook).__name__
        seen[name] = seen.get(name, 0) + 1
        rows.append((name if seen[name] == 1 else f"{name} {seen[name]}", hook))
    return rows


def restore(runner: Runner, checkpoint: Mapping[str, Any], *, resume: bool) -> None:
    """Put the state of a run back.

    Raises:
        TrainingError: It is that of another model or another run; nothing is changed then.
    """
    if "model" not in checkpoint:
        raise TrainingError(
            f"this is no checkpoint of a run: it has {', '.join(checkpoint) or 'nothing'}, and no 'model'"
        )
    optimizer = checkpoint.get("optimizer")
    if resume and runner.optimizer is not None and optimizer is None:
        raise TrainingError(
            "the checkpoint was saved without the optimizer, and a run cannot go on without it; load the model alone "
            "with load_checkpoint(path)"
        )
    runner.backend.load_state(runner.model, checkpoint["model"])
    if not resume:
        return
    if runner.optimizer is not None and optimizer is not None:
        runner.backend.load_optimizer_state(runner.optimizer, optimizer)
    if runner.amp is not None and checkpoint.get("amp") is not None:
        runner.amp.load_state_dict(checkpoint["amp"])
    if checkpoint.get("gradients") is not None:
        runner.backend.load_gradients(runner.model, checkpoint["gradients"])
    runner.progress = checkpoint["progress"]
    runner.logs = dict(checkpoint["logs"])
    states = checkpoint["hooks"]
    unknown = [name for name in states if states[name] and name not in dict(named(runner))]
    if unknown:
        runner.logger.warning("the checkpoint has the state of hooks that the run has not: %s", ", ".join(unknown))
    for name, hook in named(runner):
        if name in states and hasattr(hook, "load_state_dict"):
            hook.load_state_dict(states[name])
    runner.backend.set_rng_state(checkpoint["random"])
