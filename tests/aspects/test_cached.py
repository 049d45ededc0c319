"""Caches: what is answered from them, for how long, and whose they are."""

from __future__ import annotations

from contextlib import ExitStack
from functools import wraps
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import HookOptionError, HookTypeError, weave
from aspecthook.aspects import cached
from tests.aspects.conftest import Clock, Targets

STEPS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1, 0, 1, "fill", "clear"]), st.floats(0, 50)),
    max_size=15,
)


@pytest.mark.parametrize("style", ["function", "coroutine"])
@given(STEPS, st.sampled_from([None, 1, 2]), st.sampled_from([None, 60]))
@settings(max_examples=25)
def test_each_mount_point_answers_from_a_cache_of_its_own(
    style: str, steps: list[tuple[int, int | str, float]], maxsize: int | None, ttl: float | None
) -> None:
    clock = Clock()
    several = [Targets(lambda n: n or None), Targets(lambda n: -n)]
    prices = cached(ttl, maxsize=maxsize, clock=clock)
    # When each result was kept, the one that was used last at the end.
    known: list[dict[int, float]] = [{}, {}]
    wanted: list[list[int]] = [[], []]
    with ExitStack() as stack:
        for targets in several:
            stack.enter_context(weave(targets.all[style][0], aspect=prices))
        for which, step, gap in steps:
            clock.now += gap
            if step == "clear":
                prices.clear()
                known = [{}, {}]
                continue
            for n in range(200) if step == "fill" else [int(step)]:
                kept = {one: since for one, since in known[which].items() if ttl is None or clock.now < since + ttl}
                if n not in kept:
                    wanted[which].append(n)
                kept[n] = kept.pop(n, clock.now)
                known[which] = dict([*kept.items()][-(maxsize or 1000) :])
                assert several[which].all[style][1](n) == ((n or None) if which == 0 else -n)
    assert [targets.calls for targets in several] == wanted


def test_the_key_is_made_of_the_arguments_that_are_named_however_they_are_passed() -> None:
    found: list[str] = []

    def rate(currency: str, client: object = None, *more: int, day: str = "today", **rest: object) -> str:
        found.append(currency)
        return currency

    with weave(rate, aspect=cached(key=("currency", "day"))):
        rate("EUR", [])
        rate(currency="EUR", client={}, day="today", other=[])
        rate("EUR", day="monday")
    assert found == ["EUR", "EUR"]
    found.clear()
    with weave(rate, aspect=cached()):
        rate("EUR", None, 1, a=1, b=2)
        rate("EUR", None, 1, b=2, a=1)
        rate("USD")
        rate(client=None, currency="USD")
    assert found == ["EUR", "USD"]
    with weave(rate, aspect=cached(key=())):
        assert [rate("GBP"), rate("USD")] == ["GBP", "GBP"]


def test_the_key_of_a_wrapper_is_made_of_the_arguments_that_it_shows_or_of_those_that_it_takes_itself() -> None:
    def rate(client: object, currency: str) -> str:
        return currency

    @wraps(rate)
    def passing(*args: Any, **kwargs: Any) -> Any:
        return args or kwargs

    @wraps(rate)
    def with_client(currency: str) -> str:
        return rate(object(), currency)

    with weave(passing, aspect=cached(key="currency")):
        assert passing(1, "EUR") == passing(2, "EUR") == passing(3, currency="EUR") == (1, "EUR")
        assert passing(1, "USD") == (1, "USD")
        assert [passing(call, "that", "fails")[0] for call in ("one", "another")] == ["one", "another"]
    with weave(with_client, aspect=cached(key="currency")):
        assert [with_client("EUR"), with_client("USD")] == ["EUR", "USD"]
    with pytest.raises(HookOptionError, match="no such argument: currency"):
        weave(with_client, aspect=cached(key="client"))


def test_an_argument_that_cannot_be_a_key_is_named() -> None:
    def total(items: list[int]) -> int:
        return sum(items)

    with weave(total, aspect=cached()), pytest.raises(HookTypeError, match="the argument 'items', a list of 2 items"):
        total([1, 2])


def test_a_key_that_names_no_argument_is_refused_when_it_is_woven() -> None:
    def rate(currency: str) -> float:
        return 1.0

    with pytest.raises(
        HookOptionError, match="cached has key='curency', and there is no such argument: currency; did you mean"
    ):
        weave(rate, aspect=cached(key="curency"))


@pytest.mark.parametrize("style", ["generator", "async generator"])
def test_generators_are_refused(style: str) -> None:
    with pytest.raises(HookTypeError, match=f"cached cannot be woven on this {style}: its items can be taken once"):
        weave(Targets().all[style][0], aspect=cached())
