"""The policies: plain functions that return the value of a learning rate or a momentum at a point of a run.

A policy is called with the value that it starts from (b), the progress (p) and the maximum (P), both in epochs or both
in steps. The maximum is infinite if the run does not know its end. A policy keeps no state, so a resumed run continues
exactly. Beyond the maximum, a value that depends on it stays what it was there.

The formulas are those of `lr_updater.py` in mmcv 1.7, where ``cos(s, e, f, w=1)`` is ``e + w/2 (s − e)(1 + cos πf)``.
The value at the end, t, is `min_value`, or `min_ratio` times b if that is given. The reference explains the options.

`policy_of` finds the policy that a config means, and checks its options.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from itertools import accumulate, pairwise
from math import cos, inf, pi
from typing import Any, TypeAlias, cast

from aspecthook._core.law.callables import Parameter
from aspecthook._errors import ConfigError, HookTypeError, brief, nearest
from aspecthook.training._options import finite_number, flag, one_of, share, whole_number
from aspecthook.training.registry._configs import listed
from aspecthook.training.registry._registry import check_arguments

# A function of the value to start from, the progress and the maximum.
Policy: TypeAlias = Callable[[float, float, float], float]


def fixed(base: float, _progress: float, _maximum: float) -> float:
    """Return ``b``."""
    return base


def step(
    base: float,
    progress: float,
    _maximum: float,
    *,
    step: int | Sequence[int],
    gamma: float = 0.1,
    min_value: float | None = None,
) -> float:
    """Return ``b gamma^k``, but not less than `min_value`; k is ``p // step``, or the number of milestones ``<= p``."""
    passed = progress // step if isinstance(step, int) else sum(milestone <= progress for milestone in step)
    value = base * gamma**passed
    return value if min_value is None else max(value, min_value)


def exp(base: float, progress: float, _maximum: float, *, gamma: float) -> float:
    """Return ``b gamma^p``."""
    return float(base * gamma**progress)


def inv(base: float, progress: float, _maximum: float, *, gamma: float, power: float = 1.0) -> float:
    """Return ``b (1 + gamma p)^−power``."""
    return float(base * (1 + gamma * progress) ** -power)


def poly(base: float, progress: float, maximum: float, *, power: float = 1.0, min_value: float = 0.0) -> float:
    """Return ``(b − m)(1 − p/P)^power + m``, where m is `min_value`."""
    left = (1 - _part(progress, maximum)) ** power
    return float((base - min_value) * left + min_value)


def cosine_annealing(
    base: float, progress: float, maximum: float, *, min_value: float | None = None, min_ratio: float | None = None
) -> float:
    """Return ``cos(b, t, p/P)``; arXiv:1608.03983."""
    return _cosine(base, _target(base, min_value, min_ratio), _part(progress, maximum))


def linear_annealing(
    base: float, progress: float, maximum: float, *, min_value: float | None = None, min_ratio: float | None = None
) -> float:
    """Return ``b + (t − b) p/P``."""
    return base + (_target(base, min_value, min_ratio) - base) * _part(progress, maximum)


def flat_cosine_annealing(
    base: float,
    progress: float,
    maximum: float,
    *,
    start_percent: float = 0.75,
    min_value: float | None = None,
    min_ratio: float | None = None,
) -> float:
    """Return b before ``start = round(P · start_percent)``, then ``cos(b, t, (p − start)/(P − start))``.

    It is fastai's `fit_flat_cos`. `round` is Python's, which rounds a half to the even number.
    """
    start = round(_known(maximum) * start_percent)
    if progress < start:
        return base
    return _cosine(base, _target(base, min_value, min_ratio), _part(progress - start, maximum - start))


def cosine_restart(
    base: float,
    progress: float,
    maximum: float,
    *,
    periods: Sequence[int],
    restart_weights: Sequence[float] = (1.0,),
    min_value: float | None = None,
    min_ratio: float | None = None,
) -> float:
    """Return ``cos(b, t, (p − start)/period, weight)``, so that a period starts at ``t + weight (b − t)``."""
    if len(periods) != len(restart_weights):
        raise ConfigError(f"{len(periods)} periods and {len(restart_weights)} restart_weights; give equally many")
    begins = tuple(accumulate(periods, initial=0))
    last = max(progress, maximum - 1) if maximum < inf else progress
    if last >= begins[-1]:  # a run that knows its end finds this at its beginning
        raise ConfigError(f"the last period ends at {begins[-1]}, and the run goes on to {last}; add one")
    place = bisect_right(begins, progress) - 1
    part = _part(progress - begins[place], periods[place])
    return _cosine(base, _target(base, min_value, min_ratio), part, restart_weights[place])


