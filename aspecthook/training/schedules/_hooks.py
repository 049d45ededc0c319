"""Hooks that set learning rates and momenta by a policy, and the step from a config to that policy.

Progress is counted in epochs or in steps of the optimizer, never in the batches that a step may be made of. What a
schedule needs to go on after a resume is in the run's own counters, and the values that it began with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from math import ceil, inf
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from aspecthook._errors import ConfigError, brief, nearest
from aspecthook.plugins._config import listed
from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._hook import HOOKS, Hook

from . import _policies as policies
from ._policies import OneCycle, Policy, checked

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

_POLICIES: dict[str, type[Any]] = {
    "fixed": policies.Fixed,
    "step": policies.Step,
    "exp": policies.Exp,
    "inv": policies.Inv,
    "poly": policies.Poly,
    "cosine_annealing": policies.CosineAnnealing,
    "linear_annealing": policies.LinearAnnealing,
    "flat_cosine": policies.FlatCosine,
    "cosine_restart": policies.CosineRestart,
    "cyclic": policies.Cyclic,
    "one_cycle": OneCycle,
}
# Without case and underscores, as mmcv writes `CosineAnnealing`; and by shorter and longer names.
_NAMES = {name.replace("_", ""): kind for name, kind in _POLICIES.items()} | {
    "cosine": policies.CosineAnnealing,
    "linear": policies.LinearAnnealing,
    "flatcosineannealing": policies.FlatCosine,
}
_BY_STEP_ALONE = (policies.Cyclic, OneCycle)
_OPTIONS = ("policy", "by_epoch", "warmup", "warmup_iters", "warmup_ratio", "warmup_by_epoch")
_MOMENTUM_DEFAULTS: dict[type, dict[str, Any]] = {
    policies.Step: {"gamma": 0.5},
    policies.Cyclic: {"target_ratio": (0.85 / 0.95, 1.0)},
}


class Course(NamedTuple):
    """A policy, and the value that it starts from; without one, the value that the parameter group has."""

    policy: Policy
    start: float | None = None


class _Updater(Hook):
    """What the schedules of learning rates and of momenta have in common."""

    word: ClassVar[str]
    first_ratio: ClassVar[float]

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
        ratio = self.first_ratio if warmup_ratio is None else warmup_ratio
        self.courses = courses_of(who, self.word, policy, options)
        self.policy = self.courses[0].policy
        self.by_epoch = by_epoch if by_epoch is None else checked(who, "by_epoch", by_epoch)
        if by_epoch and isinstance(self.policy, _BY_STEP_ALONE):
            raise ConfigError(f"{who}: {brief(policy)} goes by steps alone; leave by_epoch out, or give False")
        if warmup is not None:  # else the rest means nothing, and is often left over from another config
            checked(who, "warmup", warmup)
            checked(who, "warmup_iters", warmup_iters)
            checked(who, "warmup_ratio", ratio)
            checked(who, "warmup_by_epoch", warmup_by_epoch)
        self.warmup, self.warmup_iters = warmup, warmup_iters
        self.warmup_ratio, self.warmup_by_epoch = ratio, warmup_by_epoch
        self._starts: list[float] = []
        self._loaded: list[float] | None = None
        self._end: float | None = None  # of the run, as the policy counts; found when the data are known
        self._by_epoch: bool | None = None

    def before_run(self, runner: Runner) -> None:
        """Keep the values to start from, in the parameter groups too."""
        self._end = None
        by_epoch = runner.max_epochs is not None and not isinstance(self.policy, _BY_STEP_ALONE)
        self._by_epoch = by_epoch if self.by_epoch is None else self.by_epoch
        self._settle(runner)
        if self._by_epoch:
            self._begin(runner)

    def before_train_epoch(self, runner: Runner) -> None:
        """Set the values of this epoch, if the policy goes by epochs."""
        if self._by_epoch is None:  # the hook was registered in the middle of a run
            self.before_run(runner)
        if self._by_epoch:
            self._set(runner, 1.0)

    def before_train_iter(self, runner: Runner) -> None:
        """Set the values of this step, if the policy goes by steps or the warm-up is not over."""
        if self._by_epoch is None:
            self.before_train_epoch(runner)
        if not self._by_epoch or (self.warmup is not None and runner.step <= self._warmup_end(runner)):
            self._set(runner, self._factor(runner))

    def state_dict(self) -> dict[str, Any]:
        """Give the values that the schedule started from, one for each parameter group."""
        return {self._key: list(self._starts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Start from what a run that is resumed has started from; it is taken over at the next epoch or step."""
        self._loaded = list(map(float, state.get(self._key, ()))) or None

    @property
    def _key(self) -> str:
        return f"initial_{self.word}"

    def _settle(self, runner: Runner) -> None:
        groups: list[dict[str, Any]] = runner.optimizer.param_groups
        several = self.courses if len(self.courses) > 1 else None
        for what, rows in ((f"max_{self.word} has", several), ("the checkpoint has", self._loaded)):
            if rows is not None and len(rows) != len(groups):
                raise TrainingError(
                    f"{type(self).__name__}: {what} values for {len(rows)} parameter groups, and the optimizer has "
                    f"{len(groups)}; make them as many"
                )
        self._starts, self._loaded = [self._start(group, place) for place, group in enumerate(groups)], None
        for group, start in zip(groups, self._starts, strict=True):
            group[self._key] = start

    def _start(self, group: dict[str, Any], place: int) -> float:
        given = self._course(place).start
        if given is not None:
            return given
        if self._loaded is not None:
            return self._loaded[place]
        return float(group[self._key] if self._key in group else self._value(group, place))

    def _course(self, place: int) -> Course:
        return self.courses[place if len(self.courses) > 1 else 0]

    def _begin(self, runner: Runner) -> float:
        """Find the end of the run, and refuse now what the policy would refuse at its first or last value."""
        self._end = end = (runner.max_epochs or inf) if self._by_epoch else _steps(runner, _total(runner))
        for place, start in enumerate(self._starts):
            for progress in (0, end - 1) if end < inf else (0,):
                try:
                    self._course(place).policy(start, progress, end)
                except ConfigError as error:
                    raise ConfigError(f"{type(self).__name__}: {error}") from None
        return end

    def _factor(self, runner: Runner) -> float:
        if self.warmup is None:
            return 1.0
        return policies.warmup(self.warmup, runner.step, self._warmup_end(runner), self.warmup_ratio)

    def _warmup_end(self, runner: Runner) -> float:
        if not self.warmup_by_epoch:
            return self.warmup_iters
        return _steps(runner, self.warmup_iters * _length(runner, "warmup_by_epoch=True"))

    def _set(self, runner: Runner, factor: float) -> None:
        if self._loaded is not None:
            self._settle(runner)
        end = self._begin(runner) if self._end is None else self._end
        progress = runner.epoch if self._by_epoch else runner.step
        for place, group in enumerate(runner.optimizer.param_groups):
            regular = self._course(place).policy(self._starts[place], progress, end)
            self._put(group, regular, factor)

    def _value(self, group: dict[str, Any], place: int) -> Any:
        raise NotImplementedError

    def _put(self, group: dict[str, Any], regular: float, factor: float) -> None:
        raise NotImplementedError


