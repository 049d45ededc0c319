"""Hooks that set learning rates and momenta by a policy, and mmcv's way to register all hooks of a usual run.

Progress is counted in epochs or in steps of the optimizer, each of which may be made of several batches. A schedule has
no state of its own: the values that it started from are in the parameter groups, and so in the state of the optimizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from math import ceil, inf
from typing import Any, ClassVar, cast

from aspecthook._errors import ConfigError
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._runner import Runner

from ._policies import BY_STEP, check, policy_of
from ._policies import warmup as warmup_factor


@HOOKS.register
class LrUpdaterHook(Hook):
    """Set the learning rates of all parameter groups by a policy, with a warm-up.

    The value that a group started from is kept in it as ``initial_lr``, as in mmcv and PyTorch.

    Args:
        policy: The name of a policy, such as ``"step"`` or ``"cosine_annealing"``, in mmcv's spelling too.
        by_epoch: Whether to set the values once per epoch; otherwise in each step. The default is by epoch if the run
            has `max_epochs` and the policy can count epochs.
        warmup: ``"constant"``, ``"linear"``, ``"exp"`` or None: how the first steps approach the policy's values.
        warmup_iters: The length of the warm-up, in steps (not in the batches that make up a step).
        warmup_ratio: The factor of the first step; by default 0.1.
        **options: The options of the policy. If the policy takes ``min_lr`` and ``min_lr_ratio``, give exactly one of
            them.

    Raises:
        ConfigError: There is no such policy, or an option is unknown, missing or has an impossible value.

    Example:
        >>> hook = LrUpdaterHook(policy="step", step=[8, 11], warmup="linear", warmup_iters=500, warmup_ratio=0.001)
        >>> hook.policy
        'step(step=[8, 11])'
        >>> LrUpdaterHook("exp", gama=0.9)
        Traceback (most recent call last):
          ...
        aspecthook.ConfigError: LrUpdaterHook: the policy 'exp' takes no 'gama'; ...; did you mean 'gamma'?
    """

    priority: int | str = "VERY_HIGH"
    _word: ClassVar[str] = "lr"
    _ratio: ClassVar[float] = 0.1  # of the warm-up, unless another is given

    # Any: the options are those of the policy.
    def __init__(
        self,
        policy: str = "step",
        *,
        by_epoch: bool | None = None,
        warmup: str | None = None,
        warmup_iters: int = 0,
        warmup_ratio: float | None = None,
        **options: Any,
    ) -> None:
        who = type(self).__name__
        self._name, self._policy = policy_of(who, self._word, policy, options)
        self.policy: str = f"{self._name}({', '.join(f'{key}={value}' for key, value in options.items())})"
        self.by_epoch: bool | None = None if by_epoch is None else flag(who, "by_epoch", by_epoch)
        self.warmup = warmup
        self.warmup_iters = warmup_iters
        self.warmup_ratio: float = self._ratio if warmup_ratio is None else warmup_ratio
        if warmup is not None:  # otherwise its options have no effect, and a config may have inherited them
            for option in ("warmup", "warmup_iters", "warmup_ratio"):
                check(who, option, getattr(self, option))
        if by_epoch and self._name in BY_STEP:
            raise ConfigError(f"{who}: {self._name} only counts steps; leave by_epoch out, or give False")

    def before_train_epoch(self, runner: Runner) -> None:
        """Set the values of this epoch, if the schedule counts epochs. At its end the last warm-up is not undone."""
        if self._counts_epochs(runner) and runner.progress.inner_iter != runner.progress.length:
            self._set(runner, 1.0)

    def before_train_iter(self, runner: Runner) -> None:
        """Set the values of this step, if the schedule counts steps or the warm-up is not over."""
        if self.warmup is not None and runner.step <= self.warmup_iters:
            self._set(runner, warmup_factor(self.warmup, runner.step, self.warmup_iters, self.warmup_ratio))
        elif not self._counts_epochs(runner):
            self._set(runner, 1.0)

    def _counts_epochs(self, runner: Runner) -> bool:
        if self.by_epoch is not None:
            return self.by_epoch
        return runner.max_epochs is not None and self._name not in BY_STEP

    def _set(self, runner: Runner, factor: float) -> None:
        """Set the values of all groups, multiplied by the factor of the warm-up."""
        if self._counts_epochs(runner):
            progress, end = runner.epoch, runner.max_epochs or inf
        else:
            # The number of steps, each of which may be made of several batches; unknown if an epoch has no length.
            progress, end = runner.step, inf if runner.max_iters is None else ceil(runner.max_iters / runner.accumulate)
        key = f"initial_{self._word}"
        for place, group in enumerate(runner.optimizer.param_groups):
            if key not in group:
                value = self._read(group)
                if value is None:
                    raise TrainingError(
                        f"parameter group {place} of the optimizer has no {self._word!r}; choose an optimizer that has "
                        "one, or leave this hook out"
                    )
                group[key] = float(value)
            try:
                regular = self._policy(group[key], progress, end)
            except ConfigError as error:
                raise ConfigError(f"{type(self).__name__}: {self.policy}: {error}") from None
            self._write(group, regular, factor)

    def _read(self, group: dict[str, Any]) -> Any:
        return group.get("lr")

    def _write(self, group: dict[str, Any], regular: float, factor: float) -> None:
        old: Any = group.get("lr")
        if hasattr(old, "fill_"):  # a tensor, which a compiled or captured step reads again
            old.fill_(regular * factor)
        else:
            group["lr"] = regular * factor


@HOOKS.register
class MomentumUpdaterHook(LrUpdaterHook):
    """Set the momentum of all parameter groups (or the first of their ``betas``) as `LrUpdaterHook` sets the rates.

    The warm-up divides the momentum by the factors that multiply the learning rate, so the momentum starts high. If
    that makes it greater than 1, give a `warmup_ratio` nearer to 1; the default is 0.9. The options of policies are
    ``min_momentum`` and ``min_momentum_ratio``. ``one_cycle`` takes ``max_momentum`` (0.95), the value at the start and
    the end, and ``base_momentum`` (0.85), the value where the learning rate is highest.

    Example:
        >>> MomentumUpdaterHook(policy="cyclic", cyclic_times=2).policy
        'cyclic(cyclic_times=2)'
    """

    priority: int | str = "HIGH"
    _word = "momentum"
    _ratio = 0.9

    def _read(self, group: dict[str, Any]) -> Any:
        return group.get("momentum", group.get("betas", (None,))[0])

    def _write(self, group: dict[str, Any], regular: float, factor: float) -> None:
        if "momentum" in group:
            group["momentum"] = regular / factor
        else:
            group["betas"] = (regular / factor, *group["betas"][1:])


# The classes of the hooks of a usual run. Their own priorities are those that mmcv gives them.
_USUAL = ("LrUpdaterHook", "MomentumUpdaterHook", "OptimizerHook", "CheckpointHook", "IterTimerHook")


# Any: a config, or a hook of any class.
def register_training_hooks(runner: Runner, usual: Sequence[Any], log: Any, custom: Iterable[Any] | None) -> None:
    """Register the hooks of a usual run, each from its config, the loggers and others; all of them, or none.

    As in mmcv, the loggers share the options that `log` has beside its ``"hooks"``, and count as the run does.
    """
    configs = [_filled(config, {"type": kind}) for kind, config in zip(_USUAL, usual, strict=True) if config]
    if log:
        shared: dict[str, Any] = {"by_epoch": runner.by_epoch, **log}
        loggers = shared.pop("hooks", ["TextLoggerHook"])
        configs += [_filled(logger, shared) for logger in loggers]
    with ExitStack() as undo:
        for config in (*configs, *(custom or ())):
            undo.callback(runner.remove_hook, runner.register_hook(config))
        undo.pop_all()


def _filled(config: Any, defaults: Mapping[str, Any]) -> Any:
    """Return a config with defaults for the keys that it lacks; a hook is returned as it is."""
    if isinstance(config, str):
        return {**defaults, "type": config}
    return {**defaults, **cast("Mapping[str, Any]", config)} if isinstance(config, Mapping) else config
