"""Caches: what is answered from them, for how long, and whose they are."""

from __future__ import annotations

import pytest

from aspecthook import HookOptionError, HookTypeError, weave
from aspecthook.aspects import cached
from tests.aspects.conftest import Clock, Targets


@pytest.mark.parametrize("style", ["function", "coroutine"])
def test_the_second_call_with_the_same_arguments_is_answered_from_the_cache(style: str) -> None:
    targets = Targets()
    target, call = targets.all[style]
    prices = cached()
    with weave(target, aspect=prices):
        assert [call(1), call(1), call(2), call(1)] == [1, 1, 2, 1]
    assert targets.calls == [1, 2]


def test_results_are_kept_for_the_time_to_live(clock: Clock) -> None:
    targets = Targets()
    target, call = targets.all["function"]
    with weave(target, aspect=cached(ttl=60, clock=clock)):
        call(1)
        clock.now += 59.9
        call(1)
        assert targets.calls == [1]
        clock.now += 0.2
        call(1)
    assert targets.calls == [1, 1]


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


def test_each_mount_point_has_a_cache_of_its_own_and_all_can_be_cleared() -> None:
    one, other = Targets(), Targets(lambda n: -n)
    both = cached()
    with weave(one.all["function"][0], aspect=both), weave(other.all["function"][0], aspect=both):
        for _ in range(2):
            assert one.all["function"][1](1) == 1 and other.all["function"][1](1) == -1
        assert one.calls == other.calls == [1]
        both.clear()
        assert one.all["function"][1](1) == 1
    assert one.calls == [1, 1] and other.calls == [1]
