"""Hooks that set learning rates and momenta by a policy.

Progress is counted in epochs, or in steps of the optimizer rather than the batches that make up a step. A schedule has
no state: the values that it started from are in the parameter groups, which the state of the optimizer has.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Any, ClassVar

from aspecthook._errors import ConfigError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._run import Run

from ._options import BY_STEP, Policy, check, policies_of
from ._policies import warmup as warmup_factor


class _Updater(Hook):
    """The schedule of one value of each parameter group; subclasses read and write the value."""

    word: ClassVar[str]
    default_ratio: ClassVar[float]  # of the warm-up

    # Any: the options are those of the policy.
    def __init__(
        self,
        policy: str | Policy = "step",
        *,
        by_epoch: bool | None = None,
        warmup: str | None = None,
        warmup_iters: int = 0,
        warmup_ratio: float | None = None,
        warmup_by_epoch: bool = False,
        **options: Any,
    ) -> None:
        who = type(self).__name__
        ratio = self.default_ratio if warmup_ratio is None else warmup_ratio
        self._name, self._policies = policies_of(who, self.word, policy, options)
        # As text, which the settings of a run show.
        said = ", ".join(f"{key}={value}" for key, value in options.items())
        self.policy: str = f"{self._name}({said})" if isinstance(policy, str) else brief(policy)
        if by_epoch is not None:
            check(who, "by_epoch", by_epoch)
        if by_epoch and self._name in BY_STEP:
            raise ConfigError(f"{who}: {self._name} only counts steps; leave by_epoch out, or give False")
        if warmup is not None:  # otherwise the other options have no effect; a config may have inherited them
            given = {"warmup": warmup, "warmup_iters": warmup_iters, "warmup_ratio": ratio}
            for option, value in {**given, "warmup_by_epoch": warmup_by_epoch}.items():
                check(who, option, value)
        self.by_epoch = by_epoch
        self.warmup = warmup
        self.warmup_iters = warmup_iters
        self.warmup_ratio: float = ratio
        self.warmup_by_epoch = warmup_by_epoch
        self._end: float | None = None  # of the run, in epochs or steps; it changes with the length of the data
        self._counts_epochs: bool | None = None

    def before_run(self, runner: Run) -> None:
        """Keep the values that the schedule starts from in the parameter groups, and so in checkpoints."""
        self._end = None
        by_epoch = runner.max_epochs is not None and self._name not in BY_STEP
        self._counts_epochs = by_epoch if self.by_epoch is None else self.by_epoch
        groups: list[dict[str, Any]] = runner.optimizer.param_groups
        if len(self._policies) not in (1, len(groups)):
            raise TrainingError(
                f"{type(self).__name__}: max_{self.word} has values for {len(self._policies)} parameter groups, and "
                f"the optimizer has {len(groups)}; give equally many"
            )
        for place, group in enumerate(groups):
            self._start(group, place)
        if self._counts_epochs:  # otherwise the end depends on the length of the data, which an epoch begins with
            self._find_end(runner)

    def before_train_epoch(self, runner: Run) -> None:
        """Set the values of this epoch, if the schedule counts epochs."""
        if self._counts_epochs is None:  # the hook was registered in the middle of a run
            self.before_run(runner)
        if self._counts_epochs:
            self._set(runner, 1.0)

    def before_train_iter(self, runner: Run) -> None:
        """Set the values of this step, if the schedule counts steps or the warm-up is not over."""
        if self._counts_epochs is None:
            self.before_train_epoch(runner)
        if self.warmup is not None:
            length: float = self.warmup_iters
            if self.warmup_by_epoch:
                length = ceil(length * _length(runner, "warmup_by_epoch=True") / runner.accumulate)
            if runner.step <= length:
                self._set(runner, warmup_factor(self.warmup, runner.step, length, self.warmup_ratio))
                return
        if not self._counts_epochs:
            self._set(runner, 1.0)

    def _start(self, group: dict[str, Any], place: int) -> float:
        """Return the value that a group started from, which it keeps, and the optimizer's state with it."""
        key = f"initial_{self.word}"
        if key not in group:
            group[key] = float(self._value(group, place))
        start: float = group[key]
        return start

    def _find_end(self, runner: Run) -> float:
        """Return where the run ends, and compute the first and the last value, so that errors are raised now."""
        end = (runner.max_epochs or inf) if self._counts_epochs else _steps(runner)
        if end != self._end:
            self._end = end
            for place, group in enumerate(runner.optimizer.param_groups):
                for progress in (0, end - 1) if end < inf else (0,):
                    try:
                        self._regular(group, place, progress, end)
                    except ConfigError as error:
                        raise ConfigError(f"{type(self).__name__}: {self.policy}: {error}") from None
        return end

    def _regular(self, group: dict[str, Any], place: int, progress: float, end: float) -> float:
        """Return the value of a parameter group without the warm-up."""
        policy = self._policies[place if len(self._policies) > 1 else 0]
        return policy(self._start(group, place), progress, end)

    def _set(self, runner: Run, factor: float) -> None:
        end = self._find_end(runner)
        progress = runner.epoch if self._counts_epochs else runner.step
        for place, group in enumerate(runner.optimizer.param_groups):
            self._put(group, self._regular(group, place, progress, end), factor)

    def _value(self, group: dict[str, Any], place: int) -> Any:
        raise NotImplementedError

    def _put(self, group: dict[str, Any], regular: float, factor: float) -> None:
        raise NotImplementedError


