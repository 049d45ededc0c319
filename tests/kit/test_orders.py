"""The orders that constraints allow, and whether the outcome of a call depends on which of them it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import islice, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import Args, HookWarning, hookable, hooks
from aspecthook.testing import (
    NotRepeatableError,
    assert_order_free,
    orders_of,
    underconstrained,
)
from aspecthook.testing._orders import _chosen
from tests.properties.test_order import Row, expected, precedes, rows

FEW = settings(max_examples=60, deadline=None)


def mounted(drawn: list[Row]) -> Any:
    """Make a mount point with hooks named by their numbers, with the constraints and priorities of rows."""

    @hookable
    def target() -> None: ...

    for row in drawn:
        meant = [
            [str(one.number) for one in drawn for key in keys if key in (one.name, one.number)]
            for keys in (row.before, row.after)
        ]
        hooks(target).add(
            "pre",
            lambda: None,
            name=str(row.number),
            priority=row.priority,
            before=meant[0],
            after=meant[1],
        )
    return target


def orderable(drawn: list[Row]) -> list[Row]:
    """Leave out the rows that contradict those before them."""
    kept: list[Row] = []
    for row in drawn:
        if expected([*kept, row]) is not None:
            kept.append(row)
    return kept


def allowed(order: tuple[Row, ...]) -> bool:
    return not any(precedes(later, one) for place, one in enumerate(order) for later in order[place:])


def numbers(order: Any) -> tuple[str, ...]:
    return tuple(str(row.number) for row in order)


# Properties


@given(rows().map(lambda drawn: orderable(drawn[:5])))
@FEW
def test_the_orders_are_the_permutations_that_break_no_constraint(drawn: list[Row]) -> None:
    found = list(orders_of(mounted(drawn)))
    assert found[0] == numbers(expected(drawn))
    assert len(found) == len(set(found))
    assert set(found) == {numbers(one) for one in permutations(drawn) if allowed(one)}


Step = tuple[str, int]
STEPS = st.lists(st.tuples(st.sampled_from(["add", "times"]), st.integers(-2, 3)), min_size=1, max_size=4)


def arithmetic(steps: list[Step], kind: str = "pre") -> Any:
    @hookable
    def target(n: int) -> int:
        return n

    for place, (word, number) in enumerate(steps):

        def changed(n: int, word: str = word, number: int = number) -> int:
            return n + number if word == "add" else n * number

        def change(n: int, changed: Any = changed) -> Args:
            return Args(n=changed(n))

        def fold(result: int, changed: Any = changed) -> int:
            return changed(result)  # type: ignore[no-any-return]

        hooks(target).add(kind, change if kind == "pre" else fold, name=f"{word}{place}")  # type: ignore[arg-type]
    return target


def run(steps: Any, n: int) -> int:
    for word, number in steps:
        n = n + number if word == "add" else n * number
    return n


@given(STEPS, st.integers(-3, 3), st.sampled_from(["pre", "post"]))
@FEW
def test_additions_and_multiplications_are_what_plain_arithmetic_says(steps: list[Step], n: int, kind: str) -> None:
    target = arithmetic(steps, kind)
    outcomes = {run(one, n) for one in permutations(steps)}
    if len(outcomes) == 1:
        assert_order_free(target, args=(n,))
        return
    with pytest.raises(AssertionError) as caught:
        assert_order_free(target, args=(n,))
    # The two orders differ in two neighbours, and what is said to come of them does.
    lines = str(caught.value).splitlines()
    names = [f"{word}{place}" for place, (word, _) in enumerate(steps)]
    told = [line.removeprefix(f"  {kind}: ").split(", ") for line in (lines[2], lines[4])]
    assert [run([steps[names.index(name)] for name in row], n) for row in told] == [
        int(line.removeprefix("    gives ")) for line in (lines[3], lines[5])
    ]
    swapped = [place for place, (one, other) in enumerate(zip(*told, strict=True)) if one != other]
    assert len(swapped) == 2 and swapped[1] - swapped[0] == 1


@given(STEPS, st.integers(-3, 3))
@FEW
def test_underconstrained_pairs_are_those_that_differ_side_by_side(steps: list[Step], n: int) -> None:
    target = arithmetic(steps)
    wanted = []
    for i in range(len(steps)):
        for k in range(i + 1, len(steps)):
            rest = [*steps[i + 1 : k], *steps[k + 1 :]]
            now, other = (run([*steps[:i], *pair, *rest], n) for pair in ([steps[i], steps[k]], [steps[k], steps[i]]))
            if now != other:
                wanted.append((f"{steps[i][0]}{i}", f"{steps[k][0]}{k}", now, other))
    found = underconstrained(target, args=(n,))
    assert [(one.first, one.second, one.outcome.result, one.swapped.result) for one in found] == wanted


# Examples: orders_of


def save() -> Any:
    @hookable
    def save(order: int) -> int:
        return order

    save.pre(lambda: None, name="auth", before="check")
    save.pre(lambda: None, name="check")
    save.post(lambda: None, name="log")
    save.post(lambda: None, name="send", priority="LOW")
    return save


def test_a_chain_may_be_longer_than_functions_call_each_other() -> None:
    @hookable
    def target() -> None: ...

    for number in range(1500):
        target.pre(lambda: None, name=f"h{number}")
    first, second = islice(orders_of(target), 2)
    assert first[:-2] == second[:-2] and first[-2:] == second[:-3:-1]


# Examples: assert_order_free


def test_the_two_orders_and_the_first_difference_are_shown() -> None:
    target = arithmetic([("add", 1), ("add", 2), ("times", 2)])
    target.post(lambda result: None, name="look")
    with pytest.raises(AssertionError) as caught:
        assert_order_free(target, args=(1,))
    assert str(caught.value).splitlines() == [
        f"{hooks(target).name} depends on the order of its hooks",
        "",
        "  pre: add0, add1, times2",
        "    gives 8",
        "  pre: add0, times2, add1",
        "    gives 6",
        "",
        "the first difference:",
        "  pre times2(n=4) → Args(n=8)",
        "  pre times2(n=2) → Args(n=4)",
    ]


def test_priorities_are_left_aside() -> None:
    target = arithmetic([("add", 1)])
    target.pre(lambda n: Args(n=n * 2), name="double", priority="LOW")
    with pytest.raises(AssertionError, match="depends on the order"):
        assert_order_free(target, args=(3,))


class Account:
    def __init__(self) -> None:
        self.balance = 10
        self.lock = threading.Lock()

    @hookable
    def withdraw(self, n: int) -> int:
        self.balance -= n
        return self.balance

    def __deepcopy__(self, memo: dict[int, Any]) -> Account:
        copied = Account()
        copied.balance = self.balance
        return copied

    @classmethod
    @hookable
    def make(cls, n: int) -> int:
        return n

    @hookable
    async def fetch(self, n: int) -> int:
        await asyncio.sleep(0)
        return n

    @hookable
    def each(self, n: int) -> Iterator[int]:
        yield from range(n)

    @hookable
    async def stream(self, n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number


@pytest.mark.parametrize("name", ["withdraw", "make", "fetch", "each", "stream"])
def test_targets_of_every_style_are_called_on_copies(name: str) -> None:
    account = Account()
    mount = hooks(getattr(account, name))
    try:
        mount.add("pre", lambda n: Args(n=n + 1), name="more")
        mount.add("pre", lambda n: Args(n=n + 2), name="much more")
        assert_order_free(getattr(account, name), args=(1,))
        mount.add("pre", lambda n: Args(n=n * 2), name="double")
        with pytest.raises(AssertionError, match="first difference:\n  pre double"):
            assert_order_free(getattr(account, name), args=(1,))
        pairs = underconstrained(getattr(account, name), args=(1,))
        assert [(pair.first, pair.second) for pair in pairs] == [("more", "double"), ("much more", "double")]
        assert account.balance == 10
    finally:
        mount.clear()


def test_arguments_that_cannot_be_copied_are_passed_as_they_are() -> None:
    @hookable
    def target(lock: Any, items: list[int]) -> bool:
        items.append(1)
        return lock is mine and items == [1]

    target.pre(lambda: None, name="a")
    mine, items = threading.Lock(), list[int]()
    assert_order_free(target, args=(mine,), kwargs={"items": items})
    assert items == []


@pytest.mark.parametrize(
    ("options", "then"), [({"once": True}, [4, 2, 2]), ({"times": 2}, [4, 4, 2]), ({"every": 2}, [2, 4, 2])]
)
def test_hooks_that_count_run_in_each_call_and_are_not_used_up(options: Any, then: list[int]) -> None:
    target = arithmetic([("add", 1)])
    target.pre(lambda n: Args(n=n * 2), name="counts", **options)
    with pytest.raises(AssertionError, match="pre: add0, counts"):
        assert_order_free(target, args=(1,))
    assert [target(1) for _ in then] == then


def test_ctrl_c_ends_it() -> None:
    @hookable
    def target() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assert_order_free(target)


def test_more_orders_than_are_tried_are_sampled_and_that_is_said() -> None:
    target = arithmetic([("add", number) for number in range(7)])
    with pytest.warns(HookWarning, match="more than 720 orders, and only 720 of them were tried"):
        assert_order_free(target, args=(1,))
    target.pre(lambda n: Args(n=n * 2), name="double")
    with pytest.raises(AssertionError, match=r"its hooks \(a sample of its orders was tried\)"):
        assert_order_free(target, args=(1,))


PAIRS = [(one, other) for other in range(5) for one in range(other)]


@given(
    st.lists(st.sampled_from([30, 50]), min_size=5, max_size=5),
    st.lists(st.sampled_from(PAIRS), max_size=3),
    st.integers(1, 12),
)
@FEW
def test_a_sample_has_as_many_different_orders_as_asked_for_and_each_is_allowed(
    priorities: list[int], pairs: list[tuple[int, int]], most: int
) -> None:
    @hookable
    def target() -> None: ...

    for number, priority in enumerate(priorities):
        after = [str(one) for one, other in pairs if other == number]
        target.pre(lambda: None, name=str(number), priority=priority, after=after)
    chain = hooks(target).chain()
    chosen, is_sample = _chosen(chain, most)
    every = list(orders_of(target))
    names = [tuple(hook.name for hook in one.hooks) for one in chosen]
    assert len(set(names)) == len(names) == min(most, len(every))
    assert set(names) <= set(every) and names[0] == every[0]
    assert is_sample == (most < len(every))
    again, _ = _chosen(chain, most)
    assert [one.hooks for one in again] == [one.hooks for one in chosen]


# Examples: underconstrained


def test_an_underconstrained_pair_is_one_sentence_of_advice() -> None:
    @hookable
    def price(item: str) -> float:
        return 8.4

    price.post(lambda result: round(result), name="round")
    price.post(lambda result: None, name="look")
    price.post(lambda result: result * 1.5, name="tax")
    (pair,) = underconstrained(price, args=("tea",))
    told = "'round' before 'tax' gives 12.0, and after it gives 13: only the order of adding decides; "
    assert str(pair) == repr(pair) == told + "add before= or after="
    assert (pair.first, pair.second, pair.kind) == ("round", "tax", "post")
    assert (pair.outcome.result, pair.swapped.result) == (12.0, 13)
    assert pair.swapped.before("tax", "round")


@pytest.mark.parametrize("options", [{"priority": "LOW"}, {"after": "round"}, {"after": "look"}])
def test_hooks_with_priorities_or_constraints_are_not_underconstrained(options: dict[str, Any]) -> None:
    @hookable
    def price(item: str) -> float:
        return 8.4

    price.post(lambda result: round(result), name="round")
    price.post(lambda result: None, name="look", after="round")
    price.post(lambda result: result * 1.5, name="tax", **options)
    assert underconstrained(price, args=("tea",)) == []


# Bad input


@pytest.mark.parametrize("check", [assert_order_free, underconstrained])
def test_a_target_that_is_not_repeatable_is_told_with_both_outcomes(check: Any) -> None:
    count = iter(range(9))

    @hookable
    def target(n: int) -> int:
        if next(count):
            raise ValueError(n)
        return n

    with pytest.raises(NotRepeatableError, match="not repeatable: the same call gives 1, and then raises Val"):
        check(target, args=(1,))
