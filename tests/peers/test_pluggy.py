"""pluggy against its documentation: the order of a call, wrappers, first results, historic calls, unregistering."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import pluggy
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, invariant, rule

from .beside import BesidePeer, peer_test, story_of
from .refute import FEW, PeerMachine, holds, refuted

TRYLAST_IS_LIFO = "tryfirst and trylast hooks are still invoked in LIFO order within each category"
RAISING_SKIPS = (
    "old-style hook wrappers should not raise exceptions; this will cause further hookwrappers to be skipped"
)

spec, impl = pluggy.HookspecMarker("peer"), pluggy.HookimplMarker("peer")


class Boom(Exception):
    """What an implementation raises; its argument says which."""


@dataclass(frozen=True)
class Row:
    """One plugin as data: how its implementation is marked, what it answers, and when it fails."""

    number: int
    style: str = "plain"
    place: str = ""
    answer: int | None = None
    fails: str = ""

    @property
    def wraps(self) -> bool:
        return self.style != "plain"


# The model: the documentation, read aloud.


def ordered(rows: Iterable[Row], *, trylast_is_lifo: bool) -> list[Row]:
    """Wrappers before the others; in each of the two tryfirst, unmarked, trylast; in each of the three LIFO."""
    newest_first = list(rows)[::-1]

    def category(wraps: bool, place: str) -> list[Row]:
        found = [row for row in newest_first if row.wraps is wraps and row.place == place]
        return found if place != "trylast" or trylast_is_lifo else found[::-1]

    return [row for wraps in (True, False) for place in ("tryfirst", "", "trylast") for row in category(wraps, place)]


Outcome = tuple[str, Any]


@dataclass(frozen=True)
class Historic:
    """A historic call: its argument, the results that its callback should have heard, and those it has heard."""

    value: int
    wanted: list[int]
    heard: list[int]

    def reach(self, row: Row) -> None:
        if row.answer is not None:
            self.wanted.append(row.answer)


def called(order: list[Row], *, first: bool, raising_skips: bool) -> tuple[list[Any], Outcome]:
    """Return what one call does, as a list of events, and what the caller gets."""
    events, results, opened = list[Any](), list[int](), list[Row]()
    outcome: Outcome | None = None
    for row in order:
        events.append(("in", row.number))
        if row.fails == "in":
            outcome = ("raised", row.number)
            break
        if row.wraps:
            opened.append(row)
        elif row.answer is not None:
            results.append(row.answer)
            if first:
                break
    if outcome is None:
        outcome = ("gave", next(iter(results), None) if first else results)
    for row in reversed(opened):
        events.append(("out", row.number, outcome))
        if row.fails == "out":
            outcome = ("raised", row.number)
            if raising_skips and row.style == "hookwrapper":
                break
        elif row.answer is not None:
            outcome = ("gave", row.answer)
    return events, outcome


# The real thing


def outcome_of(act: Callable[[], Any]) -> Outcome:
    try:
        return "gave", act()
    except Boom as error:
        return "raised", error.args[0]


class Plugin:
    """One plugin: the same implementation for two hooks, and one that never fails for the historic hook."""

    def __init__(self, row: Row, events: list[Any]) -> None:
        self.row, self.events = row, events
        mark = impl(**{row.place: True} if row.place else {}, **{row.style: True} if row.wraps else {})
        self.spot = self.first = mark(getattr(self, f"make_{row.style}")())
        if not row.wraps:
            self.past = mark(self.make_past())

    def enter(self) -> None:
        self.events.append(("in", self.row.number))
        if self.row.fails == "in":
            raise Boom(self.row.number)

    def leave(self, outcome: Outcome) -> None:
        self.events.append(("out", self.row.number, outcome))
        if self.row.fails == "out":
            raise Boom(self.row.number)

    def make_plain(self) -> Callable[[], int | None]:
        def plain() -> int | None:
            self.enter()
            return self.row.answer

        return plain

    def make_wrapper(self) -> Callable[[], Generator[None, Any, Any]]:
        def wrapper() -> Generator[None, Any, Any]:
            self.enter()
            try:
                result = yield
            except Boom as error:
                self.leave(("raised", error.args[0]))
                if self.row.answer is None:
                    raise
                return self.row.answer
            self.leave(("gave", result))
            return result if self.row.answer is None else self.row.answer

        return wrapper

    def make_hookwrapper(self) -> Callable[[], Generator[None, Any, None]]:
        def hookwrapper() -> Generator[None, Any, None]:
            self.enter()
            outcome = yield
            self.leave(outcome_of(outcome.get_result))
            if self.row.answer is not None:
                outcome.force_result(self.row.answer)

        return hookwrapper

    def make_past(self) -> Callable[[int], int | None]:
        def past(value: int) -> int | None:
            self.events.append(("past", self.row.number, value))
            return self.row.answer

        return past


class Specs:
    @spec
    def spot(self) -> None: ...

    @spec(firstresult=True)
    def first(self) -> None: ...

    @spec(historic=True)
    def past(self, value: int) -> None: ...


class Manager:
    """A plugin manager and what its hooks did."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.events: list[Any] = []
        self.plugins: dict[int, Plugin] = {}
        self.pm = pluggy.PluginManager("peer")
        self.pm.add_hookspecs(Specs)
        for row in rows:
            self.register(row)

    def register(self, row: Row) -> None:
        plugin = self.plugins[row.number] = Plugin(row, self.events)
        self.pm.register(plugin)

    def unregister(self, number: int) -> None:
        self.pm.unregister(self.plugins.pop(number))

    def call(self, act: Callable[[], Any]) -> tuple[list[Any], Outcome]:
        self.events.clear()
        with warnings.catch_warnings():  # pluggy warns of a hookwrapper that raises; here it is part of the rules
            warnings.simplefilter("ignore", pluggy.PluggyTeardownRaisedWarning)
            outcome = outcome_of(act)
        return list(self.events), outcome

    def order(self) -> list[int]:
        """Return the numbers of the implementations in the order in which a call begins them."""
        return [event[1] for event in self.call(self.pm.hook.spot)[0] if event[0] == "in"]