@HOOKS.register
class LrUpdaterHook(_Updater):
    """Sets the learning rates of all parameter groups by a policy, with a warm-up.

    What each group started from is kept in it as ``initial_lr``, as mmcv and PyTorch do.

    Args:
        policy: ``fixed``, ``step``, ``exp``, ``inv``, ``poly``, ``cosine_annealing``, ``linear_annealing``,
            ``flat_cosine``, ``cosine_restart``, ``cyclic`` or ``one_cycle``, in mmcv's spelling too; or a `Policy`.
        by_epoch: Set them once in each epoch, else in each step. Unless given: by epoch where the run has
            `max_epochs`, and the policy can.
        warmup: ``"constant"``, ``"linear"``, ``"exp"`` or None: what the values of the first steps are multiplied by.
        warmup_iters: How many steps (not batches, where several make one) the warm-up has.
        warmup_ratio: The factor at the first step; 0.1 unless given.
        warmup_by_epoch: Whether `warmup_iters` counts epochs.
        **options: Those of the policy, see `aspecthook.training.schedules`; with ``min_lr`` and ``min_lr_ratio`` for
            ``min_value`` and ``min_ratio``. ``one_cycle`` takes ``max_lr``, one or a list of one for each group.

    Raises:
        ConfigError: There is no such policy or option, it is missing, or its value is of no use; the message says what
            to give.

    Example:
        >>> hook = LrUpdaterHook(policy="step", step=[8, 11], warmup="linear", warmup_iters=500, warmup_ratio=0.001)
        >>> hook.policy
        Step(step=(8, 11), gamma=0.1, min_value=None)
        >>> LrUpdaterHook("CosineAnnealing", min_lr_ratio=0.01, by_epoch=False).policy
        CosineAnnealing(min_value=None, min_ratio=0.01)
        >>> LrUpdaterHook("exp", gama=0.9)
        Traceback (most recent call last):
          ...
        aspecthook.ConfigError: LrUpdaterHook: the policy 'exp' takes no 'gama'; ...; did you mean 'gamma'?
    """

    priority = "VERY_HIGH"
    word = "lr"
    first_ratio = 0.1

    def _value(self, group: dict[str, Any], place: int) -> Any:
        if "lr" not in group:
            raise TrainingError(
                f"parameter group {place} of the optimizer has no 'lr'; give it one, or take this hook off"
            )
        return group["lr"]

    def _put(self, group: dict[str, Any], regular: float, factor: float) -> None:
        old: Any = group.get("lr")
        if hasattr(old, "fill_"):  # a tensor is what a compiled or captured step goes on reading
            old.fill_(regular * factor)
        else:
            group["lr"] = regular * factor


