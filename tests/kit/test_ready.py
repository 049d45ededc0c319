"""The ready laws hold on the calls that keep them, and say in one sentence what a call has broken."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from aspecthook import Args, HookLookupError, HookOptionError, HookTypeError, Return, hookable, hooks
from aspecthook.testing import (
    LawError,
    NotRepeatableError,
    Trace,
    always_last,
    before,
    commutes,
    exactly_once,
    idempotent,
    run_laws,
    trace_of,
)

NAMES = ("a", "b", "c")


def sentence(target: Any, rule: Any, *args: Any) -> str:
    """Give what a broken law says."""
    with pytest.raises(LawError) as caught:
        run_laws(target, rule, args=args)
    first = f"{hooks(target).name} breaks the law {repr(rule)!r}: {caught.value.__cause__}"
    assert str(caught.value).splitlines()[0] == first
    assert caught.value.law == repr(rule)
    return str(caught.value.__cause__)


# Properties: each law against its naive meaning on the names of the steps


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Draw a call in which hooks of few names ran, some of them not, in any order."""

    @hookable
    def target(skipped: list[int]) -> None: ...

    rows = draw(st.lists(st.sampled_from(NAMES), max_size=5))
    kinds = ("pre", "post", "always")
    for number, name in enumerate(rows):

        def runs(skipped: list[int], number: int = number) -> bool:
            return number not in skipped

        hooks(target).add(draw(st.sampled_from(kinds)), lambda: None, name=name, when=runs)  # type: ignore[arg-type]
    return trace_of(target)(draw(st.lists(st.integers(0, 4), max_size=3)))  # type: ignore[no-any-return]


def holds(rule: Callable[[Trace], bool], trace: Trace) -> bool:
    try:
        return rule(trace)
    except AssertionError:
        return False


@given(traces())
def test_laws_about_names_mean_what_they_say(trace: Trace) -> None:
    names = trace.names
    for one in NAMES:
        there = [hook.name for hook in trace._chain.hooks].count(one)
        assert holds(exactly_once(one), trace) == (names.count(one) == there)
        last = len(names) - 1 - names[::-1].index(one) if one in names else len(names) - 1
        assert holds(always_last(one), trace) == (last == len(names) - 1)
        for other in (*NAMES, "target"):
            if one != other:
                pairs = [(i, k) for i, x in enumerate(names) for k, y in enumerate(names) if (x, y) == (one, other)]
                assert holds(before(one, other), trace) == all(i < k for i, k in pairs)
    assert holds(exactly_once("target"), trace)


Step = tuple[str, int]


def arithmetic(steps: list[Step]) -> Any:
    @hookable
    def target(n: int) -> int:
        return n

    for place, (word, number) in enumerate(steps):

        def change(n: int, word: str = word, number: int = number) -> Args:
            return Args(n=n + number if word == "add" else n * number if word == "times" else number)

        target.pre(change, name=f"{word}{place}")
    return target


def run(steps: list[Step], n: int) -> int:
    for word, number in steps:
        n = n + number if word == "add" else n * number if word == "times" else number
    return n


STEPS = st.lists(st.tuples(st.sampled_from(["add", "times", "set"]), st.integers(-2, 3)), min_size=2, max_size=4)


@given(STEPS, st.integers(-3, 3), st.data())
@settings(max_examples=50, deadline=None)
def test_commutes_and_idempotent_agree_with_plain_arithmetic(steps: list[Step], n: int, data: st.DataObject) -> None:
    trace = trace_of(arithmetic(steps))(n)
    names = [f"{word}{place}" for place, (word, _) in enumerate(steps)]
    i, k = sorted(data.draw(st.lists(st.integers(0, len(steps) - 1), min_size=2, max_size=2, unique=True)))
    others = [*steps[i + 1 : k], *steps[k + 1 :]]
    ordered, swapped = ([*steps[:i], *pair, *others] for pair in ((steps[i], steps[k]), (steps[k], steps[i])))
    assert holds(commutes(names[i], names[k]), trace) == (run(ordered, n) == run(swapped, n))
    assert holds(idempotent(names[i]), trace) == (run(steps, n) == run([*steps[: i + 1], *steps[i:]], n))


# Examples


def price() -> Any:
    @hookable
    def price(item: str, qty: int = 1) -> float:
        return 2.0 * qty

    @price.pre
    def log(qty: int) -> None: ...

    @price.pre
    def at_least_one(qty: int) -> Args:
        return Args(qty=max(qty, 1))

    @price.pre
    def free(item: str) -> Any:
        return Return(0.0) if item == "sample" else None

    @price.around
    def twice(proceed: Any, item: str) -> Any:
        return sum(proceed() for _ in range({"pair": 2, "trio": 3}.get(item, 1)))

    @price.post
    def tax(result: float) -> float:
        return result * 1.5

    @price.post
    def shipping(result: float) -> float:
        return result + 4

    @price.always
    def note(result: float, qty: int) -> None: ...

    return price


def test_before() -> None:
    assert sentence(price(), before("tax", "log"), "tea") == "'log' ran before 'tax'"
    assert sentence(price(), before("tax", "price"), "tea") == "'price' ran before 'tax'"
    run_laws(price(), before("log", "price"), args=("tea",))
    run_laws(price(), before("tax", "price"), args=("sample",))  # the target did not run


def test_exactly_once() -> None:
    run_laws(price(), exactly_once("log", "price", "tax"), args=("tea",))
    assert sentence(price(), exactly_once("log", "price"), "sample") == "'price' did not run"
    assert sentence(price(), exactly_once("price"), "pair") == "'price' ran twice"
    assert sentence(price(), exactly_once("price"), "trio") == "'price' ran 3 times"
    target = price()
    target.pre(lambda: None, name="log")
    run_laws(target, exactly_once("log"), args=("tea",))
    target.pre(lambda: None, name="log", when=lambda: False)
    assert sentence(target, exactly_once("log"), "tea") == "'log' ran twice, and 3 hooks have that name"