ANSWERS = st.sampled_from([None, 1, 2])


class PluggyMachine(PeerMachine):
    """Plugins come and go between calls of each sort; the model is a list of rows."""

    members = Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        self.real = Manager()
        self.rows: list[Row] = []
        self.history: list[Historic] = []
        self.next = 0

    def row(self, **drawn: Any) -> Row:
        self.next += 1
        return Row(self.next, **drawn)

    def expected(self, rows: list[Row], first: bool = False) -> tuple[list[Any], Outcome]:
        order = ordered(rows, trylast_is_lifo=self.believes(TRYLAST_IS_LIFO))
        return called(order, first=first, raising_skips=self.believes(RAISING_SKIPS))

    @rule(
        target=members,
        style=st.sampled_from(["plain", "wrapper", "hookwrapper"]),
        place=st.sampled_from(["", "tryfirst", "trylast"]),
        answer=ANSWERS,
        fails=st.sampled_from(["", "", "in", "out"]),
    )
    def register(self, **drawn: Any) -> int:
        row = self.row(**drawn)
        self.real.events.clear()
        self.real.register(row)
        self.rows.append(row)
        assert self.real.events == ([] if row.wraps else [("past", row.number, call.value) for call in self.history])
        self.hear_of_the_past(row)
        return row.number

    def hear_of_the_past(self, row: Row) -> None:
        for call in () if row.wraps else self.history:
            call.reach(row)

    @rule(number=consumes(members))
    def unregister(self, number: int) -> None:
        self.real.unregister(number)
        self.rows = [row for row in self.rows if row.number != number]

    @rule()
    def call(self) -> None:
        assert self.real.call(self.real.pm.hook.spot) == self.expected(self.rows)

    @rule()
    def call_first(self) -> None:
        assert self.real.call(self.real.pm.hook.first) == self.expected(self.rows, first=True)

    @rule(answer=ANSWERS)
    def call_with_an_extra(self, answer: int | None) -> None:
        extra = self.row(answer=answer)
        method = Plugin(extra, self.real.events).make_plain()
        done = self.real.call(lambda: self.real.pm.hook.spot.call_extra([method], {}))
        assert done == self.expected([*self.rows, extra])

    @rule(target=members, number=consumes(members))
    def leave_and_come_back_in_a_call(self, number: int) -> int:
        """A call sees the chain as it was when it began."""
        plugin = self.real.plugins[number]

        def change() -> None:
            self.real.pm.unregister(plugin)
            self.real.pm.register(plugin)

        rows, extra = list(self.rows), self.row()
        events, outcome = self.real.call(lambda: self.real.pm.hook.spot.call_extra([change], {}))
        expected, wanted = self.expected([*rows, extra])
        ran = ("in", extra.number) in expected  # nobody before it has failed
        assert ([event for event in events if event[0] != "past"], outcome) == (
            [event for event in expected if event != ("in", extra.number)],
            wanted,
        )
        if ran:
            [row] = [row for row in self.rows if row.number == number]
            self.rows = [*(row for row in self.rows if row.number != number), row]
            self.hear_of_the_past(row)
        return number

    @rule(value=st.integers(0, 2))
    def call_historic(self, value: int) -> None:
        call = Historic(value, [], [])
        self.history.append(call)
        done, _ = self.real.call(lambda: self.real.pm.hook.past.call_historic(call.heard.append, {"value": value}))
        order = [row for row in ordered(self.rows, trylast_is_lifo=self.believes(TRYLAST_IS_LIFO)) if not row.wraps]
        assert done == [("past", row.number, value) for row in order]
        for row in order:
            call.reach(row)

    @invariant()
    def the_callbacks_of_historic_calls_have_heard_every_result(self) -> None:
        assert [call.heard for call in self.history] == [call.wanted for call in self.history]