@HOOKS.register
class MomentumUpdaterHook(_Updater):
    """Sets the momentum of all parameter groups (or the first of their ``betas``) by a policy.

    A warm-up divides by the factors by which that of the learning rate multiplies, so that the momentum begins high;
    where that is above 1, give a `warmup_ratio` nearer to 1.

    Args:
        policy: As in `LrUpdaterHook`.
        by_epoch: As in `LrUpdaterHook`.
        warmup: As in `LrUpdaterHook`.
        warmup_iters: As in `LrUpdaterHook`.
        warmup_ratio: What the first step divides by; 0.9 unless given.
        warmup_by_epoch: As in `LrUpdaterHook`.
        **options: Those of the policy; with ``min_momentum`` and ``min_momentum_ratio`` for ``min_value`` and
            ``min_ratio``. ``one_cycle`` takes ``max_momentum`` (0.95), where it begins and ends, and ``base_momentum``
            (0.85), where the learning rate is highest; each one, or a list of one for each group.

    Raises:
        ConfigError: As in `LrUpdaterHook`.

    Example:
        >>> MomentumUpdaterHook(policy="cyclic", cyclic_times=2).policy
        Cyclic(target_ratio=(0.894..., 1.0), cyclic_times=2, step_ratio_up=0.4, anneal_strategy='cos', gamma=1.0)
    """

    priority = "HIGH"
    word = "momentum"
    first_ratio = 0.9

    def _value(self, group: dict[str, Any], place: int) -> Any:
        if "momentum" not in group and "betas" not in group:
            raise TrainingError(
                f"parameter group {place} of the optimizer has neither 'momentum' nor 'betas'; take an optimizer that "
                "has, or take this hook off"
            )
        return group["momentum"] if "momentum" in group else group["betas"][0]

    def _put(self, group: dict[str, Any], regular: float, factor: float) -> None:
        if "momentum" in group:
            group["momentum"] = regular / factor
        else:
            group["betas"] = (regular / factor, *group["betas"][1:])