def test_always_last() -> None:
    run_laws(price(), always_last("note"), args=("tea",))
    assert sentence(price(), always_last("shipping"), "tea") == "'note' ran after 'shipping'"


def test_commutes() -> None:
    run_laws(price(), commutes("log", "at_least_one"), args=("tea", 0))
    told = "'tax' before 'shipping' gives 7.0, and after it gives 9.0"
    assert sentence(price(), commutes("tax", "shipping"), "tea") == told
    assert sentence(price(), commutes("shipping", "tax"), "tea") == told  # as the chain has them


def test_idempotent() -> None:
    run_laws(price(), idempotent("at_least_one"), args=("tea", 0))
    told = "with 'tax' run twice the call gives 8.5, and with it run once it gives 7.0"
    assert sentence(price(), idempotent("tax"), "tea") == told


SHAPES: list[tuple[Any, Any]] = [
    (lambda items: items, lambda given: given),
    (lambda items: (items, "a"), lambda given: given[0]),
    (lambda items: {"a": items}, lambda given: given["a"]),
    (lambda items: [{1}, items], lambda given: given[1]),
]


@pytest.mark.parametrize(("put", "take"), SHAPES)
def test_hooks_that_change_arguments_in_place_see_them_as_they_were_given(put: Any, take: Any) -> None:
    # The first call takes the only item out; a second one on the same list would find nothing to take.
    @hookable
    def target(given: Any) -> list[int]:
        return [*take(given)]

    target.pre(lambda given: take(given)[:1] and take(given).pop() and None, name="pop")
    target.pre(lambda given: take(given).append(5), name="put")
    told = "'pop' before 'put' gives [5], and after it gives [1]"
    assert sentence(target, commutes("pop", "put"), put([1])) == told
    with pytest.raises(LawError):
        run_laws(target, commutes("pop", "put"), args=(put(items := [1]),))
    assert items == [5]  # as one call has left it


def test_a_call_that_fills_a_cache_and_a_list_in_itself_are_repeatable() -> None:
    seen: list[object] = []

    @hookable
    def target(given: object) -> bool:
        seen.append(given)
        return len(seen) > 1

    target.pre(lambda: None, name="a")
    target.pre(lambda: None, name="b")
    given: list[object] = []
    given.append(given)
    run_laws(target, commutes("a", "b"), args=(given,))


def test_a_hook_that_is_not_reentrant_stays_so_when_a_call_is_repeated() -> None:
    @hookable
    def target(n: int) -> int:
        return n if n < 3 else target(n - 1)  # type: ignore[no-any-return]

    target.post(lambda result: result + 1, name="one", reentrant=False, every=1)
    target.post(lambda result: result + 2, name="two")
    run_laws(target, commutes("one", "two"), args=(4,))


# What is refused


@pytest.mark.parametrize(
    ("make", "error", "what"),
    [
        (lambda: before("auth", "auth"), HookOptionError, r"before\(\) was given 'auth', 'auth'; give different names"),
        (exactly_once, HookOptionError, r"exactly_once\(\) was given no names"),
        (
            lambda: always_last(price),
            HookTypeError,
            r"always_last\(\) was given <function .*>; give the names of hooks",
        ),
    ],
)
def test_names_that_make_no_law_are_refused(make: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        make()


@pytest.mark.parametrize(
    ("rule", "error", "what"),
    [
        (before("log", "taxx"), HookLookupError, "names 'taxx', and no hook has that name; .*did you mean 'tax'"),
        (idempotent("price"), HookLookupError, "names 'price', and no hook has that name"),
        (commutes("log", "tax"), HookTypeError, "'log' is pre and 'tax' is post, and their kinds order them"),
    ],
)
def test_run_laws_refuses_names_that_no_hook_has(rule: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        run_laws(price(), rule, args=("tea",))


def test_results_without_an_equality_of_their_own_are_named_as_the_reason() -> None:
    class Thing:
        def __repr__(self) -> str:
            return "Thing()"

    @hookable
    def target() -> Thing:
        return Thing()

    target.pre(lambda: None, name="a")
    with pytest.raises(NotRepeatableError, match=r"then gives Thing\(\); results are compared with =="):
        run_laws(target, idempotent("a"), args=())


def test_a_trace_made_by_hand_cannot_be_repeated() -> None:
    trace = Trace("made")
    trace._chain = trace_of(price())("tea")._chain
    with pytest.raises(HookTypeError, match="made: this trace was not made by trace_of"):
        idempotent("tax")(trace)


# A law that fails


def test_a_law_that_raises_something_else_is_told_with_its_name_and_the_call() -> None:
    def owner(trace: Trace) -> bool:
        return bool(trace.arguments["owner"] == "ann")

    target = price()
    with pytest.raises(LawError) as caught:
        run_laws(target, owner, args=("tea",))
    first, _, rest = str(caught.value).partition("\n\n")
    raised = "the law 'owner' raised KeyError('owner') on this call, instead of returning what must be true"
    assert first == f"{hooks(target).name}: {raised}"
    assert "the call:\n" in rest and "price(item='tea', qty=1)" in rest
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.law == "owner" and caught.value.trace is not None


@pytest.mark.parametrize("error", [UnsatisfiedAssumption, unittest.SkipTest, KeyboardInterrupt])
def test_skip_and_fail_in_a_law_reach_the_test_runner(error: type[BaseException]) -> None:
    def refuses(trace: Trace) -> bool:
        raise error

    with pytest.raises(error):
        run_laws(price(), refuses, args=("tea",))