@HOOKS.register
class LrUpdaterHook(_Updater):
    """Set the learning rates of all parameter groups by a policy, with a warm-up.

    The value that a group started from is kept in it as ``initial_lr``, as in mmcv and PyTorch.

    Args:
        policy: The name of a policy, such as ``"step"`` or ``"cosine_annealing"``, in mmcv's spelling too; or a
            function of the value to start from, the progress and the maximum (infinite if the run has no end).
        by_epoch: Set the values once in each epoch; otherwise in each step. Unless given: by epoch, if the run has
            `max_epochs` and the policy can count epochs.
        warmup: ``"constant"``, ``"linear"``, ``"exp"`` or None: how the first steps approach the policy's values.
        warmup_iters: The length of the warm-up, in steps (not in the batches that make up a step).
        warmup_ratio: The factor of the first step; 0.1 unless given.
        warmup_by_epoch: `warmup_iters` counts epochs.
        **options: The options of the policy. Where mmcv has ``min_lr`` and ``min_lr_ratio``, exactly one is given.
            ``one_cycle`` takes ``max_lr``, one or a list of one for each group.

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
    word = "lr"
    default_ratio: ClassVar[float] = 0.1

    def _value(self, group: dict[str, Any], place: int) -> Any:
        if "lr" not in group:
            raise TrainingError(
                f"parameter group {place} of the optimizer has no 'lr'; give it one, or leave this hook out"
            )
        return group["lr"]

    def _put(self, group: dict[str, Any], regular: float, factor: float) -> None:
        old: Any = group.get("lr")
        if hasattr(old, "fill_"):  # a tensor, which a compiled or captured step reads again
            old.fill_(regular * factor)
        else:
            group["lr"] = regular * factor


@HOOKS.register
class MomentumUpdaterHook(_Updater):
    """Set the momentum of all parameter groups (or the first of their ``betas``) by a policy, with a warm-up.

    The warm-up divides the momentum by the factors that multiply the learning rate, so the momentum starts high. If
    that makes it greater than 1, give a `warmup_ratio` nearer to 1.

    Args:
        policy, by_epoch, warmup, warmup_iters, warmup_by_epoch: As in `LrUpdaterHook`.
        warmup_ratio: The divisor of the first step; 0.9 unless given.
        **options: The options of the policy, with ``min_momentum`` and ``min_momentum_ratio``. ``one_cycle`` takes
            ``max_momentum`` (0.95), the value at the start and the end, and ``base_momentum`` (0.85), the value where
            the learning rate is highest; each one, or one for each group.

    Example:
        >>> MomentumUpdaterHook(policy="cyclic", cyclic_times=2).policy
        'cyclic(cyclic_times=2)'
    """

    priority: int | str = "HIGH"
    word = "momentum"
    default_ratio: ClassVar[float] = 0.9

    def _value(self, group: dict[str, Any], place: int) -> Any:
        if "momentum" not in group and "betas" not in group:
            raise TrainingError(
                f"parameter group {place} of the optimizer has neither 'momentum' nor 'betas'; choose an "
                "optimizer that has, or leave this hook out"
            )
        return group["momentum"] if "momentum" in group else group["betas"][0]

    def _put(self, group: dict[str, Any], regular: float, factor: float) -> None:
        if "momentum" in group:
            group["momentum"] = regular / factor
        else:
            group["betas"] = (regular / factor, *group["betas"][1:])


def _steps(runner: Run) -> float:
    """Return the number of steps of a run, each of which may be made of several batches."""
    if runner.max_iters is not None:
        return ceil(runner.max_iters / runner.accumulate)
    if runner.max_epochs is None:
        return inf
    return ceil(runner.max_epochs * _length(runner, "a schedule by steps") / runner.accumulate)


def _length(runner: Run, what: str) -> int:
    try:
        return len(runner.data_loader)
    except TypeError:
        raise TrainingError(
            f"{what} must know how many batches an epoch has, but {brief(runner.data_loader)} has no length; give it "
            "one, or give the run max_iters"
        ) from None
