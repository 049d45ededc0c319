"""The rules of a machine: what may happen to a mount point, and what must be true of it after each.

What a rule does to the mount point it does to the list of rows that is the model; then the two must agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import Rule, RuleBasedStateMachine, RuleStrategy, initialize, precondition, rule

from aspecthook._core.law.options import Options
from aspecthook._errors import AspecthookError, HookOptionError, HookOrderError, HookTypeError
from aspecthook.testing._calls import Given
from aspecthook.testing._candidates import put
from tests.oracle.candidates import Candidate
from tests.oracle.guests import Guest, PlannedError
from tests.oracle.laws import check_determinism, check_order, check_plain, check_traces, law_error, unchanged
from tests.oracle.machine_calls import CallingMachine
from tests.oracle.machine_draws import (
    PRIORITIES,
    SETTINGS,
    additions,
    arguments,
    beginnings,
    drives,
    guests,
    levels,
    own,
    rank,
    steps,
    ways,
)
from tests.oracle.rows import Row, of_kind, ordered, row_of

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_MOST_PAUSES = 2


class _OtherError(Exception):
    """What no hook takes."""


class Rules(CallingMachine, RuleBasedStateMachine):
    """A state machine whose rules add, remove, move and pause hooks, and call the target."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0
        self._is_checked = False
        self._choose_steps()

    def _choose_steps(self) -> None:
        is_valid = getattr(getattr(self, "_rules_strategy", None), "is_valid", None)
        if is_valid is not None:  # else Hypothesis has changed inside, and chooses by itself
            self._rules_strategy = cast("RuleStrategy", steps(sorted(self.rules, key=rank), is_valid))

    def _repr_step(self, rule: Rule, data: Any, result: Any) -> str:
        """Return the source line of a step, which the step has recorded."""
        return self._lines[-1]

    # Any: Hypothesis's own arguments. Not an @invariant, which would be printed as a step after each step.
    def check_invariants(self, *args: Any, **kwargs: Any) -> None:
        """Check what holds whatever has happened, the user's own rules included; then the user's own invariants."""
        if not self._is_checked:  # as the kit's own rules do themselves
            self._check()
        self._is_checked = False
        super().check_invariants(*args, **kwargs)

    def _check(self, what: str = "", *, calls: bool = True) -> None:
        """Check that the model knows what was done, and what always holds; then make a call."""
        if what:
            self._expected.check(what)
        self._expected.take_over()
        self._had_hooks = self._had_hooks or bool(self._expected.rows)
        # While the hooks of an instance are paused, its function still checks for that instance.
        if not (self._expected.rows if self._expected.parent is not None else self._expected.acting()):
            self._check_traces()
        for level in self._expected.levels:
            check_order(level, self._expected.of(level))
        check_plain(self.mount)
        if calls and self._had_hooks and not self._plays_short_stories and type(self).call is not None:
            self._call(self._samples[self._calls % len(self._samples)])
            self._calls += 1
        self._is_checked = True

    def _check_traces(self) -> None:
        """Check that where nothing acts, nothing can be seen."""
        if self._bare is not None:
            check_traces(self.mount, self._bare, "with no hook that acts, what was there before")

    # Rules: changing

    @initialize(hooks=beginnings())
    def _begin(self, hooks: list[Candidate]) -> None:
        """Add some hooks at the beginning."""
        begun = len(self._lines)
        for hook in hooks:
            self._add(hook)
        self._lines[begun:] = ["\n".join(self._lines[begun:])]
        self._check()

    @precondition(lambda self: self._candidates)
    @rule(hook=additions())
    # Any: options are what `add` of a mount point takes.
    def add(self, hook: Candidate | str, **options: Any) -> None:
        """Add a hook, or check that it is refused."""
        candidate = self._candidate(hook) if isinstance(hook, str) else hook
        of = options.pop("of", None)
        candidate = candidate.varied(cast("Options", options)) if options else candidate
        self._add(candidate.on(of) if of else candidate)
        self._check()

    def _add(self, candidate: Candidate, *, is_noted: bool = False) -> None:
        if not is_noted:
            drawn = {name: self._code(value) for name, value in candidate.drawn.items()}
            drawn |= _shown(of=candidate.of)
            self._write("add", repr(self._key_of(candidate)), **drawn)
        level = self._level(candidate.of)
        row = row_of(None, candidate.kind, candidate.name, candidate.function, candidate.options, level)
        if ordered(of_kind([*self._expected.rows, row], row.kind)) is None:
            self._add_in_vain(candidate)
            return
        try:
            hook = put(level, candidate)
        except HookOrderError as error:
            raise law_error(
                "refusal", self.mount, f"{candidate!r} was refused, though it has a place: {error}"
            ) from error
        except AspecthookError as error:
            raise HookTypeError(
                f"{type(self).__name__}: the candidate {candidate!r} cannot be added to {self.mount.name}: {error}"
            ) from error
        if candidate.kind == "exception" and {*hook.types} != {*(candidate.types or (Exception,))}:
            raise law_error(
                "a call", self.mount, f"{candidate!r} was added for {candidate.types} and takes {hook.types}"
            )
        self._expected.rows.append(row._replace(hook=hook, candidate=candidate))
        if not self._calls_itself:
            self._counts.know(hook)
        self._expected.check(f"with {candidate!r} added")

    def _add_in_vain(self, candidate: Candidate) -> None:
        with unchanged(self.mount, f"refusing {candidate!r}"):
            try:
                put(self._level(candidate.of), candidate)
            except HookOrderError:
                return
            raise law_error("refusal", self.mount, f"{candidate!r} contradicts the others, and was not refused")

    @precondition(lambda self: self._own_rows())
    @rule(hook=own(), by=ways())
    def remove(self, hook: str, by: str | None = None) -> None:
        """Remove a hook by its handle, its name or its function; removing it again must change nothing."""
        row = self._read_row("remove", hook, **_shown(by=by))
        if by is None:
            self._remove(row)
        else:
            self._remove_by(row, by)
        with unchanged(self.mount, f"removing {row!r} again"):
            row.hook.remove()
        self._check()

    def _remove_by(self, row: Row, by: str) -> None:
        level, handle = row.level, row.hook
        alike = [row]
        if by == "name":
            alike = [one for one in self._expected.of(level) if one.name == row.name]
            level.remove(row.name)
        elif by == "function":
            alike = [one for one in self._expected.of(level) if one.function == row.function]
            level.remove(row.function)
        elif by == "block":
            with suppress(PlannedError), handle:
                raise PlannedError("planned")
        else:
            level.remove(handle)
        self._expected.drop(alike)
        self._expected.check(f"with {row!r} removed by {by}")

    @precondition(lambda self: self._own_rows())
    @rule(hook=own(), options=st.sampled_from(SETTINGS))
    def repeat(self, hook: str, options: Options | None = None) -> None:
        """Add a hook again without `again=True`: it is the one that is there, and with other options it is refused."""
        several = ", ".join([f"{name!r}: {self._code(value)}" for name, value in (options or {}).items()])
        shown = {"options": "{" + several + "}"} if options else {}
        row = self._read_row("repeat", hook, **shown)
        candidate: Candidate = row.candidate
        level = row.level
        changed: Any = {**candidate.options, **(options or {})}
        named = {"name": candidate.name}
        is_same = _meant({**named, **changed}) == _meant({**named, **candidate.options})
        others = [one for one in self._expected.of(level) if (one.kind, one.function) == (row.kind, row.function)]
        there = [one.hook for one in others if not one.hook.again and one.candidate is not None]
        if row.hook not in there:
            return  # it has itself been added with `again=True`
        with unchanged(level, f"adding {row!r} again"):
            try:
                found = level.add(candidate.kind, candidate.function, *candidate.types, **changed)
            except HookOptionError as error:
                if is_same:
                    raise law_error("refusal", level, f"{row!r} was added again, and refused: {error}") from error
            else:
                if found is not row.hook:
                    raise law_error("members", level, f"{row!r} was added again, and is another hook now")
                if not is_same:
                    raise law_error("refusal", level, f"{row!r} was added again with {options}, and was not refused")
        if row.kind == "exception":
            with unchanged(level, f"adding {row!r} for other exceptions, and removing it"):
                other = level.add(candidate.kind, candidate.function, _OtherError, name="other")
                other.remove()
        self._check()

    def _read_row(self, method: str, hook: str, *args: str, **options: str) -> Row:
        self._write(method, repr(hook), *args, **options)
        return self._row(hook)

    def _remove(self, row: Row) -> None:
        row.hook.remove()
        self._expected.drop([row])
        self._expected.check(f"with {row!r} removed")

    @precondition(lambda self: self._movable())
    @rule(hook=own(movable=True), priority=PRIORITIES)
    def move(self, hook: str, priority: int) -> None:
        """Remove a hook, and add it again with another priority."""
        row = self._read_row("move", hook, repr(priority))
        candidate: Candidate = row.candidate
        self._remove(row)
        self._add(candidate.varied({"priority": priority}), is_noted=True)
        self._check()

    @precondition(lambda self: self._own_rows())
    @rule(hook=own())
    def pause(self, hook: str) -> None:
        """Pause one hook."""
        self._set_paused(self._read_row("pause", hook), paused=True)

    @precondition(lambda self: any(row.hook.paused for row in self._own_rows()))
    @rule(hook=own())
    def resume(self, hook: str) -> None:
        """Resume one hook, if it was paused."""
        self._set_paused(self._read_row("resume", hook), paused=False)

    def _set_paused(self, row: Row, *, paused: bool) -> None:
        row.level.set_paused((row.hook,), paused=paused)
        self._expected.pause(row, paused=paused)
        self._check(f"with {row!r} {'paused' if paused else 'resumed'}")

    @precondition(lambda self: self._expected.rows and len(self._pauses) < _MOST_PAUSES)
    @rule(of=levels())
    def pause_all(self, of: str | None = None) -> None:
        """Pause all hooks, those of the instance or those of its class, also if they are paused already."""
        self._write("pause_all", **_shown(of=of))
        level = self._level(of)
        pause = level.paused()
        pause.__enter__()
        self._pauses.append((level, pause))
        self._expected.pauses[id(level)] += 1
        self._check("paused")

    @precondition(lambda self: self._pauses)
    @rule(fails=st.booleans())
    def resume_all(self, *, fails: bool = False) -> None:
        """End the latest pause, as the end of a `with` block does or as an exception in it does."""
        self._write("resume_all", **_shown(fails=fails))
        level, pause = self._pauses.pop()
        error = PlannedError("planned") if fails else None
        try:
            pause.__exit__(type(error) if error else None, error, None)
        except PlannedError:
            pass
        self._expected.pauses[id(level)] -= 1
        self._check("resumed")

    @precondition(lambda self: self._expected.rows and self._may_clear())
    @rule()
    def clear(self) -> None:
        """Remove all hooks."""
        self._write("clear")
        self.mount.clear()
        self._expected.drop(self._expected.of(self.mount))
        self._check("cleared")

    def _may_clear(self) -> bool:
        return all(row.candidate is not None for row in self._expected.of(self.mount))

    @precondition(lambda self: len(self._expected.rows) > 1)
    @rule()
    def rebuild(self) -> None:
        """Add the hooks to a copy of the target in other sequences: they must run in the same order."""
        self._write("rebuild")
        check_determinism(self.mount)
        self._is_checked = True

    # Rules: calling

    # Before there were hooks a call shows nothing, and would stay in the shortest list of steps.
    @precondition(lambda self: self._had_hooks)
    @rule(given=arguments(), guest=guests(), drive=drives())
    def call(
        self,
        given: Given | Sequence[object],
        kwargs: Mapping[str, object] | None = None,
        guest: str = "",
        drive: str = "",
    ) -> None:
        """Make one call, with a guest or without: a hook of the kit's own that is there for this call.

        ``drive`` is how a stream is read before it is read to its end, such as ``"next send"``; or whether the call is
        cancelled; or that two calls are made at once.
        """
        if not isinstance(given, Given):
            given = Given(tuple(given), dict(kwargs or {}))
        code = [repr(given.args), *([repr(given.kwargs)] if given.kwargs else [])]
        self._write("call", *code, **_shown(guest=guest, drive=drive))
        if guest:
            self._call_with(Guest.read(guest), given, drive)
        else:
            self._call(given, drive)
            if self._has_kit_hooks:
                self._call_live(given)
                self._call_other(given)
        self._check(calls=False)


# What an option comes to that is not given.
_UNSET: dict[str, object] = {"priority": 50, "isolate": False, "reentrant": True, "before": (), "after": ()}


def _meant(options: dict[str, Any]) -> dict[str, object]:
    """Return what the options of a hook come to, to be compared."""
    several = {key: value for key, value in options.items() if _UNSET.get(key) != value and value != "NORMAL"}
    if several.get("once") and "times" not in several:  # together they are refused
        several["times"] = several.pop("once") and 1
    for key in several.keys() & {"before", "after"}:
        value = several[key]
        several[key] = list(value) if isinstance(value, (list, tuple)) else [value]
    return several


def _shown(**options: object) -> dict[str, str]:
    """Return the code of the options of a step that are not left out."""
    return {name: repr(value) for name, value in options.items() if value}