def cyclic(
    base: float,
    progress: float,
    maximum: float,
    *,
    target_ratio: Sequence[float] = (10, 1e-4),
    cyclic_times: int = 1,
    step_ratio_up: float = 0.4,
    gamma: float = 1.0,
) -> float:
    """Return a value that rises to ``high · b`` and falls to ``low · b`` in each cycle; after arXiv:1506.01186.

    `target_ratio` is ``(high, low)``. A cycle has ``P // cyclic_times`` steps, and rises in the first part of them,
    `step_ratio_up`. In cycle i, counted from 0, high is ``1 + gamma^i (high − 1)``. The steps that remain after the
    last cycle begin another one.
    """
    if len(target_ratio) != 2 or gamma > 1:
        raise ConfigError(f"target_ratio={target_ratio}, gamma={gamma}: give two ratios, and a gamma up to 1")
    high, low = target_ratio
    period = _known(maximum) // cyclic_times
    if period < 1:
        raise ConfigError(f"{cyclic_times} cycles do not fit into {maximum} steps; give fewer")
    cycle, place = divmod(progress, period)
    scale = gamma**cycle
    top = base * (1 - scale + high * scale)
    up = int(step_ratio_up * period)
    return _cosine(base, top, place / up) if place < up else _cosine(top, base * low, (place - up) / (period - up))


def one_cycle(
    _base: float,
    progress: float,
    maximum: float,
    *,
    max_lr: float,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
    pct_start: float = 0.3,
    three_phase: bool = False,
) -> float:
    """Return a value that rises once and falls to almost 0; torch's `OneCycleLR`, after arXiv:1708.07120.

    It starts from ``b = max_lr/div_factor``, whatever the optimizer has. Its phases end at ``pct_start · P − 1``, where
    it is `max_lr`, and at ``P − 1``, where it is ``b/final_div_factor``. With `three_phase` it is b again at
    ``2 · pct_start · P − 2``, between them.
    """
    if three_phase and pct_start > 0.5:
        raise ConfigError(f"pct_start={pct_start}: with three_phase, give at most 0.5")
    total, base = _known(maximum), max_lr / div_factor
    back = [(2 * pct_start * total - 2, base)] if three_phase else []
    ends = [(pct_start * total - 1, max_lr), *back, (total - 1, base / final_div_factor)]
    for (begin, start), (end, stop) in pairwise([(0.0, base), *ends]):
        if progress <= end:
            return _cosine(start, stop, _part(progress - begin, end - begin))
    return base / final_div_factor


def one_cycle_of_momentum(
    base: float,
    progress: float,
    maximum: float,
    *,
    base_momentum: float = 0.85,
    max_momentum: float = 0.95,
    pct_start: float = 0.3,
    three_phase: bool = False,
) -> float:
    """Return `max_momentum` at the start and the end, and `base_momentum` where `one_cycle` has `max_lr`."""
    return one_cycle(
        *(base, progress, maximum),
        max_lr=base_momentum,
        div_factor=base_momentum / max_momentum,
        final_div_factor=1.0,
        pct_start=pct_start,
        three_phase=three_phase,
    )


def warmup(kind: str, progress: float, length: float, ratio: float) -> float:
    """Return the factor of a warm-up of W steps; after its end it is 1.

    ============ ================================= ==============================
    ``constant`` ``ratio``
    ``linear``   ``1 − (1 − p/W)(1 − ratio)``      a straight line
    ``exp``      ``ratio^(1 − p/W)``               by the same factor in each step
    ============ ================================= ==============================
    """
    if progress >= length:
        return 1.0
    left = 1 - progress / length
    if kind == "linear":
        return 1 - left * (1 - ratio)
    return float(ratio**left) if kind == "exp" else ratio


def _target(base: float, value: float | None, ratio: float | None) -> float:
    return (value or 0.0) if ratio is None else base * ratio


def _cosine(start: float, end: float, part: float, weight: float = 1.0) -> float:
    return end + 0.5 * weight * (start - end) * (cos(pi * part) + 1)


def _part(done: float, whole: float) -> float:
    return min(done / _known(whole), 1.0) if whole > 0 else 1.0


def _known(maximum: float) -> float:
    if maximum < inf:
        return maximum
    raise ConfigError(
        "this policy must know at which epoch the run ends, or by steps at which step; give the run max_epochs, or, "
        "with by_epoch=False, max_iters or a loader that has a length; or choose a policy that does not need the end"
    )


# Which policy a config means

