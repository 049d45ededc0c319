"""Traces: one real call, seen step by step, that changes nothing for anybody else."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given as drawing

from aspecthook import Args, HookLookupError, HookTypeError, Return, hookable, hooks, weave
from aspecthook.testing import assert_order, trace_of
from aspecthook.testing._trace import draw_chain
from tests.properties.signatures import signatures


def make() -> Any:
    @hookable
    def price(item: str, qty: int = 1, *rest: int, tax: float = 0.0, **more: int) -> float:
        if item == "gold":
            raise KeyError(item)
        return 2.0 * qty

    @price.pre
    def at_least_one(qty: int) -> Args:
        return Args(qty=max(qty, 1))

    @price.around
    def twice(proceed: Any) -> float:
        return float(proceed(qty=2) + proceed())

    @price.exception(KeyError)
    def unknown(exc: KeyError) -> Return[float]:
        return Return(0.0)

    @price.post(when=lambda qty: qty > 1)
    def discount(result: float) -> float:
        return result / 2

    @price.always
    def note(call: Any) -> None: ...

    return price


def test_the_steps_are_those_of_the_call_in_the_order_in_which_they_began() -> None:
    trace = trace_of(make())("tea", 0, 7, tax=1.0, extra=5)
    assert trace.names == ("at_least_one", "twice", "price", "price", "note")
    assert [step.kind for step in trace.steps] == ["pre", "around", "target", "target", "always"]
    assert trace.steps[2].given == {"item": "tea", "qty": 2, "rest": (7,), "tax": 1.0, "extra": 5}
    assert trace["at_least_one"].given == {"qty": 0}
    assert trace["at_least_one"].answer == Args(qty=1)
    assert (trace.result, trace.exc) == (6.0, None)


@drawing(signatures())
def test_a_trace_has_the_arguments_as_python_binds_them(
    drawn: tuple[str, list[str], list[int], dict[str, int]],
) -> None:
    text, names, args, kwargs = drawn
    space: dict[str, Any] = {}
    exec(f"def target({text}): return {', '.join([*names, 'None'])}", space)
    bound = inspect.signature(space["target"]).bind(*args, **kwargs)
    bound.apply_defaults()
    result = space["target"](*args, **kwargs)
    target = hookable(space["target"])
    given = {name: value for name, value in bound.arguments.items() if name not in ("rest", "extra")}
    given |= {"rest": bound.arguments["rest"]} if bound.arguments.get("rest") else {}
    given |= bound.arguments.get("extra", {})
    assert trace_of(target)(*args, **kwargs).arguments == dict(bound.arguments)
    hooks(target).add("pre", lambda: None)
    trace = trace_of(target)(*args, **kwargs)
    assert (trace.args, trace.kwargs, trace.arguments) == (tuple(args), kwargs, dict(bound.arguments))
    assert (trace["target"].given, trace.result, trace.exc) == (given, result, None)


def test_hooks_that_take_all_arguments_are_traced() -> None:
    # Broke: the names that **kwargs leave out were taken for the place of a parameter.
    @hookable
    def plain(item: str, *, n: int = 1) -> None: ...

    plain.pre(lambda *args, **kwargs: None, name="all")
    plain.pre(lambda *, n, **kwargs: None, name="rest")
    assert [step.given for step in trace_of(plain)("tea").steps[:2]] == [{"args": ("tea",), "n": 1}, {"n": 1}]


def test_exceptions_of_hooks_and_target_are_in_their_steps() -> None:
    trace = trace_of(make())("gold")
    assert isinstance(trace["price"].raised, KeyError)
    assert trace["price"].raised is trace["twice"].raised
    assert trace["unknown"].answer == Return(0.0)
    assert (trace.result, trace.exc) == (0.0, None)


def test_wrong_arguments_are_the_functions_own_error() -> None:
    assert "missing 1 required positional argument: 'item'" in str(trace_of(make())().exc)


def test_tracing_changes_nothing_that_others_see() -> None:
    price = make()
    price("tea")
    code, members, functions = price.__code__, hooks(price).members, [hook.function for hook in hooks(price)]
    trace_of(price)("tea")
    assert price.__code__ is code
    assert hooks(price).members is members
    assert [hook.function for hook in hooks(price)] == functions


def test_counts_are_counted_in_a_trace_as_in_any_call() -> None:
    price = make()
    price.pre(once=True)(lambda: None)
    assert trace_of(price)("tea").ran("<lambda>")
    assert not trace_of(price)("tea").ran("<lambda>")
    assert "<lambda>" not in [hook.name for hook in hooks(price)]


def test_a_coroutine_function_gives_an_awaitable_of_the_trace() -> None:
    @hookable
    async def fetch(url: str) -> str:
        await asyncio.sleep(0)
        return url

    @fetch.pre
    async def shout(url: str) -> Args:
        await asyncio.sleep(0)
        return Args(url=url.upper())

    trace = asyncio.run(trace_of(fetch)("a"))
    assert (trace.names, trace.result, trace["shout"].answer) == (("shout", "fetch"), "A", Args(url="A"))
    assert isinstance(asyncio.run(trace_of(fetch)(3)).exc, AttributeError)


def test_generators_are_run_to_their_end() -> None:
    @hookable
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    @hookable
    async def later(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    for function in (count, later):
        function.item(lambda item: item * 10, name="ten")
    assert trace_of(count)(2).result == [0, 10]
    assert trace_of(count)(2).names == ("count", "ten", "ten")
    assert asyncio.run(trace_of(later)(2)).result == [0, 10]


def test_the_hooks_of_an_instance_are_traced_with_those_of_its_class() -> None:
    class Account:
        @hookable
        def withdraw(self, amount: int) -> int:
            return amount

    mine = Account()
    Account.withdraw.pre(lambda amount: None, name="every")
    hooks(mine.withdraw).post(lambda result: result + 1, name="mine")
    assert trace_of(mine.withdraw)(1).names == ("every", "withdraw", "mine")
    assert trace_of(Account.withdraw)(mine, 1).names == ("every", "withdraw")
    assert_order(mine.withdraw, "every", "withdraw", "mine")  # there was "no hook 'every'"
    assert "2 hooks\n  pre   every\n  post  mine" in draw_chain(hooks(mine.withdraw))


def test_a_step_that_did_not_run_is_asked_for_with_the_nearest_name() -> None:
    with pytest.raises(HookLookupError, match=r"'discont' did not run.*what ran: .*"):
        trace_of(make())("tea")["discont"]
    with pytest.raises(HookLookupError, match="did you mean 'discount'"):
        trace_of(make())("tea", 2)["discont"]


def test_a_trace_is_drawn_with_what_each_step_saw_and_answered() -> None:
    lines = str(trace_of(make())("tea", 0)).splitlines()
    assert lines[0].endswith("price → 6.0")
    assert lines[1] == "  pre     at_least_one(qty=0) → Args(qty=1)"
    assert lines[3] == "  target  price(item='tea', qty=2, tax=0.0) → 4.0"


def test_a_chain_is_drawn_with_its_conditions() -> None:
    price = make()
    price.pre(priority="LOW", after="at_least_one", before=None, name="late")(lambda: None)
    lines = draw_chain(hooks(price)).splitlines()
    assert lines[0].endswith("price, 6 hooks")
    assert lines[1:3] == ["  pre        at_least_one", "  pre        late (priority=70, after='at_least_one')"]


def test_assert_order_reads_the_chain_and_takes_the_targets_own_name() -> None:
    price = make()
    assert_order(price, "at_least_one", "twice", "price", "discount", "note")
    with pytest.raises(AssertionError, match=r"'note' does not run before 'price'"):
        assert_order(price, "note", "price")
    with pytest.raises(AssertionError, match=r"no hook 'discont'; did you mean 'discount'\?"):
        assert_order(price, "discont", "price")
    with hooks(price).paused(), pytest.raises(AssertionError, match=r"no hook 'at_least_one'(.|\n)*twice \(paused\)"):
        assert_order(price, "at_least_one", "twice")
    with pytest.raises(HookTypeError, match=r"assert_order\(\) was given no names of hooks"):  # it passed
        assert_order(price)


def test_the_arguments_of_a_method_have_its_object_and_those_of_a_wrapper_the_names_that_it_shows() -> None:
    class Account:
        @hookable
        def withdraw(self, amount: int = 1) -> int:
            return amount

    mine = Account()
    trace = trace_of(mine.withdraw)(2)
    assert (trace.args, trace.arguments) == ((2,), {"self": mine, "amount": 2})

    def plain(item: str, qty: int = 1) -> str:
        return item * qty

    @hookable
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert trace_of(wrapper)("tea").arguments == {"item": "tea", "qty": 1}
    with weave("math:hypot", pre=lambda: None):
        assert trace_of(math.hypot)(3, 4).args == (3, 4)
