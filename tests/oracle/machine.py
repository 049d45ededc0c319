"""The state machine that proves the library: random changes of a mount point's hooks, each call compared with a model.

The model is a plain list of rows, in the order in which hooks were added. What a rule does to the mount point it does
to that list; then the two must agree. `machine_state` holds the list, makes calls and checks them,
`machine_draws` draws, and `short_stories` plays short stories before Hypothesis makes up long ones.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aspecthook._errors import HookOrderError
from aspecthook.testing._calls import Given
from aspecthook.testing._candidates import put
from tests.oracle.candidates import Candidate
from tests.oracle.guests import Guest, PlannedError
from tests.oracle.laws import check_order, check_plain, check_traces, unchanged
from tests.oracle.machine_draws import additions, arguments, beginnings, drives, guests, levels, own, ways
from tests.oracle.machine_state import MachineState
from tests.oracle.rows import Row, law_error, of_kind, ordered, row_of

_MOST_PAUSES = 2


class OracleMachine(MachineState, RuleBasedStateMachine):
    """Adds, removes and pauses hooks of a target, and calls it, also with guests and with odd callers."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def _check(self, what: str = "", *, calls: bool = True) -> None:
        """Check that the model knows what was done, and what always holds; then make a call."""
        if what:
            self.expected.check(what)
        self.expected.take_over()
        self._had_hooks = self._had_hooks or bool(self.expected.rows)
        # While the hooks of an instance are paused, its function still checks for that instance.
        acts = self.expected.rows if self.expected.parent is not None else self.expected.acting()
        if not acts and self.bare is not None:
            check_traces(self.mount, self.bare, "with no hook that acts, what was there before")
        for level in self.expected.levels:
            check_order(level, self.expected.of(level))
        check_plain(self.mount)
        if calls and self._had_hooks and not self.plays_short_stories:
            self.check_call(self.samples[self._calls % len(self.samples)])
            self._calls += 1

    # Changing

    @initialize(hooks=beginnings())
    def begin(self, hooks: list[Candidate]) -> None:
        """Add some hooks at the beginning."""
        for hook in hooks:
            self._add(hook)
        self._check()

    @precondition(lambda self: self.hooks)
    @rule(hook=additions())
    def add(self, hook: Candidate) -> None:
        """Add a hook, or check that it is refused."""
        self._add(hook)
        self._check()

    def _add(self, candidate: Candidate) -> None:
        level = self.level(candidate.of)
        row = row_of(None, candidate.kind, candidate.name, candidate.function, candidate.options, level)
        if ordered(of_kind([*self.expected.rows, row], row.kind)) is None:
            with unchanged(self.mount, f"refusing {candidate!r}"):
                try:
                    put(level, candidate)
                except HookOrderError:
                    return
                raise law_error("refusal", self.mount, f"{candidate!r} contradicts the others, and was not refused")
        try:
            hook = put(level, candidate)
        except HookOrderError as error:
            wrong = f"{candidate!r} was refused, though it has a place: {error}"
            raise law_error("refusal", self.mount, wrong) from error
        if candidate.kind == "exception" and {*hook.types} != {*(candidate.types or (Exception,))}:
            wrong = f"{candidate!r} was added for {candidate.types} and takes {hook.types}"
            raise law_error("a call", self.mount, wrong)
        self.expected.rows.append(row._replace(hook=hook, candidate=candidate))
        self.counts.know(hook)
        self.expected.check(f"with {candidate!r} added")

    @precondition(lambda self: self.own_rows())
    @rule(row=own(), by=ways())
    def remove(self, row: Row, by: str | None = None) -> None:
        """Remove a hook by its handle, its name or its function; removing it again must change nothing."""
        level, handle = row.level, row.hook
        alike = [row]
        if by == "name":
            alike = [one for one in self.expected.of(level) if one.name == row.name]
            level.remove(row.name)
        elif by == "function":
            alike = [one for one in self.expected.of(level) if one.function == row.function]
            level.remove(row.function)
        elif by == "block":
            with suppress(PlannedError), handle:
                raise PlannedError("planned")
        elif by == "handle":
            level.remove(handle)
        else:
            handle.remove()
        self.expected.drop(alike)
        self.expected.check(f"with {row!r} removed by {by}")
        with unchanged(self.mount, f"removing {row!r} again"):
            handle.remove()
        self._check()

    @precondition(lambda self: self.own_rows())
    @rule(row=own(), paused=st.booleans())
    def pause(self, row: Row, *, paused: bool = True) -> None:
        """Pause one hook, or resume it."""
        row.level.set_paused((row.hook,), paused=paused)
        self.expected.pause(row, paused=paused)
        self._check(f"with {row!r} {'paused' if paused else 'resumed'}")

    @precondition(lambda self: self.expected.rows and len(self.pauses) < _MOST_PAUSES)
    @rule(of=levels())
    def pause_all(self, of: str | None = None) -> None:
        """Pause all hooks, those of the instance or those of its class, also if they are paused already."""
        level = self.level(of)
        pause = level.paused()
        pause.__enter__()
        self.pauses.append((level, pause))
        self.expected.pauses[id(level)] += 1
        self._check("paused")

    @precondition(lambda self: self.pauses)
    @rule(fails=st.booleans())
    def resume_all(self, *, fails: bool = False) -> None:
        """End the latest pause, as the end of a `with` block does or as an exception in it does."""
        level, pause = self.pauses.pop()
        error = PlannedError("planned") if fails else None
        with suppress(PlannedError):
            pause.__exit__(type(error) if error else None, error, None)
        self.expected.pauses[id(level)] -= 1
        self._check("resumed")

    @precondition(lambda self: all(row.candidate is not None for row in self.expected.of(self.mount)))
    @rule()
    def clear(self) -> None:
        """Remove all hooks."""
        self.mount.clear()
        self.expected.drop(self.expected.of(self.mount))
        self._check("cleared")

    # Calling. Before there were hooks a call shows nothing.

    @precondition(lambda self: self._had_hooks)
    @rule(given=arguments(), guest=guests(), drive=drives())
    # Any: Hypothesis cannot know the type of a guest.
    def call(self, given: Given, guest: Any = None, drive: str = "") -> None:
        """Make one call, with a guest or without: a hook of the oracle's own that is there for this call.

        ``drive`` is how a stream is read before it is read to its end, such as ``"next send"``; or whether the call is
        cancelled; or that two calls are made at once.
        """
        if isinstance(guest, Guest):
            with self.having(guest, given):
                for _ in range(guest.calls):
                    self.check_call(given, drive)
        else:
            self.check_call(given, drive)
            if self.has_own_hooks:
                self.check_live_call(given)
                self.check_call_of_another(given)
        self._check(calls=False)
