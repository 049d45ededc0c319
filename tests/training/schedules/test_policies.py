"""Policies and warm-ups as laws: their formulas, where they begin and end, what they never leave, what they refuse."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from math import cos, inf, isclose, nan, pi

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aspecthook import AspecthookError
from aspecthook._errors import ConfigError
from aspecthook.training.schedules import (
    CosineAnnealing,
    CosineRestart,
    Cyclic,
    Exp,
    Fixed,
    FlatCosineAnnealing,
    Inv,
    LinearAnnealing,
    OneCycle,
    Policy,
    Poly,
    Step,
    warmup,
)

bases = st.floats(1e-6, 10)
ratios = st.floats(0, 1)
powers = st.floats(0, 5)
lengths = st.integers(1, 400)
strategies = st.sampled_from(["cos", "linear"])

# Those that go from b to a part of it, with that part at P.
annealed = st.one_of(
    st.builds(lambda ratio: (CosineAnnealing(min_ratio=ratio), ratio), ratios),
    st.builds(lambda ratio: (LinearAnnealing(min_ratio=ratio), ratio), ratios),
    st.builds(
        lambda ratio, start: (FlatCosineAnnealing(min_ratio=ratio, start_percent=start), ratio),
        ratios,
        st.floats(0, 0.99),
    ),
    st.builds(lambda power: (Poly(power=power), 0.0), st.floats(0.1, 5)),
)
endless = st.one_of(
    st.just(Fixed()),
    st.builds(lambda step, gamma: Step(step=step, gamma=gamma), st.integers(1, 50), ratios),
    st.builds(lambda step, gamma: Step(step=step, gamma=gamma), st.lists(st.integers(1, 400), min_size=1), ratios),
    st.builds(lambda gamma: Exp(gamma=gamma), ratios),
    st.builds(lambda gamma, power: Inv(gamma=gamma, power=power), ratios, powers),
)
one_cycles = st.builds(
    lambda div, final, pct, strategy, three: OneCycle(
        div_factor=div, final_div_factor=final, pct_start=pct, anneal_strategy=strategy, three_phase=three
    ),
    st.floats(1, 50),
    st.floats(1, 1e5),
    st.floats(0, 0.5),
    strategies,
    st.booleans(),
)


def near(left: float, right: float) -> bool:
    return isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)


def falls(values: list[float]) -> bool:
    return all(after <= before * (1 + 1e-12) + 1e-15 for before, after in pairwise(values))


# The formulas of the specification, written down once more


@given(bases, st.integers(0, 400), st.integers(1, 50), ratios)
def test_step_has_fallen_once_for_each_period_that_is_over(base: float, progress: int, step: int, gamma: float) -> None:
    value = base
    for passed in range(1, progress + 1):
        value *= gamma if passed % step == 0 else 1
    assert near(Step(step=step, gamma=gamma)(base, progress), value)


@given(bases, st.integers(0, 100), st.lists(st.integers(1, 100), min_size=1), ratios)
def test_step_has_fallen_once_for_each_milestone_reached_in_whatever_order_they_stand(
    base: float, progress: int, milestones: list[int], gamma: float
) -> None:
    passed = sum(milestone <= progress for milestone in milestones)
    assert near(Step(step=milestones, gamma=gamma)(base, progress), base * gamma**passed)


@given(bases, st.integers(0, 100), ratios, st.floats(0, 0.1))
def test_step_does_not_fall_under_its_minimum(base: float, progress: int, gamma: float, least: float) -> None:
    free = Step(step=10, gamma=gamma)(base, progress)
    assert Step(step=10, gamma=gamma, min_value=least)(base, progress) == max(free, least)


@given(bases, st.integers(0, 400), ratios, powers)
def test_exp_and_inv_are_their_formulas(base: float, progress: int, gamma: float, power: float) -> None:
    assert near(Exp(gamma=gamma)(base, progress), base * gamma**progress)
    assert near(Inv(gamma=gamma, power=power)(base, progress), base / (1 + gamma * progress) ** power)


@given(bases, lengths, st.data(), powers, st.floats(0, 0.1))
def test_poly_is_its_formula(base: float, maximum: int, data: st.DataObject, power: float, least: float) -> None:
    progress = data.draw(st.integers(0, maximum))
    expected = (base - least) * ((maximum - progress) / maximum) ** power + least
    assert near(Poly(power=power, min_value=least)(base, progress, maximum), expected)


@given(bases, lengths, st.data(), st.floats(0, 0.1))
def test_annealing_to_a_value_and_to_a_ratio_are_their_formulas(
    base: float, maximum: int, data: st.DataObject, least: float
) -> None:
    progress = data.draw(st.integers(0, maximum))
    part = progress / maximum
    for target, options in ((least, {"min_value": least}), (base * least, {"min_ratio": least})):
        assert near(LinearAnnealing(**options)(base, progress, maximum), base * (1 - part) + target * part)
        wave = (base + target) / 2 + (base - target) / 2 * cos(pi * part)
        assert near(CosineAnnealing(**options)(base, progress, maximum), wave)


@given(bases, st.integers(2, 400), st.data(), ratios, st.floats(0, 0.99))
def test_flat_cosine_is_flat_and_then_a_cosine_over_the_rest(
    base: float, maximum: int, data: st.DataObject, ratio: float, percent: float
) -> None:
    progress = data.draw(st.integers(0, maximum - 1))
    start = round(maximum * percent)
    value = FlatCosineAnnealing(min_ratio=ratio, start_percent=percent)(base, progress, maximum)
    if progress < start:
        assert value == base
    else:
        assert near(value, CosineAnnealing(min_ratio=ratio)(base, progress - start, maximum - start))


@given(bases, st.lists(st.tuples(st.integers(1, 60), st.floats(0, 2)), min_size=1, max_size=5), ratios, st.data())
def test_each_period_of_cosine_restart_is_a_cosine_from_its_weight(
    base: float, rows: list[tuple[int, float]], ratio: float, data: st.DataObject
) -> None:
    periods, weights = [row[0] for row in rows], [row[1] for row in rows]
    policy = CosineRestart(periods=periods, restart_weights=weights, min_ratio=ratio)
    place = data.draw(st.integers(0, len(rows) - 1))
    inner = data.draw(st.integers(0, periods[place] - 1))
    target = base * ratio
    top = target + weights[place] * (base - target)
    expected = target + (top - target) * (1 + cos(pi * inner / periods[place])) / 2
    assert near(policy(base, sum(periods[:place]) + inner), expected)
    with pytest.raises(ValueError, match="last period ends"):
        policy(base, sum(periods))


@given(bases, st.integers(10, 400), st.integers(1, 3), st.floats(0, 1), ratios, strategies)
def test_the_border_values_of_a_cycle_are_those_of_the_formula(
    base: float, maximum: int, times: int, share: float, gamma: float, strategy: str
) -> None:
    policy = Cyclic(cyclic_times=times, step_ratio_up=share, gamma=gamma, anneal_strategy=strategy)
    period = maximum // times
    up = int(share * period)
    for cycle in range(times):
        top = base * (1 + gamma**cycle * (10 - 1))
        if up:
            assert near(policy(base, cycle * period, maximum), base)
        if up < period:
            assert near(policy(base, cycle * period + up, maximum), top)


def test_a_cycle_is_what_the_specification_says_at_every_step() -> None:
    policy, base, period, up = Cyclic(cyclic_times=3), 0.01, 33, 13

    def half(start: float, end: float, part: float) -> float:
        return end + (start - end) / 2 * (1 + cos(pi * part))

    for step in range(99):
        inner = step % period
        expected = (
            half(base, 10 * base, inner / up)
            if inner < up
            else half(10 * base, 1e-4 * base, (inner - up) / (period - up))
        )
        assert near(policy(base, step, 100), expected)


# Where they begin and end, and what they never leave


@given(st.one_of(annealed.map(lambda row: row[0]), endless), bases, lengths)
def test_a_schedule_begins_with_what_it_starts_from(policy: Policy, base: float, maximum: int) -> None:
    assume(not isinstance(policy, FlatCosineAnnealing) or round(maximum * policy.start_percent) < maximum)
    assert near(policy(base, 0, maximum), base)


@given(annealed, bases, lengths, st.integers(0, 50))
def test_annealing_ends_at_its_target_and_stays_there(
    row: tuple[Policy, float], base: float, maximum: int, more: int
) -> None:
    policy, ratio = row
    assert near(policy(base, maximum + more, maximum), base * ratio)


@given(st.one_of(annealed, endless.map(lambda policy: (policy, 0.0))), bases, st.integers(2, 100))
def test_decaying_policies_stay_between_start_and_target(row: tuple[Policy, float], base: float, maximum: int) -> None:
    policy, ratio = row
    values = [policy(base, progress, maximum) for progress in range(maximum + 5)]
    assert falls(values)
    assert all(base * ratio * (1 - 1e-9) - 1e-15 <= value <= base * (1 + 1e-9) for value in values)


@given(st.one_of(annealed.map(lambda row: row[0]), endless, one_cycles), bases, lengths, st.data(), st.floats(0.1, 10))
def test_policies_without_absolute_values_scale_with_the_start(
    policy: Policy, base: float, maximum: int, data: st.DataObject, scale: float
) -> None:
    progress = data.draw(st.integers(0, maximum - 1))
    assert near(policy(base * scale, progress, maximum), policy(base, progress, maximum) * scale)


@given(st.integers(1, 4), st.integers(8, 200), st.data(), bases, strategies)
def test_cycles_without_gamma_repeat(times: int, maximum: int, data: st.DataObject, base: float, strategy: str) -> None:
    policy = Cyclic(cyclic_times=times, anneal_strategy=strategy)
    period = maximum // times
    step = data.draw(st.integers(0, period - 1))
    assert {policy(base, step + cycle * period, maximum) for cycle in range(times)} == {policy(base, step, maximum)}


@given(one_cycles, bases, st.integers(1, 400))
def test_one_cycle_stays_between_its_last_value_and_its_maximum_and_ends_at_the_former(
    policy: OneCycle, base: float, total: int
) -> None:
    values = [policy(base, step, total) for step in range(total)]
    low, high = base / policy.final_div_factor, base * policy.div_factor
    assert all(low * (1 - 1e-9) <= value <= high * (1 + 1e-9) for value in values)
    assert near(values[-1], low) or (total - 1 <= policy.pct_start * total - 1)
    assert policy(base, total + 7, total) == pytest.approx(low)


@given(one_cycles, bases, st.integers(20, 400))
def test_one_cycle_rises_to_its_maximum_and_falls_from_there(policy: OneCycle, base: float, total: int) -> None:
    peak = policy.pct_start * total - 1
    assume(peak > 0)
    assert near(policy(base, peak, total), base * policy.div_factor)
    up = [policy(base, step, total) for step in range(total) if step <= peak]
    down = [policy(base, step, total) for step in range(total) if step >= peak]
    assert falls(up[::-1]) and falls(down)
    if policy.three_phase:
        assert near(policy(base, 2 * peak, total), base)


@given(one_cycles, bases, st.integers(50, 400))
def test_one_cycle_has_no_jumps_at_its_borders(policy: OneCycle, base: float, total: int) -> None:
    for border in (policy.pct_start * total - 1, 2 * policy.pct_start * total - 2):
        assume(1 < border < total - 2)
        left, right = (policy(base, border + side, total) for side in (-1e-7, 1e-7))
        assert abs(left - right) <= 1e-5 * base * policy.div_factor


@given(one_cycles, bases, st.integers(10, 100))
def test_one_cycle_takes_its_own_length_if_it_is_given_one(policy: OneCycle, base: float, total: int) -> None:
    longer = OneCycle(
        **{field.name: getattr(policy, field.name) for field in fields(policy)} | {"total_steps": total + 20}
    )
    assert [longer(base, step, total) for step in range(total)] == [
        policy(base, step, total + 20) for step in range(total)
    ]
    with pytest.raises(ConfigError, match="the run has"):
        longer(base, 0, total + 21)


def test_one_cycle_with_a_phase_of_no_length_begins_at_its_maximum() -> None:
    # mmcv and torch divide by zero here: 0.1 · 10 − 1 is 0
    assert OneCycle(pct_start=0.1)(0.04, 0, 10) == pytest.approx(1.0)


def test_a_momentum_cycle_is_a_learning_rate_cycle_upside_down() -> None:
    policy = OneCycle(div_factor=0.85 / 0.95, final_div_factor=1)
    values = [policy(0.95, step, 100) for step in range(100)]
    assert values[0] == pytest.approx(0.95) and values[-1] == pytest.approx(0.95)
    assert min(values) == pytest.approx(0.85) and values.index(min(values)) == 29


# Warm-ups


@given(st.sampled_from(["constant", "linear", "exp"]), st.integers(1, 1000), st.floats(1e-4, 1))
def test_a_warm_up_goes_from_its_ratio_to_one_and_never_falls(kind: str, length: int, ratio: float) -> None:
    values = [warmup(kind, step, length, ratio) for step in range(length + 3)]
    assert near(values[0], ratio) and values[length:] == [1.0] * 3
    assert falls(values[::-1])


@given(st.integers(1, 1000), st.data(), st.floats(1e-4, 1))
def test_warm_ups_are_their_formulas(length: int, data: st.DataObject, ratio: float) -> None:
    step = data.draw(st.integers(0, length - 1))
    assert warmup("constant", step, length, ratio) == ratio
    assert near(warmup("linear", step, length, ratio), ratio + (1 - ratio) * step / length)
    assert near(warmup("exp", step, length, ratio), ratio * (1 / ratio) ** (step / length))


# What is refused

_MIN = {"min_value": 0.0}


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        (Step, {"step": 0}, "Step(step=0): give a whole number from 1 up, or a list of them"),
        (Step, {"step": []}, "Step(step=[])"),
        (Step, {"step": 2.5}, "whole number"),
        (Step, {"step": True}, "whole number"),
        (Step, {"step": [3, -1]}, "Step(step=[3, -1])"),
        (Step, {"step": "3"}, "Step(step='3')"),
        (Step, {"step": 3, "gamma": -0.1}, "Step(gamma=-0.1): give a number from 0 up"),
        (Step, {"step": 3, "min_value": "small"}, "Step(min_value='small')"),
        (Exp, {"gamma": nan}, "Exp(gamma=nan)"),
        (Exp, {"gamma": inf}, "Exp(gamma=inf)"),
        (Exp, {"gamma": None}, "Exp(gamma=None)"),
        (Inv, {"gamma": -1}, "Inv(gamma=-1)"),
        (Inv, {"gamma": 1, "power": "2"}, "Inv(power='2')"),
        (Poly, {"power": -1}, "Poly(power=-1)"),
        (Poly, {"min_value": -1}, "Poly(min_value=-1)"),
        (CosineAnnealing, {}, "CosineAnnealing is given neither of min_value and min_ratio; give exactly one"),
        (CosineAnnealing, {**_MIN, "min_ratio": 0.1}, "CosineAnnealing is given both"),
        (LinearAnnealing, {}, "LinearAnnealing is given neither"),
        (LinearAnnealing, {"min_ratio": -0.1}, "LinearAnnealing(min_ratio=-0.1)"),
        (FlatCosineAnnealing, {"start_percent": 0.5}, "FlatCosineAnnealing is given neither"),
        (
            FlatCosineAnnealing,
            {**_MIN, "start_percent": 75},
            "FlatCosineAnnealing(start_percent=75): give a number from 0 to 1",
        ),
        (CosineRestart, {"periods": [5]}, "CosineRestart is given neither"),
        (CosineRestart, {**_MIN, "periods": []}, "CosineRestart(periods=[])"),
        (CosineRestart, {**_MIN, "periods": 5}, "CosineRestart(periods=5): give a list"),
        (CosineRestart, {**_MIN, "periods": [5, 0], "restart_weights": [1, 1]}, "CosineRestart(periods=[5, 0])"),
        (CosineRestart, {**_MIN, "periods": [5, 5]}, "2 periods and 1 restart_weights"),
        (CosineRestart, {**_MIN, "periods": [5], "restart_weights": ["1"]}, "CosineRestart(restart_weights=['1'])"),
        (Cyclic, {"target_ratio": (1, 2, 3)}, "give one or two ratios"),
        (Cyclic, {"target_ratio": []}, "Cyclic(target_ratio=[])"),
        (Cyclic, {"cyclic_times": 0}, "Cyclic(cyclic_times=0)"),
        (Cyclic, {"step_ratio_up": 1.5}, "Cyclic(step_ratio_up=1.5)"),
        (Cyclic, {"gamma": 1.5}, "a gamma from 0 to 1"),
        (Cyclic, {"anneal_strategy": "cosine"}, "give 'cos' or 'linear'; did you mean 'cos'?"),
        (OneCycle, {"pct_start": 1.2}, "OneCycle(pct_start=1.2)"),
        (OneCycle, {"pct_start": 0.6, "three_phase": True}, "give at most 0.5"),
        (OneCycle, {"three_phase": 1}, "OneCycle(three_phase=1): give True or False"),
        (OneCycle, {"div_factor": 0}, "OneCycle(div_factor=0): give a number above 0"),
        (OneCycle, {"final_div_factor": -1}, "OneCycle(final_div_factor=-1)"),
        (OneCycle, {"total_steps": 10.0}, "OneCycle(total_steps=10.0)"),
        (OneCycle, {"anneal_strategy": ["cos"]}, "OneCycle(anneal_strategy=['cos'])"),
    ],
)
def test_an_option_of_no_use_is_refused_as_the_policy_is_made(
    kind: type, options: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(**options)
    assert says in str(caught.value)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, AspecthookError)


def test_options_at_their_bounds_are_taken() -> None:
    assert Step(step=[6], gamma=0)(0.1, 5) == 0.1
    assert Step(step=1, gamma=0, min_value=0)(0.1, 1) == 0
    assert Poly(power=0)(0.1, 5, 10) == 0.1
    assert FlatCosineAnnealing(min_value=0, start_percent=1)(0.1, 9, 10) == 0.1
    assert Cyclic(target_ratio=5.0).target_ratio == (5.0, 5e-5)
    assert Cyclic(target_ratio=[5]).target_ratio == (5, 5e-5)
    assert Cyclic(step_ratio_up=0)(0.1, 0, 10) == pytest.approx(1.0)
    assert Cyclic(step_ratio_up=1)(0.1, 9, 10) < 1.0
    assert OneCycle(pct_start=0.5, three_phase=True)(0.1, 9, 10) == pytest.approx(1e-5)


@pytest.mark.parametrize(
    "policy",
    [Poly(), CosineAnnealing(**_MIN), LinearAnnealing(**_MIN), FlatCosineAnnealing(**_MIN), Cyclic(), OneCycle()],
    ids=lambda policy: type(policy).__name__,
)
def test_a_policy_that_must_know_the_end_says_so_where_there_is_none(policy: Policy) -> None:
    with pytest.raises(ConfigError, match="must know at which epoch the run ends"):
        policy(0.1, 0, inf)


@given(endless, bases, st.integers(0, 100))
def test_the_others_need_no_end(policy: Policy, base: float, progress: int) -> None:
    assert policy(base, progress, inf) == policy(base, progress, 100)


def test_more_cycles_than_steps_are_refused() -> None:
    with pytest.raises(ConfigError, match="do not fit into 4 steps"):
        Cyclic(cyclic_times=5)(0.1, 0, 4)


def test_policies_are_values() -> None:
    assert Step(step=[8, 11]) == Step(step=[11, 8]) and hash(Step(step=[8, 11])) == hash(Step(step=(8, 11)))
    assert repr(Exp(gamma=0.5)) == "Exp(gamma=0.5)"