def courses_of(who: str, word: str, policy: object, options: Mapping[str, Any]) -> list[Course]:
    """Make the policy that a config means: one for all parameter groups, or one for each.

    Args:
        who: What the messages begin with.
        word: ``"lr"`` or ``"momentum"``.
        policy: Its name, or itself.
        options: Its options, as a config has them.

    Raises:
        ConfigError: There is no such policy or option, it is missing, or its value is of no use.
    """
    if not isinstance(policy, str):
        if not callable(policy) or isinstance(policy, type):
            raise ConfigError(f"{who}: the policy is {brief(policy)}; give the name of one, or a function")
        if options:
            raise ConfigError(f"{who}: {brief(policy)} has its options already; leave out {listed(options)}")
        return [Course(cast("Policy", policy))]
    kind = _NAMES.get("".join(filter(str.isalpha, policy)).lower())
    if kind is None:
        hint = nearest(policy.lower(), [*_POLICIES])
        raise ConfigError(f"{who}: there is no policy {policy!r}; what there is: {listed(_POLICIES)}{hint}")
    who = f"{who}: the policy {policy!r}"
    if kind is OneCycle:
        return _cycles_of_lr(who, options) if word == "lr" else _cycles_of_momentum(who, options)
    words = {"min_value": f"min_{word}", "min_ratio": f"min_{word}_ratio"}
    own = {words.get(field.name, field.name): field.name for field in fields(kind)}
    needed = [key for key, field in zip(own, fields(kind), strict=True) if field.default is MISSING]
    _check_names(who, options, [*own], needed)
    given = _MOMENTUM_DEFAULTS.get(kind, {}) if word == "momentum" else {}
    return [Course(_made(who, kind, given | {own[key]: value for key, value in options.items()}, words))]


def _cycles_of_lr(who: str, options: Mapping[str, Any]) -> list[Course]:
    _check_names(who, options, ["max_lr", *[field.name for field in fields(OneCycle)]], ["max_lr"])
    rest = dict(options)
    highs = _each(who, "max_lr", rest.pop("max_lr"))
    policy = _made(who, OneCycle, rest)
    return [Course(policy, high / policy.div_factor) for high in highs]


def _cycles_of_momentum(who: str, options: Mapping[str, Any]) -> list[Course]:
    own = {"base_momentum": 0.85, "max_momentum": 0.95}
    _check_names(who, options, [*own, "pct_start", "anneal_strategy", "three_phase", "total_steps"], [])
    rest = {**own, **options}
    lows, highs = (_each(who, name, rest.pop(name)) for name in ("base_momentum", "max_momentum"))
    most = max(len(lows), len(highs))
    if not {len(lows), len(highs)} <= {1, most}:
        raise ConfigError(f"{who}: base_momentum has {len(lows)} values and max_momentum {len(highs)}; give as many")
    rows = zip(lows * (most // len(lows)), highs * (most // len(highs)), strict=True)
    return [
        Course(_made(who, OneCycle, rest | {"div_factor": low / high, "final_div_factor": 1.0}), high)
        for low, high in rows
    ]


def _each(who: str, name: str, value: Any) -> list[float]:
    values = checked(f"{who}: OneCycle", name, value)
    return [*map(float, values)] if isinstance(value, (list, tuple)) else [float(values)]


def _check_names(who: str, options: Iterable[str], takes: list[str], needs: list[str]) -> None:
    for key in options:
        if key not in takes:
            raise ConfigError(
                f"{who} takes no {key!r}; what it takes: {listed(takes)}{nearest(key, [*takes, *_OPTIONS])}"
            )
    for key in needs:
        if key not in options:
            raise ConfigError(f"{who} needs {key!r}; add it")


def _made(who: str, kind: type[Any], options: Mapping[str, Any], words: Mapping[str, str] | None = None) -> Any:
    try:
        return kind(**options)
    except ConfigError as error:
        text = str(error)
        for name, word in (words or {}).items():  # as the user has written it
            text = text.replace(name, word)
        raise ConfigError(f"{who}: {text}") from None


def _total(runner: Runner) -> float:
    """Give how many batches a run trains on."""
    if runner.max_iters is not None:
        return runner.max_iters
    return inf if runner.max_epochs is None else runner.max_epochs * _length(runner, "a schedule by steps")


def _length(runner: Runner, what: str) -> int:
    try:
        return len(runner.data_loader)
    except TypeError:
        raise TrainingError(
            f"{what} must know how many batches an epoch has, and {brief(runner.data_loader)} has no length; give it "
            "one, or the run max_iters"
        ) from None


def _steps(runner: Runner, batches: float) -> float:
    return batches if batches == inf else ceil(batches / runner.accumulate)
