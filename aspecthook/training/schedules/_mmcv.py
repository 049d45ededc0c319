"""mmcv's names for the schedule hooks, and its configs for all hooks of a usual run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias, cast

from aspecthook._errors import ConfigError, brief
from aspecthook.training.backends._state import is_any
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._runner import Runner

from ._hooks import LrUpdaterHook, MomentumUpdaterHook
from ._policies import POLICIES

# The config of a hook, a hook of any class, or None for no hook.
Config: TypeAlias = object

# mmcv has a class for each policy, such as CosineAnnealingLrUpdaterHook; here that names the hook with the policy.
for _policy in POLICIES:
    for _hook in (LrUpdaterHook, MomentumUpdaterHook):
        _name = f"{_policy.title().replace('_', '')}{_hook.__name__}"
        HOOKS.register(partial(cast("Any", _hook), _policy), name=_name)

# The hooks of a usual run by the words of their configs, and the priorities that mmcv gives them.
_USUAL: dict[str, tuple[str, int]] = {
    "lr": ("LrUpdaterHook", 10),
    "momentum": ("MomentumUpdaterHook", 30),
    "optimizer": ("OptimizerHook", 40),
    "checkpoint": ("CheckpointHook", 50),
    "timer": ("IterTimerHook", 70),
}
_LOGGERS = 90


def register_training_hooks(runner: Runner, configs: Mapping[str, Config], log: Config, custom: Config) -> None:
    """Register all hooks; if one cannot be built or registered, none is."""
    others = cast("list[Config]", custom) if isinstance(custom, (list, tuple)) else [] if custom is None else [custom]
    rows: list[tuple[Any, str, int | None]] = [
        *((configs[word], *usual) for word, usual in _USUAL.items() if configs[word]),
        *((config, "", _LOGGERS) for config in _loggers(log, runner.by_epoch)),
        *((config, "", None) for config in others),  # each has a priority of its own
    ]
    registered: list[Any] = []
    try:
        for config, kind, usual_priority in rows:
            hook: Any = {"type": config} if isinstance(config, str) else config
            priority: Any = usual_priority
            if is_any(hook, Mapping):
                hook = {"type": kind, **hook} if kind else {**hook}
                priority = hook.pop("priority", usual_priority)
            registered.append(runner.register_hook(hook, priority))
    except BaseException:
        for hook in registered:
            runner.remove_hook(hook)
        raise


def _loggers(config: Any, by_epoch: bool) -> list[Config]:
    """Return the configs of the loggers, each with the shared options; as in mmcv, they count as the run does."""
    if not config:
        return []
    if not is_any(config, Mapping):
        raise ConfigError(f"log_config={brief(config)}: give a mapping with the options of the loggers, and 'hooks'")
    shared: dict[str, Any] = {"by_epoch": by_epoch, **config}
    configs = [{"type": one} if isinstance(one, str) else one for one in shared.pop("hooks", ["TextLoggerHook"])]
    return [{**shared, **one} if is_any(one, Mapping) else one for one in configs]