TestPluggyMachine = holds(PluggyMachine)


# The order alone, in every short story


class PluggyOrder(BesidePeer):
    """Plain implementations; those that are called first have the highest priority, since the newest is first."""

    members: ClassVar[dict[str, dict[str, Any]]] = {
        "a": {},
        "b": {},
        "first_a": {"priority": 90},
        "first_b": {"priority": 90},
        "last_a": {"priority": 10},
        "last_b": {"priority": 10},
    }

    def start(self) -> None:
        self.manager = pluggy.PluginManager("peer")

    def join(self, name: str) -> Any:
        marks = {"tryfirst": name.startswith("first"), "trylast": name.startswith("last"), **self.style}
        implementation = impl(**marks)(self.implementation(name))
        plugin = type(name, (), {"spot": staticmethod(implementation)})()
        self.manager.register(plugin)
        return plugin

    style: ClassVar[dict[str, bool]] = {}

    def implementation(self, name: str) -> Callable[[], Any]:
        return lambda: self.ran.append(name)

    def leave(self, joined: Any) -> None:
        self.manager.unregister(joined)

    def act(self) -> None:
        self.manager.hook.spot()

    def order(self, names: list[str]) -> list[str]:
        last = [name for name in names if name.startswith("last")]
        return [*(name for name in reversed(names) if name not in last), *last]

    def documented(self, names: list[str]) -> None:
        self.ran.extend(self.order(names))


class PluggyWrappers(PluggyOrder):
    """Wrappers: the first is the outermost."""

    style: ClassVar[dict[str, bool]] = {"wrapper": True}

    def implementation(self, name: str) -> Callable[[], Any]:
        def wrapper() -> Generator[None, Any, Any]:
            self.ran.append(f"{name} begins")
            result = yield
            self.ran.append(f"{name} ends")
            return result

        return wrapper

    def documented(self, names: list[str]) -> None:
        order = self.order(names)
        self.ran.extend([f"{name} begins" for name in order] + [f"{name} ends" for name in reversed(order)])


class TrylastIsLifo(PluggyOrder):
    def order(self, names: list[str]) -> list[str]:
        return names[::-1]


TestPluggyOrder = peer_test(PluggyOrder)
TestPluggyWrappers = peer_test(PluggyWrappers)


def test_two_implementations_marked_trylast_are_called_in_the_order_of_registration() -> None:
    steps = ["state.add('pre last_a')", "state.add('pre last_b')"]
    assert story_of(TrylastIsLifo).splitlines()[:-2] == steps


# What the machine found


@pytest.mark.parametrize("claim", [TRYLAST_IS_LIFO, RAISING_SKIPS])
def test_the_machine_refutes_in_a_few_steps(claim: str) -> None:
    assert len(refuted(PluggyMachine, claim)) <= FEW


def test_an_implementation_that_is_marked_tryfirst_and_trylast_is_last() -> None:
    manager = Manager([Row(1)])
    both = impl(tryfirst=True, trylast=True)(lambda: manager.events.append(("in", 2)))
    plugin = type("Both", (), {"spot": staticmethod(both)})
    manager.pm.register(plugin)
    assert manager.order() == [1, 2]


def test_a_replay_that_raises_leaves_the_plugin_half_registered() -> None:
    manager = Manager()
    manager.pm.hook.past.call_historic(kwargs={"value": 1})
    plugin = Plugin(Row(1, answer=1), manager.events)

    def failing(value: int) -> None:
        raise Boom(value)

    plugin.past = impl(failing)
    with pytest.raises(Boom):
        manager.pm.register(plugin)
    assert manager.pm.is_registered(plugin)
    assert manager.pm.hook.first() == 1  # before `past` in the alphabet: it is there
    assert manager.pm.hook.spot() == []  # after it: it is not
    with pytest.raises(ValueError, match="already registered"):
        manager.pm.register(plugin)
