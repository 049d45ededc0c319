"""Law 2 as properties: one total order, told from hooks that are plain data by a naive model of the law's own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aspecthook import Hook, HookOrderError, MountPoint, hookable, hooks
from aspecthook._core.law.order import Mentions, ties_broken_by

NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Row:
    """One hook as data. A mention in `before` and `after` is a name, or the number of a row: the hook itself."""

    number: int
    name: str
    priority: int = 50
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()


# The model: law 2, read aloud. It knows nothing of graphs.


def precedes(first: Row, second: Row) -> bool:
    """Whether a constraint puts `first` before `second`."""

    def mentions(keys: tuple[Any, ...], row: Row) -> bool:
        return row.name in keys or row.number in keys

    return mentions(first.before, second) or mentions(second.after, first)


def expected(rows: list[Row], ranks: Sequence[int] = ()) -> list[Row] | None:
    """Among the hooks whose constraints are met, the lowest (priority, added) goes next. None: there is no order.

    Between hooks of one priority, the ranks of their numbers decide first.
    """
    left, order = list(rows), []
    while left:
        met = [row for row in left if not any(precedes(other, row) for other in left)]
        if not met:
            return None
        order.append(min(met, key=lambda row: (row.priority, ranks and ranks[row.number], rows.index(row))))
        left.remove(order[-1])
    return order


# The real thing


class Mounted:
    """A mount point, and the numbers of its hooks as a call runs them."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.functions: dict[int, Callable[[], None]] = {}
        self.handles: dict[int, Hook] = {}

        @hookable
        def target() -> None: ...

        self.target = target
        self.mount: MountPoint = hooks(target)

    def function(self, number: int) -> Callable[[], None]:
        return self.functions.setdefault(number, lambda: self.ran.append(number))

    def _meant(self, key: Any) -> Any:
        """Turn a mention into what a user writes: a name, a handle if there is one yet, or the hook's function."""
        return key if isinstance(key, str) else self.handles.get(key) or self.function(key)

    def add(self, row: Row) -> Hook:
        before, after = ([self._meant(key) for key in keys] for keys in (row.before, row.after))
        self.handles[row.number] = self.mount.add(
            "pre",
            self.function(row.number),
            name=row.name,
            priority=row.priority,
            before=before,
            after=after[0] if len(after) == 1 else after,  # one alone needs no list
        )
        return self.handles[row.number]

    def order(self) -> list[int]:
        """Return the order in which a call runs the hooks, which is the one that the mount point shows."""
        self.ran.clear()
        self.target()
        numbers = {handle: number for number, handle in self.handles.items()}
        assert self.ran == [numbers[hook] for hook in self.mount.pre]
        return list(self.ran)


def mounted(rows: list[Row]) -> Mounted:
    made = Mounted()
    for row in rows:
        made.add(row)
    return made


# Strategies


@st.composite
def rows(draw: st.DrawFn, *, mentions: int = 2, unique: bool = False) -> list[Row]:
    number = draw(st.integers(0, 7))
    names = st.sampled_from([*NAMES, "nobody"])
    keys = st.lists(st.one_of(names, st.integers(0, max(number - 1, 0))), max_size=mentions, unique=True).map(tuple)
    made = []
    for place in range(number):
        name = f"n{place}" if unique else draw(st.sampled_from(NAMES))
        priority = draw(st.sampled_from([0, 10, 50, 50, 100]))
        made.append(Row(place, name, priority, draw(keys), draw(keys)))
    return made


def satisfiable(rows: list[Row]) -> list[Row]:
    assume(expected(rows) is not None)
    return rows


orderable = rows(mentions=1).map(satisfiable)


# The properties


