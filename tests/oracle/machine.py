"""The state machine that proves the library: random changes of a mount point's hooks, each call compared with a model.

The model is a plain list of rows, in the order in which hooks were added. What a rule does to the mount point it does
to that list; then the two must agree. `machine_state` holds the list, makes calls and checks them;
`short_stories` plays short stories before Hypothesis makes up long ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aspecthook._core.law.hook import Hook
from aspecthook._core.law.options import Options
from aspecthook._errors import HookOptionError, HookOrderError
from aspecthook.testing._calls import Given
from tests.oracle.candidates import Candidate, conditions
from tests.oracle.guests import Guest, PlannedError
from tests.oracle.laws import check_order, check_plain, check_traces, unchanged
from tests.oracle.machine_state import MachineState
from tests.oracle.rows import Row, law_error, of_kind, ordered, row_of

T = TypeVar("T")

_MOST_PAUSES = 2
_BEGIN_WITH = 8
_WAYS = (None, None, None, "name", "function", "handle", "block")


# What is drawn: each strategy looks at the machine as it is, and makes as few choices as it can.


@st.composite
def additions(draw: st.DrawFn) -> Candidate:
    """Draw a hook to be added."""
    return _addition(draw, cast("MachineState", draw(st.runner())))


@st.composite
def beginnings(draw: st.DrawFn) -> list[Candidate]:
    """Draw the hooks that are there from the beginning."""
    machine = cast("MachineState", draw(st.runner()))
    most = min(len(machine.hooks), _BEGIN_WITH)
    begun: list[Candidate] = []
    for _ in range(min(draw(st.integers(0, 3 * most)), most)):  # mostly as many as there may be
        begun.append(_addition(draw, machine, begun))
    return begun


def _addition(draw: st.DrawFn, machine: MachineState, begun: Sequence[Candidate] = ()) -> Candidate:
    # Mostly one that is not there yet: several copies of one hook show little.
    present = {id(one.origin) for one in [*(row.candidate for row in machine.own_rows()), *begun]}
    absent = [one for one in machine.hooks if id(one) not in present]
    candidate = draw(st.sampled_from([*absent, *absent, *absent, *machine.hooks]))
    orders = machine.variants[candidate.kind]
    place = draw(st.integers(0, 2 * len(orders) - 1))  # half of the hooks get no options
    drawn: Options = orders[place] if place < len(orders) else {}
    chosen: dict[str, object] = {name: value for name, value in drawn.items() if candidate.leaves_open(name)}
    is_free = candidate.leaves_open("conditions")
    chosen |= (
        _every_second(draw, conditions(candidate.kind, machine.mount.site().signature.style), {}) if is_free else {}
    )
    rows = [row for row in machine.own_rows() if row.kind == candidate.kind]
    if candidate.leaves_open("before") and not chosen.keys() & {"before", "after"}:
        handle = draw(st.integers(0, 30))
        chosen |= {"before": rows[handle - 1].hook} if 0 < handle <= len(rows) else {}
    return candidate.varied(cast("Options", chosen)).on(draw(levels()))


@st.composite
def arguments(draw: st.DrawFn) -> Given:
    """Draw what a call is given."""
    machine = cast("MachineState", draw(st.runner()))
    if machine.arguments is not None:
        args, kwargs = draw(machine.arguments)
        return Given(tuple(args), dict(kwargs))
    small = st.integers(0, 3)
    return Given(
        tuple([draw(small) for _ in range(machine.positional)]), {name: draw(small) for name in machine.keywords}
    )


@st.composite
def guests(draw: st.DrawFn) -> Guest | None:
    """Draw a guest for every second call; where nothing is attached, there is nothing to disturb."""
    machine = cast("MachineState", draw(st.runner()))
    return _every_second(draw, machine.guests, None) if machine.expected.rows else None


@st.composite
def drives(draw: st.DrawFn) -> str:
    """Draw how every second call is made by its caller, if the target is a stream or a coroutine function."""
    return _every_second(draw, cast("MachineState", draw(st.runner())).drives, "")


def _every_second(draw: st.DrawFn, several: Sequence[T], otherwise: T) -> T:
    place = draw(st.integers(0, 2 * len(several))) if several else 0
    return several[place - 1] if 0 < place <= len(several) else otherwise


@st.composite
def own(draw: st.DrawFn) -> Row:
    """Draw one of the hooks that the machine has added."""
    return draw(st.sampled_from(cast("MachineState", draw(st.runner())).own_rows()))


@st.composite
def levels(draw: st.DrawFn) -> str | None:
    """Draw whether the class of an instance is meant, and not the instance."""
    machine = cast("MachineState", draw(st.runner()))
    return "class" if machine.expected.parent is not None and draw(st.integers(0, 2)) == 2 else None


def ways() -> st.SearchStrategy[Any]:
    """Draw how a hook is removed."""
    return st.sampled_from(_WAYS)


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
        row = row._replace(candidate=candidate, types=candidate.types or (Exception,))
        row = row._replace(again=self._is_again(row))
        if ordered(of_kind([*self.expected.rows, row], row.kind)) is None:
            with unchanged(self.mount, f"refusing {candidate!r}"):
                try:
                    self._put(row)
                except HookOrderError:
                    return
                raise law_error("refusal", self.mount, f"{candidate!r} contradicts the others, and was not refused")
        try:
            hook = self._put(row)
        except (HookOrderError, HookOptionError) as error:
            wrong = f"{candidate!r} was refused, though it has a place: {error}"
            raise law_error("refusal", self.mount, wrong) from error
        shown = [hook.kind, hook.name, hook.function, hook.priority, {*hook.types}, hook.failures]
        should = [row.kind, row.name, row.function, row.priority, {*row.types}, 0]
        if shown != should:
            raise law_error("a call", self.mount, f"{candidate!r} is added as {shown}, and should be {should}")
        self.expected.rows.append(row._replace(hook=hook))
        self.counts.know(hook)
        self.expected.check(f"with {candidate!r} added")

    def _put(self, row: Row) -> Hook:
        options = {**row.candidate.options, **({"again": True} if row.again else {})}
        added: Hook = row.level.add(row.kind, row.function, *row.candidate.types, **options)
        return added

    def _is_again(self, row: Row) -> bool:
        """Whether the callable of a hook is one already; then it is that one, or refused if its options differ."""
        alike = [one for one in self.expected.of(row.level) if (one.kind, one.function) == (row.kind, row.function)]
        older = next((one for one in alike if not one.again and {*one.types} == {*row.types}), None)
        if older is None:
            return False
        with unchanged(self.mount, f"adding {row!r} again"):
            try:
                found: object = self._put(row)
            except HookOptionError:
                found = None
        if found is not (older.hook if older.meaning == row.meaning else None):
            raise law_error(
                "again", self.mount, f"{row.candidate!r} is there already as {older.hook}, and gives {found}"
            )
        return True

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
