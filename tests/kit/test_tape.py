"""assert_calls: which calls a tape is expected to have."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook.testing import Tape, assert_calls, called
from tests.shop import Declined, charge, checkout, price


@pytest.fixture
def tape():
    with Tape() as made:
        yield made


@pytest.fixture
def bought(tape):
    tape.record(checkout).record(price).record(charge)
    checkout(["tea", "rice"])
    with contextlib.suppress(Declined):
        charge(101)
    return tape


@pytest.mark.parametrize(
    "expected",
    [
        ("checkout", "price", "price", "charge", "charge"),
        (f"{checkout.__module__}:checkout", ..., called("charge", amount=101).raised(Declined)),
        (...,),
        (..., called("price", item="rice"), ...),
        ("checkout", ..., "charge", ..., "charge", ...),
        (called("checkout").returned("paid"), called("price", item="tea", qty=1).returned(2.5), ...),
        (..., "price", "charge", called("charge").raised()),
    ],
)
def test_expectations_that_hold(bought, expected):
    assert_calls(bought, *expected)


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        ((), "after these the tape has checkout(items=['tea', 'rice']) -> 'paid'"),
        (("checkout", "price"), "after these the tape has price(item='rice', qty=1) -> 2.5"),
        (("price", ...), "instead of > the tape has checkout("),
        (("checkout", called("price", item="rice"), ...), "instead of > the tape has price(item='tea', qty=1) -> 2.5"),
        (("checkout", called("price", itm="tea"), ...), "instead of > the tape has price(item='tea'"),
        ((..., called("charge", amount=101).returned("paid")), "no call fits >"),
        ((..., "charge", called("charge").raised(KeyError)), "> charge raised KeyError"),
        (("checkout", "price", "price", "charge", "charge", "price"), "instead of > the tape has nothing more"),
    ],
)
def test_expectations_that_do_not_hold_say_where_and_draw_the_tree(bought, expected, why):
    with pytest.raises(AssertionError) as info:
        assert_calls(bought, *expected)
    assert why in str(info.value)
    assert "      price(item='rice', qty=1) -> 2.5" in str(info.value)


def test_arguments_whose_comparison_is_no_yes_or_no_are_compared_by_identity(tape):
    class Array:
        def __eq__(self, other):
            return self

        def __bool__(self):
            raise ValueError

        __hash__ = None

    one, other = Array(), Array()
    tape.record(price)
    price(one)
    assert_calls(tape, called("price", item=one))
    with pytest.raises(AssertionError):
        assert_calls(tape, called("price", item=other))


_CALLS = st.lists(st.sampled_from("ab"), max_size=5)


@given(_CALLS, st.lists(st.sampled_from(["a", "b", ...]), max_size=5))
def test_an_expectation_is_a_regular_expression_over_the_calls(names, expected):
    import re

    def a(): ...
    def b(): ...

    pattern = "".join(".*" if one is ... else one for one in expected)
    with Tape().record(a).record(b) as tape:
        for name in names:
            {"a": a, "b": b}[name]()
    holds = re.fullmatch(pattern, "".join(names)) is not None
    try:
        assert_calls(tape, *expected)
    except AssertionError:
        assert not holds
    else:
        assert holds
