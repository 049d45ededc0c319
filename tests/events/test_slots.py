"""Slots such as `sys.excepthook`, which others use as well."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aspecthook import events, hooks
from aspecthook.events._slots import AttributeSlot, Link
from aspecthook.events._wired import wired
from tests.events.programs import fail, in_thread, replaced, run, unraisable

pytestmark = pytest.mark.usefixtures("no_trace")


def covered(owner: Any, name: str) -> tuple[Any, Any]:
    """Put a callable of others over what is there, which calls that; return both."""
    below = getattr(owner, name)

    def theirs(*args: Any) -> Any:
        return below(*args)

    setattr(owner, name, theirs)
    return theirs, below


PLACES = [(sys, "excepthook"), (threading, "excepthook"), (sys, "unraisablehook")]


def happen(owner: Any, name: str) -> None:
    """Make the interpreter call what is in a place."""
    if name == "unraisablehook":
        unraisable()
    elif owner is threading:
        in_thread(fail)
    else:
        sys.excepthook(ValueError, ValueError("x"), None)


@pytest.mark.parametrize(("owner", "name"), PLACES, ids=["main", "thread", "unraisable"])
def test_callable_of_others_over_ours_is_left_alone(owner: Any, name: str) -> None:
    told: list[object] = []
    reported: list[object] = []
    event = events.uncaught_exception
    with replaced(owner, name, lambda *args: reported.append(args[0])):
        before = getattr(owner, name)
        event.on(lambda origin: told.append(origin), name="listener")
        theirs, ours = covered(owner, name)
        assert hooks(event).displaced
        happen(owner, name)
        assert len(told) == len(reported) == 1  # ours acts inside theirs

        hooks(event).remove("listener")
        assert getattr(owner, name) is theirs and hooks(event).displaced
        happen(owner, name)
        assert len(told) == 1 and len(reported) == 2

        setattr(owner, name, ours)  # they go, and put back what they had found
        assert not hooks(event).displaced and getattr(owner, name) is before
        reported.clear()


def test_deleted_excepthook_stays_deleted() -> None:
    program = """
del sys.excepthook
events.uncaught_exception.on(lambda: print("told"))
sys.excepthook(ValueError, ValueError("shown"), None)
hooks(events.uncaught_exception).clear()
print(hasattr(sys, "excepthook"))
"""
    done = run(program)
    assert done.stdout.splitlines() == ["told", "False"] and done.stderr == "ValueError: shown\n"


def test_link_is_reused() -> None:
    """Once it died while another thread was about to call it: `sys` does not keep its hooks alive (gh-130163)."""
    listen: Callable[[], None] = lambda: None
    links: list[Any] = []
    for _ in range(2):
        with hooks(events.uncaught_exception).add("on", listen):
            links.append(sys.unraisablehook)
    assert links[0] is links[1] and sys.unraisablehook is not links[0]


class SlotMachine(RuleBasedStateMachine):
    """Subscribers of ours and hooks of others come and go in one place, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.reported = 0
        self.told = 0
        self.covered = False
        self.module: Any = types.ModuleType("interpreter")
        self.original = self.module.report = self.report
        self.event: Any = wired(
            "report", lambda event: [AttributeSlot(self.module, "report", event, key=0)], first=True
        )(lambda what: None)
        self.handles: list[tuple[Any, object]] = []  # each with what it answers
        self.pauses: list[ExitStack] = []
        self.theirs: list[tuple[Any, Any]] = []

    def report(self, what: object) -> None:
        self.reported += 1

    @property
    def acting(self) -> bool:
        return bool(self.handles) and not self.pauses

    def walk(self) -> list[Any]:
        """Return what a call goes through."""
        found = [self.module.report]
        below = dict(self.theirs)
        while found[-1] != self.original:
            found.append(found[-1].before if isinstance(found[-1], Link) else below[found[-1]])
        return found

    def settled(self) -> None:
        """Check what has to hold right after a change of ours."""
        if not self.acting:
            assert not isinstance(self.module.report, Link)

    @rule(answer=st.sampled_from([None, None, False, "handled"]))
    def subscribe(self, answer: object) -> None:
        def listen() -> object:
            self.told += 1
            return answer

        began = not self.acting
        self.handles.append((hooks(self.event).add("on", listen), answer))
        if began and self.acting:
            assert isinstance(self.module.report, Link)
        self.settled()

    @precondition(lambda self: self.handles)
    @rule()
    def unsubscribe(self) -> None:
        self.handles.pop()[0].remove()
        self.settled()

    @rule()
    def pause(self) -> None:
        self.pauses.append(ExitStack())
        self.pauses[-1].enter_context(hooks(self.event).paused())
        self.settled()

    @precondition(lambda self: self.pauses)
    @rule()
    def resume(self) -> None:
        self.pauses.pop().close()
        self.settled()

    @rule()
    def cover(self) -> None:
        self.covered = True
        below = self.module.report

        def theirs(what: object) -> None:
            below(what)

        self.theirs.append((theirs, below))
        self.module.report = theirs

    @precondition(lambda self: self.theirs)
    @rule()
    def uncover(self) -> None:
        """The last of theirs puts back what it has found, whatever is there now."""
        self.module.report = self.theirs.pop()[1]

    @rule()
    def put_back_the_first(self) -> None:
        self.module.report = self.original

    @rule()
    def happen(self) -> None:
        reachable = any(isinstance(one, Link) for one in self.walk())
        told, reported = self.told, self.reported
        self.module.report(object())
        answers = [answer for _, answer in self.handles] if self.acting and reachable else []
        handled = [place for place, answer in enumerate(answers, 1) if answer is not None]
        assert self.told == told + (handled[0] if handled else len(answers))
        assert self.reported == reported + (not handled)

    @invariant()
    def it_is_displaced_exactly_while_ours_is_not_there(self) -> None:
        displaced = hooks(self.event).displaced
        if self.acting:
            assert displaced == (not isinstance(self.module.report, Link))
        else:
            assert not isinstance(self.module.report, Link)  # looking puts right what somebody has put back
            assert displaced <= self.covered

    def teardown(self) -> None:
        while self.pauses:
            self.resume()
        hooks(self.event).clear()
        self.handles.clear()
        self.happen()
        while self.theirs:
            self.uncover()
            self.happen()
        assert self.module.report == self.original


TestSlot = SlotMachine.TestCase
TestSlot.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
