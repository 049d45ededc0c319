"""Schedules as pure functions: a policy gives a value at a point of a run, a warm-up the factor by which it begins.

A policy is called with the value it starts from (b), the progress (p) and the maximum (P), these two both in epochs or
both in steps. It keeps nothing between calls, so that a resumed run goes on exactly. Past the maximum, a value that
depends on it stays as it was there. The formulas are those of mmcv 1.7, `lr_updater.py`, where each policy has a class
of nearly the same name; ``cos(s, e, f, w=1)`` in them is ``e + w/2 (s − e)(1 + cos πf)``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise
from math import cos, inf, isfinite, pi, ulp
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol, cast, final

from aspecthook._errors import ConfigError, brief, nearest


class Policy(Protocol):
    """What gives a value at a point of a run; any function of three numbers will do.

    The maximum is infinite where a run does not know its end; the policies here that need one refuse that when called.

    Example:
        >>> def halves(base, progress, maximum):
        ...     return base if 2 * progress < maximum else base / 2
        >>> halves(0.1, 5, 10)
        0.05
    """

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        """Give the value at a point of a run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """Has its numbers checked when it is made."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                object.__setattr__(self, field.name, checked(type(self).__name__, field.name, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Annealed(_Checked):
    """Has a target t: a value of its own, or a part of b."""

    min_value: float | None = None
    min_ratio: float | None = None

    def __post_init__(self) -> None:
        if (self.min_value is None) == (self.min_ratio is None):
            raise ConfigError(
                f"{type(self).__name__} is given {'neither' if self.min_value is None else 'both'} of min_value and "
                "min_ratio; give exactly one: where the value ends, or which part of its start that is"
            )
        _Checked.__post_init__(self)  # slots: the class that super() would look for is another one

    def target(self, base: float) -> float:
        """Give the value at the end."""
        return base * self.min_ratio if self.min_ratio is not None else cast("float", self.min_value)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(_Checked):
    """Stays as it is: ``b``.

    Example:
        >>> Fixed()(0.1, 50, 100)
        0.1
    """

    def __call__(self, base: float, _progress: float, _maximum: float = inf, /) -> float:
        """Give the value at a point of a run."""
        return base


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Step(_Checked):
    """Falls in steps: ``b gamma^k``, not under a minimum.

    Args:
        step: A number s from 1 up, for ``k = p // s``; or milestones, for k as the number of those that are ``<= p``.
        gamma: The factor of each step.
        min_value: What the value does not fall under, in its own unit.

    Raises:
        ConfigError: An option is of no use; this holds for all policies.

    Example:
        >>> drop = Step(step=[8, 11], gamma=0.5)
        >>> drop(0.8, 7, 12), drop(0.8, 8, 12), drop(0.8, 11, 12)
        (0.8, 0.4, 0.2)
    """

    step: int | Sequence[int]
    gamma: float = 0.1
    min_value: float | None = None

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        if isinstance(self.step, Sequence):
            object.__setattr__(self, "step", tuple(sorted(self.step)))

    def __call__(self, base: float, progress: float, _maximum: float = inf, /) -> float:
        """Give the value at a point of a run."""
        step = self.step
        passed = bisect_right(step, progress) if isinstance(step, Sequence) else progress // step
        value = base * self.gamma**passed
        return value if self.min_value is None else max(value, self.min_value)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Exp(_Checked):
    """Falls by a factor each time: ``b gamma^p``.

    Example:
        >>> Exp(gamma=0.5)(0.8, 3)
        0.1
    """

    gamma: float

    def __call__(self, base: float, progress: float, _maximum: float = inf, /) -> float:
        """Give the value at a point of a run."""
        return float(base * self.gamma**progress)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inv(_Checked):
    """Falls as an inverse power: ``b (1 + gamma p)^−power``.

    Example:
        >>> Inv(gamma=1, power=2)(0.5, 4)
        0.02
    """

    gamma: float
    power: float = 1.0

    def __call__(self, base: float, progress: float, _maximum: float = inf, /) -> float:
        """Give the value at a point of a run."""
        return float(base * (1 + self.gamma * progress) ** -self.power)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Poly(_Checked):
    """Falls as a power of what is left: ``(b − m)(1 − p/P)^power + m``, with m the `min_value`.

    Example:
        >>> Poly(power=2)(0.4, 5, 10)
        0.1
    """

    power: float = 1.0
    min_value: float = 0.0

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        """Give the value at a point of a run."""
        left = (1 - _part(progress, maximum)) ** self.power
        return float((base - self.min_value) * left + self.min_value)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CosineAnnealing(_Annealed):
    """Falls along half a cosine: ``cos(b, t, p/P)``; arXiv:1608.03983.

    Args:
        min_value: t, in the unit of the value; or
        min_ratio: t as a part of b; exactly one of them. This holds for all policies that have both.

    Example:
        >>> round(CosineAnnealing(min_value=0)(0.4, 5, 10), 12)
        0.2
    """

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        """Give the value at a point of a run."""
        return _cosine(base, self.target(base), _part(progress, maximum))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAnnealing(_Annealed):
    """Falls along a straight line: ``b + (t − b) p/P``.

    Example:
        >>> LinearAnnealing(min_ratio=0.5)(1.0, 5, 10)
        0.75
    """

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        """Give the value at a point of a run."""
        return _linear(base, self.target(base), _part(progress, maximum))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FlatCosine(_Annealed):
    """Stays, then falls along half a cosine; after fastai's `fit_flat_cos`.

    With ``start = round(P · start_percent)``: b before it, then ``cos(b, t, (p − start)/(P − start))``. (`round` is
    Python's, which rounds a half to the even number.)

    Example:
        >>> late = FlatCosine(start_percent=0.75, min_value=0)
        >>> late(0.4, 74, 100), late(0.4, 100, 100)
        (0.4, 0.0)
    """

    start_percent: float = 0.75

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        """Give the value at a point of a run."""
        start = round(_known(maximum) * self.start_percent)
        if progress < start:
            return base
        return _cosine(base, self.target(base), _part(progress - start, maximum - start))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CosineRestart(_Annealed):
    """Falls along half a cosine, again and again: ``cos(b, t, (p − last)/period, weight)``; arXiv:1608.03983.

    `last` is where the period began, at ``t + weight (b − t)``.

    Args:
        periods: How long each one is, in epochs or steps.
        restart_weights: The weight of each.
        min_value: t; or
        min_ratio: t as a part of b.

    Raises:
        ConfigError: (when called) p is past the last period.

    Example:
        >>> again = CosineRestart(periods=[10, 20], restart_weights=[1, 0.5], min_value=0)
        >>> again(0.4, 0), again(0.4, 10)
        (0.4, 0.2)
    """

    periods: Sequence[int]
    restart_weights: Sequence[float] = (1.0,)

    def __post_init__(self) -> None:
        _Annealed.__post_init__(self)
        if len(self.periods) != len(self.restart_weights):
            raise ConfigError(
                f"CosineRestart has {len(self.periods)} periods and {len(self.restart_weights)} restart_weights; give "
                "as many of these as of those"
            )

    def __call__(self, base: float, progress: float, _maximum: float = inf, /) -> float:
        """Give the value at a point of a run."""
        begins = tuple(accumulate(self.periods, initial=0))
        if progress >= begins[-1]:
            raise ConfigError(
                f"CosineRestart(periods={brief(self.periods)}): the last period ends at {begins[-1]}, and the run goes "
                f"on to {progress}; add one, or lengthen it"
            )
        place = bisect_right(begins, progress) - 1
        part = _part(progress - begins[place], self.periods[place])
        return _cosine(base, self.target(base), part, self.restart_weights[place])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cyclic(_Checked):
    """Goes up and down in cycles, by steps; after arXiv:1506.01186.

    With ``period = P // cyclic_times`` and ``up = int(step_ratio_up · period)``: from b to ``high · b`` in the first
    `up` steps of a period, then to ``low · b``. In the i-th period, from 0, high is ``1 + gamma^i (high − 1)``. What is
    left of P after the last period begins another.

    Args:
        target_ratio: ``(high, low)``; high alone means ``(high, high / 1e5)``.
        cyclic_times: How many periods; a ConfigError when called, if there are more than steps.
        step_ratio_up: Which part of a period goes up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        gamma: What is left of ``high − 1`` from one period to the next.

    Example:
        >>> wave = Cyclic()
        >>> [round(wave(0.1, step, 100), 4) for step in (0, 20, 40, 70, 99)]
        [0.1, 0.55, 1.0, 0.5, 0.0007]
    """

    target_ratio: float | Sequence[float] = (10, 1e-4)
    cyclic_times: int = 1
    step_ratio_up: float = 0.4
    anneal_strategy: str = "cos"
    gamma: float = 1.0

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        ratios = self.target_ratio if isinstance(self.target_ratio, Sequence) else (self.target_ratio,)
        if len(ratios) > 2 or self.gamma > 1:
            raise ConfigError(f"{self!r:.200}: give one or two ratios, and a gamma from 0 to 1")
        object.__setattr__(self, "target_ratio", (ratios[0], ratios[1] if len(ratios) == 2 else ratios[0] / 1e5))

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        """Give the value at a point of a run."""
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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OneCycle(_Checked):
    """Goes up once, and down to almost nothing, by steps; as torch's `OneCycleLR`, after arXiv:1708.07120.

    It starts from ``b = max/div_factor``. Its phases end at ``pct_start · T − 1``, where it is max, and at ``T − 1``,
    where it is ``b/final_div_factor``. With `three_phase` it is b again at ``2 · pct_start · T − 2``, between them.

    Args:
        div_factor: How many times b the maximum is.
        final_div_factor: How many times the last value b is.
        pct_start: Which part of T goes up; with `three_phase` at most a half.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        three_phase: Whether to come back to b first.
        total_steps: T; P unless given. A ConfigError when called, if P is more.

    Example:
        >>> cycle = OneCycle()
        >>> [round(cycle(0.004, step, 100), 9) for step in (0, 29, 99)]
        [0.004, 0.1, 4e-07]
    """

    div_factor: float = 25.0
    final_div_factor: float = 1e4
    pct_start: float = 0.3
    anneal_strategy: str = "cos"
    three_phase: bool = False
    total_steps: int | None = None

    def __post_init__(self) -> None:
        _Checked.__post_init__(self)
        if self.three_phase and self.pct_start > 0.5:
            raise ConfigError(f"OneCycle(pct_start={self.pct_start}): two such phases do not fit; give at most 0.5")

    def __call__(self, base: float, progress: float, maximum: float, /) -> float:
        """Give the value at a point of a run."""
        total = maximum if self.total_steps is None else self.total_steps
        if total < maximum < inf:
            raise ConfigError(f"OneCycle(total_steps={total}): the run has {maximum} steps; give as many, or none")
        back = [(2 * self.pct_start * total - 2, 1.0)] if self.three_phase else []
        ends = [(self.pct_start * total - 1, self.div_factor), *back, (total - 1, 1 / self.final_div_factor)]
        for (begin, start), (end, stop) in pairwise([(0.0, 1.0), *ends]):
            if progress <= end:
                part = _part(progress - begin, end - begin)
                return _STRATEGIES[self.anneal_strategy](base * start, base * stop, part)
        return base / self.final_div_factor


def warmup(kind: str, progress: float, length: float, ratio: float) -> float:
    """Give the factor of a warm-up; from its end on it is 1.

    ============ ================================= ====================
    ``constant`` ``ratio``
    ``linear``   ``1 − (1 − p/W)(1 − ratio)``      a straight line
    ``exp``      ``ratio^(1 − p/W)``               evenly in each step
    ============ ================================= ====================

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
        "max_iters, with by_epoch=False), or take a policy that needs no end"
    )


