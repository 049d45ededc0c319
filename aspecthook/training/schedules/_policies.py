"""The policies: pure functions that return the value of a learning rate or a momentum at a point of a run.

A policy is called with the value it starts from (b), the progress (p) and the maximum (P), both in epochs or both in
steps. It keeps no state, so a resumed run continues exactly. Beyond the maximum, a value that depends on it stays what
it was there. The formulas are those of mmcv 1.7, `lr_updater.py`, which has a class of the same name for each policy;
``cos(s, e, f, w=1)`` in them is ``e + w/2 (s − e)(1 + cos πf)``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise
from math import cos, inf, pi
from typing import Any, ClassVar, cast

from aspecthook._errors import ConfigError, brief

from ._policy import (
    PEAKS,
    BasePolicy,
    Count,
    Course,
    Flag,
    Milestones,
    NotNegative,
    Periods,
    Positive,
    Ratios,
    Share,
    Strategy,
    Weights,
    check_names,
    policy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Annealed(BasePolicy):
    """A policy that ends at a target t: `min_value`, or `min_ratio` times b; exactly one of them is given."""

    min_value: NotNegative | None = None
    min_ratio: NotNegative | None = None

    def __post_init__(self) -> None:
        if (self.min_value is None) == (self.min_ratio is None):
            raise ConfigError(
                f"{type(self).__name__} is given {'neither' if self.min_value is None else 'both'} of min_value and "
                "min_ratio; give exactly one: the value at the end, or its ratio to the value at the start"
            )
        BasePolicy.__post_init__(self)  # not super(): with slots, dataclass has made another class

    def target(self, base: float) -> float:
        """Return the value at the end."""
        return base * self.min_ratio if self.min_ratio is not None else cast("float", self.min_value)


@policy()
class Fixed(BasePolicy):
    """Constant: ``b``.

    Example:
        >>> Fixed()(0.1, 50, 100)
        0.1
    """

    def __call__(self, base: float, _progress: float, _maximum: float = inf, /) -> float:
        return base


@policy()
class Step(BasePolicy):
    """Falls in steps: ``b gamma^k``, but not below a minimum.

    Args:
        step: A number s from 1 up, and ``k = p // s``; or milestones, and k is the number of those that are ``<= p``.
        gamma: The factor of each step.
        min_value: The least value.

    Raises:
        ConfigError: An option has an impossible value; this holds for all policies.

    Example:
        >>> drop = Step(step=[8, 11], gamma=0.5)
        >>> drop(0.8, 7, 12), drop(0.8, 8, 12), drop(0.8, 11, 12)
        (0.8, 0.4, 0.2)
    """

    step: Milestones
    gamma: NotNegative = 0.1
    min_value: NotNegative | None = None

    momentum_defaults: ClassVar[Mapping[str, Any]] = {"gamma": 0.5}

    def __post_init__(self) -> None:
        BasePolicy.__post_init__(self)
        if isinstance(self.step, Sequence):
            object.__setattr__(self, "step", tuple(sorted(self.step)))

    def __call__(self, base: float, progress: float, _maximum: float = inf, /) -> float:
        step = self.step
        passed = bisect_right(step, progress) if isinstance(step, Sequence) else progress // step
        value = base * self.gamma**passed
        return value if self.min_value is None else max(value, self.min_value)


@policy()
class Exp(BasePolicy):
    """Falls by a factor in each epoch or step: ``b gamma^p``.

    Example:
        >>> Exp(gamma=0.5)(0.8, 3)
        0.1
    """

    gamma: NotNegative

    def __call__(self, base: float, progress: float, _maximum: float = inf, /) -> float:
        return float(base * self.gamma**progress)


@policy()
class Inv(BasePolicy):
    """Falls as an inverse power: ``b (1 + gamma p)^−power``.

    Example:
        >>> Inv(gamma=1, power=2)(0.5, 4)
        0.02
    """

    gamma: NotNegative
    power: NotNegative = 1.0

    def __call__(self, base: float, progress: float, _maximum: float = inf, /) -> float:
        return float(base * (1 + self.gamma * progress) ** -self.power)


@policy()
class Poly(BasePolicy):
    """Falls as a power of the remaining part: ``(b − m)(1 − p/P)^power + m``, where m is `min_value`.

    Example:
        >>> Poly(power=2)(0.4, 5, 10)
        0.1
    """

    power: NotNegative = 1.0
    min_value: NotNegative = 0.0

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        left = (1 - _part(progress, maximum)) ** self.power
        return float((base - self.min_value) * left + self.min_value)


@policy("cosine")
class CosineAnnealing(_Annealed):
    """Falls along half a cosine: ``cos(b, t, p/P)``; arXiv:1608.03983.

    Args:
        min_value: t; or
        min_ratio: t divided by b. Give exactly one of them; this holds for all policies that have both.

    Example:
        >>> round(CosineAnnealing(min_value=0)(0.4, 5, 10), 12)
        0.2
    """

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        return _cosine(base, self.target(base), _part(progress, maximum))


@policy("linear")
class LinearAnnealing(_Annealed):
    """Falls along a straight line: ``b + (t − b) p/P``.

    Example:
        >>> LinearAnnealing(min_ratio=0.5)(1.0, 5, 10)
        0.75
    """

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        return _linear(base, self.target(base), _part(progress, maximum))


@policy("flat_cosine")
class FlatCosineAnnealing(_Annealed):
    """Constant at first, then falls along half a cosine; after fastai's `fit_flat_cos`.

    With ``start = round(P · start_percent)``: b before that, then ``cos(b, t, (p − start)/(P − start))``. (`round` is
    Python's, which rounds a half to the even number.)

    Example:
        >>> late = FlatCosineAnnealing(start_percent=0.75, min_value=0)
        >>> late(0.4, 74, 100), late(0.4, 100, 100)
        (0.4, 0.0)
    """

    start_percent: Share = 0.75

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        start = round(_known(maximum) * self.start_percent)
        if progress < start:
            return base
        return _cosine(base, self.target(base), _part(progress - start, maximum - start))


@policy()
class CosineRestart(_Annealed):
    """Falls along half a cosine in each period: ``cos(b, t, (p − start)/period, weight)``; arXiv:1608.03983.

    A period starts at ``t + weight (b − t)``.

    Args:
        periods: The length of each period, in epochs or steps.
        restart_weights: The weight of each period.
        min_value: t; or
        min_ratio: t divided by b.

    Raises:
        ConfigError: (when called) p is beyond the last period.

    Example:
        >>> again = CosineRestart(periods=[10, 20], restart_weights=[1, 0.5], min_value=0)
        >>> again(0.4, 0), again(0.4, 10)
        (0.4, 0.2)
    """

    periods: Periods
    restart_weights: Weights = (1.0,)

    def __post_init__(self) -> None:
        _Annealed.__post_init__(self)
        if len(self.periods) != len(self.restart_weights):
            raise ConfigError(
                f"CosineRestart has {len(self.periods)} periods and {len(self.restart_weights)} restart_weights; give "
                "equally many"
            )

    def __call__(self, base: float, progress: float, _maximum: float = inf, /) -> float:
        begins = tuple(accumulate(self.periods, initial=0))
        if progress >= begins[-1]:
            raise ConfigError(
                f"CosineRestart(periods={brief(self.periods)}): the last period ends at {begins[-1]}, and the run goes "
                f"on to {progress}; add one, or lengthen it"
            )
        place = bisect_right(begins, progress) - 1
        part = _part(progress - begins[place], self.periods[place])
        return _cosine(base, self.target(base), part, self.restart_weights[place])


@policy()
class Cyclic(BasePolicy):
    """Rises and falls in cycles, by steps; after arXiv:1506.01186.

    With ``period = P // cyclic_times`` and ``up = int(step_ratio_up · period)``: from b to ``high · b`` in the first
    `up` steps of a period, then to ``low · b``. In period i, counted from 0, high is ``1 + gamma^i (high − 1)``. The
    steps that remain after the last period begin another one.

    Args:
        target_ratio: ``(high, low)``; a single number means ``(high, high / 1e5)``.
        cyclic_times: The number of periods; a ConfigError when called with fewer steps.
        step_ratio_up: The part of a period in which the value rises.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        gamma: The factor of ``high − 1`` from one period to the next.

    Example:
        >>> wave = Cyclic()
        >>> [round(wave(0.1, step, 100), 4) for step in (0, 20, 40, 70, 99)]
        [0.1, 0.55, 1.0, 0.5, 0.0007]
    """

    target_ratio: Ratios = (10, 1e-4)
    cyclic_times: Count = 1
    step_ratio_up: Share = 0.4
    anneal_strategy: Strategy = "cos"
    gamma: NotNegative = 1.0

    by_step: ClassVar[bool] = True
    momentum_defaults: ClassVar[Mapping[str, Any]] = {"target_ratio": (0.85 / 0.95, 1.0)}

    def __post_init__(self) -> None:
        BasePolicy.__post_init__(self)
        ratios = self.target_ratio if isinstance(self.target_ratio, Sequence) else (self.target_ratio,)
        if len(ratios) > 2 or self.gamma > 1:
            raise ConfigError(f"{self!r:.200}: give one or two ratios, and a gamma from 0 to 1")
        object.__setattr__(self, "target_ratio", (ratios[0], ratios[1] if len(ratios) == 2 else ratios[0] / 1e5))

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        period = _known(maximum) // self.cyclic_times
        if period < 1:
            raise ConfigError(f"{self!r:.200}: that many cycles do not fit into {maximum} steps; give fewer")
        cycle, place = divmod(progress, period)
        high, low = cast("tuple[float, float]", self.target_ratio)
        scale = self.gamma**cycle
        top = base * (1 - scale + high * scale)
        up = int(self.step_ratio_up * period)
        anneal = _STRATEGIES[self.anneal_strategy]
        return anneal(base, top, place / up) if place < up else anneal(top, base * low, (place - up) / (period - up))


@policy()
class OneCycle(BasePolicy):
    """Rises once and falls to almost 0, by steps; as torch's `OneCycleLR`, after arXiv:1708.07120.

    It starts from ``b = max/div_factor``. Its phases end at ``pct_start · T − 1``, where it is max, and at ``T − 1``,
    where it is ``b/final_div_factor``. With `three_phase` it is b again at ``2 · pct_start · T − 2``, between them.

    Args:
        div_factor: The maximum divided by b.
        final_div_factor: b divided by the last value.
        pct_start: The part of T in which the value rises; with `three_phase` at most a half.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        three_phase: Fall back to b before the last phase.
        total_steps: T; P unless given. A ConfigError when called with a greater P.

    Example:
        >>> cycle = OneCycle()
        >>> [round(cycle(0.004, step, 100), 9) for step in (0, 29, 99)]
        [0.004, 0.1, 4e-07]
    """

    div_factor: Positive = 25.0
    final_div_factor: Positive = 1e4
    pct_start: Share = 0.3
    anneal_strategy: Strategy = "cos"
    three_phase: Flag = False
    total_steps: Count | None = None

    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        BasePolicy.__post_init__(self)
        if self.three_phase and self.pct_start > 0.5:
            raise ConfigError(f"OneCycle(pct_start={self.pct_start}): with three_phase, give at most 0.5")

    @classmethod
    def courses(cls, who: str, word: str, options: Mapping[str, Any]) -> list[Course]:
        """Return the courses that a config means, which gives maxima: ``max_lr``, one or one for each group.

        That of a momentum gives ``max_momentum`` (0.95), the value at the start and the end, and ``base_momentum``
        (0.85), the value where the learning rate is highest.
        """
        names = [field.name for field in fields(cls)]
        if word == "lr":
            check_names(who, options, ["max_lr", *names], ["max_lr"])
            built = cls.build(who, {name: value for name, value in options.items() if name != "max_lr"})
            return [Course(built, high / built.div_factor) for high in _peaks(who, "max_lr", options["max_lr"])]
        own = {"base_momentum": 0.85, "max_momentum": 0.95}
        names = [name for name in names if not name.endswith("div_factor")]
        check_names(who, options, [*own, *names], [])
        rest = {**own, **options}
        lows, highs = (_peaks(who, name, rest.pop(name)) for name in own)
        most = max(len(lows), len(highs))
        if not {len(lows), len(highs)} <= {1, most}:
            raise ConfigError(
                f"{who}: base_momentum has {len(lows)} values and max_momentum {len(highs)}; give equally many"
            )
        return [
            Course(cls.build(who, {**rest, "div_factor": low / high, "final_div_factor": 1.0}), high)
            for low, high in zip(lows * (most // len(lows)), highs * (most // len(highs)), strict=True)
        ]

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        total = maximum if self.total_steps is None else self.total_steps
        if total < maximum < inf:
            raise ConfigError(
                f"OneCycle(total_steps={total}): the run has {maximum} steps; give as many, or leave it out"
            )
        back = [(2 * self.pct_start * total - 2, 1.0)] if self.three_phase else []
        ends = [(self.pct_start * total - 1, self.div_factor), *back, (total - 1, 1 / self.final_div_factor)]
        for (begin, start), (end, stop) in pairwise([(0.0, 1.0), *ends]):
            if progress <= end:
                part = _part(progress - begin, end - begin)
                return _STRATEGIES[self.anneal_strategy](base * start, base * stop, part)
        return base / self.final_div_factor


def _peaks(who: str, name: str, value: Any) -> list[float]:
    peaks = PEAKS.check(f"{who}: OneCycle", name, value)
    return [*map(float, peaks)] if isinstance(value, (list, tuple)) else [float(peaks)]


def warmup(kind: str, progress: float, length: float, ratio: float) -> float:
    """Return the factor of a warm-up; after its end it is 1.

    ============ ================================= ==============================
    ``constant`` ``ratio``
    ``linear``   ``1 − (1 − p/W)(1 − ratio)``      a straight line
    ``exp``      ``ratio^(1 − p/W)``               by the same factor in each step
    ============ ================================= ==============================

    Args:
        kind: One of these; mmcv's `warmup`.
        progress: p, the step.
        length: W, in steps; mmcv's `warmup_iters`.
        ratio: The factor at the first step, above 0 and up to 1.

    Example:
        >>> [[warmup(kind, step, 4, 0.25) for step in (0, 2, 4)] for kind in ("constant", "linear", "exp")]
        [[0.25, 0.25, 1.0], [0.25, 0.625, 1.0], [0.25, 0.5, 1.0]]
    """
    if progress >= length:
        return 1.0
    left = 1 - progress / length
    if kind == "linear":
        return 1 - left * (1 - ratio)
    return float(ratio**left) if kind == "exp" else ratio


def _cosine(start: float, end: float, part: float, weight: float = 1.0) -> float:
    return end + 0.5 * weight * (start - end) * (cos(pi * part) + 1)


def _linear(start: float, end: float, part: float) -> float:
    return start + (end - start) * part


def _part(done: float, whole: float) -> float:
    return min(done / _known(whole), 1.0) if whole > 0 else 1.0


def _known(maximum: float) -> float:
    if maximum < inf:
        return maximum
    raise ConfigError(
        "this policy must know at which epoch the run ends, or by steps at which step; give the run max_epochs (or "
        "max_iters, with by_epoch=False), or choose a policy that does not need the end"
    )


_STRATEGIES: dict[str, Callable[[float, float, float], float]] = {"cos": _cosine, "linear": _linear}
