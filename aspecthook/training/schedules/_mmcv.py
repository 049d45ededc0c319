"""mmcv's names for the schedule hooks, and its configs for all hooks of a usual run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias, cast

from aspecthook._errors import ConfigError, brief, nearest
from aspecthook.training.hooks._hook import HOOKS, build_hook
from aspecthook.training.loop._run import Run
from aspecthook.training.registry._configs import outline

from ._hooks import LrUpdaterHook, MomentumUpdaterHook
from ._policy import POLICIES

# The config of a hook, a hook of any class, or None for no hook.
Config: TypeAlias = object
_Built: TypeAlias = tuple[Any, int | str | None, str | None]

# mmcv has a class for each policy, such as CosineAnnealingLrUpdaterHook; here that names the hook with the policy.
for _policy in POLICIES.values():
    for _hook in (LrUpdaterHook, MomentumUpdaterHook):
        HOOKS.register(partial(cast("Any", _hook), _policy.__name__), name=f"{_policy.__name__}{_hook.__name__}")

# The hooks of a usual run by the words of their configs, and the priorities that mmcv gives them; None for their own.
_USUAL: dict[str, tuple[str, int | None]] = {
    "lr": ("LrUpdaterHook", 10),
    "momentum": ("MomentumUpdaterHook", 30),
    "optimizer": ("OptimizerHook", 40),
    "checkpoint": ("CheckpointHook", 50),
    "timer": ("IterTimerHook", 70),
}
_LOGGERS = 90

# The options of log_config that all loggers share.
_SHARED = ("interval", "by_epoch", "ignore_last", "priority")


def register_training_hooks(runner: Run, configs: Mapping[str, Config], log: Config, custom: Config) -> None:
    """Build and register all hooks; if one cannot be built or registered, none is."""
    rows = [_built(configs[word], *row, f"{word}_config") for word, row in _USUAL.items() if configs[word]]
    rows += [_built(config, None, _LOGGERS, "log_config") for config in _loggers(log, runner.by_epoch)]
    rows += [_built(config, None, None, "custom_hooks") for config in _listed(custom)]
    done: list[Any] = []
    try:
        for hook, priority, name in rows:
            done.append(runner.register_hook(hook, priority, name=name))  # until one is refused
    except BaseException:
        for hook in done:
            runner.remove_hook(hook)
        raise


def _built(config: Config, kind: str | None, priority: int | str | None, where: str) -> _Built:
    """Return a hook, its priority (of its config, else of mmcv's table, else None for its own) and its name, if any."""
    if not isinstance(config, (str, Mapping)):
        return config, priority, None
    given: dict[str, Any] = {"type": config} if isinstance(config, str) else dict(cast("Mapping[str, Any]", config))
    if kind is not None:
        given.setdefault("type", kind)
    priority = given.pop("priority", priority)
    try:
        hook, name = build_hook(given)
    except Exception as error:
        error.add_note(f"in {where}={outline(given)}")
        raise
    return hook, priority, name


def _loggers(config: Config, by_epoch: bool) -> list[Config]:
    """Return the configs of the loggers, each with the shared options; as in mmcv, they count as the run does."""
    if not config:
        return []
    if not isinstance(config, Mapping):
        return [_with({"by_epoch": by_epoch}, one) for one in _listed(config)]
    shared = {"by_epoch": by_epoch, **cast("Mapping[str, object]", config)}
    if "type" in shared:
        return [shared]
    hooks = _listed(shared.pop("hooks", [{"type": "TextLoggerHook"}]))
    for name in shared:
        if name not in _SHARED:
            raise ConfigError(
                f"log_config={outline(shared)}: {brief(name)} is unknown; the options are 'hooks', the loggers, and "
                f"those that they share: {', '.join(_SHARED)}{nearest(name, [*_SHARED, 'hooks'])}"
            )
    return [_with(shared, hook) for hook in hooks]


def _with(shared: dict[str, Any], config: Config) -> Config:
    if isinstance(config, str):
        return {"type": config, **shared}
    return {**shared, **cast("Mapping[str, Any]", config)} if isinstance(config, Mapping) else config


def _listed(given: Config) -> list[Config]:
    if given is None:
        return []
    if isinstance(given, (list, tuple)):
        return list(cast("list[Config]", given))
    return [given]