_STRATEGIES: dict[str, Callable[[float, float, float], float]] = {"cos": _cosine, "linear": _linear}


class _Rule(NamedTuple):
    """What an option must be: a number within bounds, a list of them, or one of some values."""

    advice: str
    low: float = 0.0
    high: float = inf
    whole: bool = False
    one: bool = True
    many: bool = False
    among: tuple[object, ...] = ()

    def fits(self, value: object) -> bool:
        """Say whether a value is what it must be."""
        if self.among:
            return isinstance(value, (str, bool)) and value in self.among
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        return isfinite(value) and self.low <= float(value) <= self.high


_NOT_NEGATIVE = _Rule("a number from 0 up")
_POSITIVE = _Rule("a number above 0", low=ulp(0.0))
_SHARE = _Rule("a number from 0 to 1", high=1.0)
_COUNT = _Rule("a whole number from 1 up", low=1.0, whole=True)
_FLAG = _Rule("True or False", among=(True, False))
_EACH = _POSITIVE._replace(advice="a number above 0, or a list of one for each parameter group", many=True)

RULES: dict[str, _Rule] = {
    **dict.fromkeys(("gamma", "power", "min_value", "min_ratio"), _NOT_NEGATIVE),
    **dict.fromkeys(("start_percent", "pct_start", "step_ratio_up"), _SHARE),
    **dict.fromkeys(("div_factor", "final_div_factor"), _POSITIVE),
    **dict.fromkeys(("cyclic_times", "total_steps", "warmup_iters"), _COUNT),
    **dict.fromkeys(("three_phase", "by_epoch", "warmup_by_epoch"), _FLAG),
    **dict.fromkeys(("max_lr", "base_momentum", "max_momentum"), _EACH),
    "anneal_strategy": _Rule("'cos' or 'linear'", among=tuple(_STRATEGIES)),
    "periods": _COUNT._replace(advice="a list of whole numbers from 1 up", one=False, many=True),
    "restart_weights": _NOT_NEGATIVE._replace(advice="a list of numbers from 0 up", one=False, many=True),
    "step": _COUNT._replace(advice="a whole number from 1 up, or a list of them", many=True),
    "target_ratio": _NOT_NEGATIVE._replace(advice="a number from 0 up, or a list of two", many=True),
    "warmup": _Rule("None, 'constant', 'linear' or 'exp'", among=("constant", "linear", "exp")),
    "warmup_ratio": _Rule("a number above 0 and up to 1", low=ulp(0.0), high=1.0),
}


# Any: what is checked is whatever somebody gave.
def checked(who: str, name: str, value: Any) -> Any:
    """Give the value of an option back, a list as a tuple; refuse what the option cannot be."""
    rule = RULES[name]
    several = isinstance(value, (list, tuple))
    values: tuple[Any, ...] = tuple(cast("Any", value)) if several else (value,)
    if not values or not (rule.many if several else rule.one) or not all(map(rule.fits, values)):
        hint = nearest(str(value), [*map(str, rule.among)])
        raise ConfigError(f"{who}({name}={brief(value)}): give {rule.advice}{hint}")
    return values if several else value
