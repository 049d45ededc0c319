"""mmcv's names for the schedule hooks, and its configs for all hooks of a usual run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias, cast

from aspecthook._errors import ConfigError, brief, nearest
from aspecthook.training.backends._state import is_any
from aspecthook.training.hooks._hook import HOOKS, build_hook
from aspecthook.training.loop._run import Run
from aspecthook.training.registry._configs import outline

from ._hooks import LrUpdaterHook, MomentumUpdaterHook
from ._options import POLICIES

# The config of a hook, a hook of any class, or None for no hook.
Config: TypeAlias = object

# mmcv has a class for each policy, such as CosineAnnealingLrUpdaterHook; here that names the hook with the policy.
for _policy in POLICIES:
    for _hook in (LrUpdaterHook, MomentumUpdaterHook):
        _name = f"{_policy.title().replace('_', '')}{_hook.__name__}"
        HOOKS.register(partial(cast("Any", _hook), _policy), name=_name)

# The hooks of a usual run by the words of their configs, and the priorities that mmcv gives them; None for their own.
_USUAL: dict[str, tuple[str, int | None]] = {
    "lr": ("LrUpdaterHook", 10),
    "momentum": ("MomentumUpdaterHook", 30),
    "optimizer": ("OptimizerHook", 40),
    "checkpoint": ("CheckpointHook", 50),
    "timer": ("IterTimerHook", 70),
}
_LOGGERS = 90
_SHARED = ("interval", "by_epoch", "ignore_last", "priority")  # the options of log_config that all loggers share


def register_training_hooks(runner: Run, configs: Mapping[str, Config], log: Config, custom: Config) -> None:
    """Build and register all hooks; if one cannot be built or registered, none is."""
    others = cast("list[Config]", custom) if isinstance(custom, (list, tuple)) else [] if custom is None else [custom]
    rows = [_built(configs[word], *row, f"{word}_config") for word, row in _USUAL.items() if configs[word]]
    rows += [_built(config, None, _LOGGERS, "log_config") for config in _loggers(log, runner.by_epoch)]
    rows += [_built(config, None, None, "custom_hooks") for config in others]
    registered: list[Any] = []
    try:
        for hook, priority, name in rows:
            registered.append(runner.register_hook(hook, priority, name=name))  # until one is refused
    except BaseException:
        for hook in registered:
            runner.remove_hook(hook)
        raise


def _built(config: Config, kind: str | None, priority: int | None, where: str) -> tuple[Any, Any, str | None]:
    """Return a hook, its priority (of its config, else of mmcv's table, else None for its own) and its name, if any."""
    if not isinstance(config, (str, Mapping)):
        return config, priority, None
    given: dict[str, Any] = {"type": config} if isinstance(config, str) else dict(cast("Mapping[str, Any]", config))
    if kind is not None:
        given.setdefault("type", kind)
    chosen = given.pop("priority", priority)
    try:
        hook, name = build_hook(given)
    except Exception as error:
        error.add_note(f"in {where}={outline(given)}")
        raise
    return hook, chosen, name


def _loggers(config: Config, by_epoch: bool) -> list[Config]:
    """Return the configs of the loggers, each with the shared options; as in mmcv, they count as the run does."""
    if not config:
        return []
    given = cast("Mapping[str, Any]", config) if is_any(config, Mapping) else {brief(config): None}
    for name in given:
        if name not in (*_SHARED, "hooks"):
            raise ConfigError(
                f"log_config={outline(config)}: {brief(name)} is unknown; the options are 'hooks', the loggers, and "
                f"those that they share: {', '.join(_SHARED)}{nearest(name, [*_SHARED, 'hooks'])}"
            )
    shared: dict[str, Any] = {"by_epoch": by_epoch, **given}
    hooks: Any = shared.pop("hooks", ["TextLoggerHook"])
    configs: list[Any] = [{"type": one} if isinstance(one, str) else one for one in hooks]
    return [{**shared, **one} if is_any(one, Mapping) else one for one in configs]