@given(orderable, st.lists(st.lists(st.integers(0, 3), min_size=8, max_size=8), max_size=3))
def test_the_order_is_the_one_that_the_law_words(rows: list[Row], ranks: list[list[int]]) -> None:
    # Ranks of an inner block decide, and after it those of the outer one again. They lost to the outer one.
    made = mounted(rows)
    numbers = {id(function): number for number, function in made.functions.items()}

    def rank(of: list[int]) -> Callable[[Hook], int]:
        return lambda hook: of[numbers[id(hook.function)]]

    def check(outer: list[list[int]]) -> None:
        made.mount.rearrange()
        order = expected(rows, outer[-1] if outer else ())
        assert order is not None
        assert made.order() == [row.number for row in order]

    def nest(outer: list[list[int]]) -> None:
        check(outer)
        if len(outer) < len(ranks):
            inner = ranks[: len(outer) + 1]
            with ties_broken_by(rank(inner[-1])):
                nest(inner)
            check(outer)

    nest([])


@given(rows())
def test_a_hook_is_refused_exactly_if_it_closes_a_cycle_and_then_changes_nothing(rows: list[Row]) -> None:
    made, kept = Mounted(), []
    for row in rows:
        before = made.order()
        members, code = list(made.mount), made.target.__code__
        if expected([*kept, row]) is None:
            with pytest.raises(HookOrderError):
                made.add(row)
            assert made.target.__code__ is code
            assert list(made.mount) == members
            assert made.order() == before
        else:
            made.add(row)
            kept.append(row)
    order = expected(kept)
    assert order is not None
    assert made.order() == [row.number for row in order]


@given(rows(unique=True))
def test_the_message_of_a_refused_cycle_spells_one_out(rows: list[Row]) -> None:
    made, kept = Mounted(), {}
    for row in rows:
        named = {**kept, row.name: row}
        if expected(list(named.values())) is not None:
            made.add(row)
            kept = named
            continue
        with pytest.raises(HookOrderError) as caught:
            made.add(row)
        assert made.mount.name in str(caught.value)
        found = re.search(r"('\w+')( before '\w+')+", str(caught.value))
        assert found
        steps = re.findall(r"'(\w+)'", found[0])
        assert steps[0] == steps[-1]
        assert row.name in steps  # without the new hook there was no cycle
        assert all(precedes(named[one], named[next_]) for one, next_ in pairwise(steps))


@given(orderable, st.data())
def test_the_order_does_not_depend_on_hooks_that_came_and_went(rows: list[Row], data: st.DataObject) -> None:
    guests = data.draw(st.lists(st.sampled_from(rows), max_size=4)) if rows else []
    together = [(row, False) for row in rows]
    for place, row in enumerate(guests):
        guest = Row(100 + place, row.name, row.priority, row.before, row.after)
        together.insert(data.draw(st.integers(0, len(together))), (guest, True))
    made, gone = Mounted(), []
    for row, is_guest in together:
        try:
            handle = made.add(row)
        except HookOrderError:
            assume(is_guest)  # else a guest is in the way of a hook that stays
            continue
        if is_guest:
            gone.append(handle)
    for handle in data.draw(st.permutations(gone)):
        handle.remove()
    assert made.order() == mounted(rows).order()


@given(orderable)
def test_a_name_that_nobody_bears_constrains_nothing_until_one_does(rows: list[Row]) -> None:
    free = [Row(row.number, row.name, row.priority) for row in rows]
    waiting = [Row(row.number, row.name, row.priority, before=("late",)) for row in rows]
    made = mounted(waiting)
    assert made.order() == mounted(free).order()
    made.add(Row(99, "late", 0))
    assert made.order() == [*mounted(free).order(), 99]


@given(orderable, st.data())
def test_after_removals_a_mount_point_knows_the_mentions_of_the_hooks_that_are_left(
    rows: list[Row], data: st.DataObject
) -> None:
    # By these counts it is decided whether a new hook can close a cycle, or may be one that is there.
    made = mounted(rows)
    gone = data.draw(st.lists(st.sampled_from(rows), unique=True)) if rows else []
    for row in gone:
        made.handles[row.number].remove()
    left = Mentions()
    for hook in made.mount.members:
        left.count(hook, 1)
    assert made.mount.mentions == left