_Functions: TypeAlias = tuple[Callable[..., float], ...]  # Any: each policy has options of its own
_ENDLESS: _Functions = (fixed, step, exp, inv)
_ANNEALING: _Functions = (poly, cosine_annealing, linear_annealing, flat_cosine_annealing, cosine_restart)
_CYCLIC: _Functions = (cyclic, one_cycle)
POLICIES = {policy.__name__: policy for policy in (*_ENDLESS, *_ANNEALING, *_CYCLIC)}
_SHORT = {"cosine": "cosine_annealing", "linear": "linear_annealing", "flat_cosine": "flat_cosine_annealing"}
BY_STEP = tuple(policy.__name__ for policy in _CYCLIC)  # these cannot count epochs

# The policies that are another function for momenta, or have other defaults.
_OF_MOMENTA: dict[str, Callable[..., float]] = {
    "step": partial(step, gamma=0.5),
    "cyclic": partial(cyclic, target_ratio=(0.85 / 0.95, 1.0)),
    "one_cycle": one_cycle_of_momentum,
}

# The check of a value of each option, or of each value in a list; other options are numbers from 0 up.
_positive, _count = partial(finite_number, above=0), partial(whole_number, least=1)
_CHECKS: dict[str, Callable[[str, str, Any], Any]] = {
    **dict.fromkeys(("step", "periods", "cyclic_times", "warmup_iters"), _count),
    **dict.fromkeys(("start_percent", "step_ratio_up", "pct_start"), share),
    **dict.fromkeys(("div_factor", "final_div_factor", "max_lr", "max_momentum", "base_momentum"), _positive),
    "three_phase": flag,
    "warmup": partial(one_of, choices=("constant", "linear", "exp")),
    "warmup_ratio": lambda who, name, value: _positive(who, name, share(who, name, value)),
}
_LISTS = ("periods", "restart_weights", "target_ratio")  # and "step", which may be one number too
# Options of the hooks themselves, which a config gives beside those of the policy.
_OF_HOOKS = ("policy", "by_epoch", "warmup", "warmup_iters", "warmup_ratio")


def check(who: str, option: str, value: object, word: str | None = None) -> None:
    """Raise if a value of an option is impossible; a config may use another word for the option."""
    check_one, word = _CHECKS.get(option, partial(finite_number, least=0)), word or option
    numbers: Sequence[object] = (value,)
    if value in ([], ()) or (option in _LISTS and not isinstance(value, (list, tuple))):
        raise HookTypeError(f"{who}: {word}={brief(value)}; give a list of numbers")
    if option in (*_LISTS, "step") and isinstance(value, (list, tuple)):
        numbers = cast("Sequence[object]", value)
    for number in numbers:
        check_one(who, word, number)


def policy_of(who: str, word: str, given: object, options: Mapping[str, Any]) -> tuple[str, Policy]:
    """Return the name of a policy, and the policy with its options.

    For the word ``"lr"``, a config says ``min_lr`` for `min_value` and ``min_lr_ratio`` for `min_ratio`.
    """
    if not isinstance(given, str):
        raise ConfigError(f"{who}: the policy is {brief(given)}; give the name of one")
    name, who = _name_of(who, given), f"{who}: the policy {given!r}"
    function = (_OF_MOMENTA if word == "momentum" else POLICIES).get(name, POLICIES[name])
    spelt = {"min_value": f"min_{word}", "min_ratio": f"min_{word}_ratio"}
    takes = {
        spelt.get(key, key): one for key, one in signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY
    }
    known = [Parameter(key, "keyword", one.default is not one.empty) for key, one in takes.items()]
    check_arguments([*known, *(Parameter(key, "keyword", True) for key in _OF_HOOKS)], dict(options), who)
    for key, value in options.items():
        if value is not None or takes[key].default is not None:
            check(who, takes[key].name, value, key)
    ends = [key for key in spelt.values() if options.get(key) is not None]
    if spelt["min_ratio"] in takes and len(ends) != 1:
        raise ConfigError(
            f"{who} is given {'both' if ends else 'neither'} of {' and '.join(spelt.values())}; give exactly one: the "
            "value at the end, or its ratio to the value at the start"
        )
    return name, partial(function, **{takes[key].name: value for key, value in options.items()})


def _name_of(who: str, given: str) -> str:
    """Return the name of a policy, which may be spelt as in mmcv, ``"CosineAnnealing"``, or be a short name."""
    letters = "".join(filter(str.isalpha, given)).lower()
    for name in (*POLICIES, *_SHORT):
        if name.replace("_", "") == letters:
            return _SHORT.get(name, name)
    near = nearest(given.lower(), [*POLICIES, *_SHORT])
    raise ConfigError(f"{who}: there is no policy {given!r}; the policies are {listed(POLICIES)}{near}")
