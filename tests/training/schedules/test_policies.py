"""Policies as laws: where they begin and end, and what they never leave."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import inf, isclose
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook._errors import ConfigError
from aspecthook.training.schedules import _policies as policies
from aspecthook.training.schedules._policies import (
    cosine_annealing,
    cyclic,
    exp,
    fixed,
    flat_cosine_annealing,
    inv,
    linear_annealing,
    one_cycle,
    poly,
    step,
)

Policy: TypeAlias = Callable[[float, float, float], float]
bases = st.floats(1e-6, 10)
ratios = st.floats(0, 1)

# Those that go from b to a part of it, with that part at P.
annealed = st.one_of(
    st.builds(lambda ratio: (partial(cosine_annealing, min_ratio=ratio), ratio), ratios),
    st.builds(lambda ratio: (partial(linear_annealing, min_ratio=ratio), ratio), ratios),
    st.builds(
        lambda ratio, start: (partial(flat_cosine_annealing, min_ratio=ratio, start_percent=start), ratio),
        ratios,
        st.floats(0, 0.99),
    ),
    st.builds(lambda power: (partial(poly, power=power), 0.0), st.floats(0.1, 5)),
)
endless = st.one_of(
    st.just(fixed),
    st.builds(lambda every, gamma: partial(step, step=every, gamma=gamma), st.integers(1, 50), ratios),
    st.builds(lambda at, gamma: partial(step, step=at, gamma=gamma), st.lists(st.integers(1, 400), min_size=1), ratios),
    st.builds(lambda gamma: partial(exp, gamma=gamma), ratios),
    st.builds(lambda gamma, power: partial(inv, gamma=gamma, power=power), ratios, st.floats(0, 5)),
)


def near(left: float, right: float) -> bool:
    return isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)


def falls(values: list[float]) -> bool:
    return all(after <= before * (1 + 1e-12) + 1e-15 for before, after in pairwise(values))


# Where they begin and end, and what they never leave


@given(st.one_of(annealed, endless.map(lambda policy: (policy, 0.0))), bases, st.integers(2, 100))
def test_decaying_policies_begin_at_the_start_and_stay_between_it_and_the_target(
    row: tuple[Policy, float], base: float, maximum: int
) -> None:
    policy, ratio = row
    values = [policy(base, progress, maximum) for progress in range(maximum + 5)]
    assert near(values[0], base) and falls(values)
    assert all(base * ratio * (1 - 1e-9) - 1e-15 <= value <= base * (1 + 1e-9) for value in values)


def test_one_cycle_with_a_phase_of_no_length_begins_at_its_maximum() -> None:
    # mmcv and torch divide by zero here: 0.1 · 10 − 1 is 0
    assert one_cycle(7.0, 0, 10, max_lr=1.0, pct_start=0.1) == pytest.approx(1.0)


def test_options_at_their_bounds_are_taken() -> None:
    assert step(0.1, 1, inf, step=1, gamma=0, min_value=0) == 0
    assert poly(0.1, 5, 10, power=0) == 0.1
    assert flat_cosine_annealing(0.1, 9, 10, min_value=0, start_percent=1) == 0.1
    assert cyclic(0.1, 0, 10, step_ratio_up=0) == pytest.approx(1.0)
    assert cyclic(0.1, 9, 10, step_ratio_up=1) < 1.0
    assert one_cycle(7.0, 9, 10, max_lr=2.5, pct_start=0.5, three_phase=True) == pytest.approx(1e-5)


@pytest.mark.parametrize("name", ["poly", "cosine_annealing", "linear_annealing", "flat_cosine_annealing", "cyclic"])
def test_a_policy_that_must_know_the_end_says_so_where_there_is_none(name: str) -> None:
    with pytest.raises(ConfigError, match="must know at which epoch the run ends"):
        getattr(policies, name)(0.1, 0, inf)
