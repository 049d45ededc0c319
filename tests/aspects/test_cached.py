"""Caches: what is answered from them, for how long, and whose they are."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import HookOptionError, HookTypeError, weave
from aspecthook.aspects import cached
from tests.aspects.conftest import Clock, Targets

STEPS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.integers(0, 3) | st.sampled_from(["fill", "clear"]), st.floats(0, 50)),
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
