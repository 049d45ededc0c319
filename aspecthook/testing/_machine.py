"""The state machine: random hooks come, go, pause, move and run on one mount point, and the laws hold throughout.

The model is a plain list of rows, in the order in which they were added. What a rule does to the mount point it does to
the list; then the two must agree. Whatever a user's own rules do, the list takes over before the next rule.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import Rule, RuleBasedStateMachine, RuleStrategy, precondition, rule

from aspecthook._asks import KINDS, Kind
from aspecthook._errors import HookOrderError
from aspecthook._hook import Hook
from aspecthook._hookable import hookable, hooks
from aspecthook._mount import MountPoint

from ._calls import Given, blank_of, bound_of, finished, settled
from ._candidates import Candidate, answering_hooks, marked_names, read, small_hooks, variants
from ._draws import AGAIN, PRIORITIES, Calling, additions, callings, own, steps
from ._laws import (
    broken,
    check_call,
    check_determinism,
    check_law,
    check_members,
    check_order,
    check_plain,
    laws_in,
    unchanged,
)
from ._model import Counts, Played, Row, acting, inherited, of_kind, ordered, row_of, rows_of
from ._trace import Trace, trace_of


class PlannedError(Exception):
    """What a hook raises that fails as planned."""


class HookMachine(RuleBasedStateMachine):
    """A Hypothesis state machine for a mount point of your own and the hooks that may be put on it.

    Subclass it, give it a mount point with `make` and hooks with `candidates`, state what must be true of every call
    with `law`, and run it: ``TestHandling = Handling.TestCase``. Its rules add hooks, with options drawn for what a
    candidate leaves open, also contradictory ones; remove, pause, resume and move them; take them all off; put them on
    a copy in other orders; call, also from within a hook, also with a hook that fails. After each, the laws must hold.
    Your own ``@rule`` methods may change the mount point as they like. A rule that you do not want is left out by
    ``clear = None``.

    Attributes:
        candidates: The hooks: `Candidate` objects, or functions marked with `aspecthook.pre` and so on; may also be a
            property. Methods of the machine that are so marked are candidates as well. If nothing is said, small
            hooks of the kit's own are added; with ``()``, none.
        arguments: A strategy of ``(args, kwargs)`` for the calls; else small ints for all parameters.
        vary: Which options are drawn for a candidate that does not give them.
        disturb: What a call may be disturbed by: a hook that calls ``"again"``, or one of a kind that fails.
        mount: The mount point under test.
        target: What `make` gave.

    Example:
        >>> from aspecthook import hookable, pre
        >>> from aspecthook.testing import law
        >>> class Handling(HookMachine):
        ...     def make(self):
        ...         @hookable
        ...         def handle(request): ...
        ...
        ...         return handle
        ...
        ...     @pre(before="audit")
        ...     def auth(self): ...
        ...
        ...     @pre
        ...     def audit(self): ...
        ...
        ...     @law
        ...     def auth_before_audit(trace):
        ...         return trace.before("auth", "audit")
        >>> from hypothesis.stateful import run_state_machine_as_test
        >>> run_state_machine_as_test(Handling)
    """

    # Any: candidates are of two sorts, arguments of any.
    candidates: Sequence[Any] | None = None
    arguments: st.SearchStrategy[tuple[Sequence[Any], dict[str, Any]]] | None = None
    vary: Sequence[str] = ("priority", "before", "after")
    disturb: Sequence[str] = (AGAIN, "pre", "post", "exception", "around", "always")

    _loop: asyncio.Runner | None = None
    _pause: AbstractContextManager[None] | None = None
    _had_hooks = False

    # To be overridden

    def make(self) -> Any:
        """Give the mount point, fresh for each run: a hookable function, or anything that `aspecthook.hooks` takes."""

        @hookable
        def target(a: int, b: int = 1) -> int:
            if a == 3:
                raise PlannedError(a)
            return a + b

        return target

    def attach(self, candidate: Candidate) -> Hook:
        """Put a hook on; override it where your own code does that, and give the handle that came of it."""
        return self.mount.add(candidate.kind, candidate.function, *candidate.types, again=True, **candidate.options)

    def detach(self, hook: Hook) -> None:
        """Take a hook off; override it with `attach`."""
        hook.remove()

    # Any: what is awaited gives whatever it gives.
    def wait_for(self, awaitable: Awaitable[Any]) -> Any:
        """Run what a call of an async target gives; override it for an event loop other than asyncio's."""
        if self._loop is None:
            self._loop = asyncio.Runner()
        return self._loop.run(finished(awaitable))

    # Setting up and tearing down

    def __init__(self) -> None:
        super().__init__()
        self.target = self.make()
        self.mount: MountPoint = hooks(self.target)
        # What the kit's own hooks note, and whether there are no others.
        self._ran: list[str] = []
        self._is_small = False
        self._candidates = self._read_candidates()
        self._variants = {kind: variants(one.name for one in self._candidates if one.kind == kind) for kind in KINDS}
        self._laws = [found.__get__(self) if bound else found for found, bound in laws_in(type(self))]
        self._rows = rows_of(self.mount)
        self._owned: dict[int, Candidate] = {}
        self._read_parameters()
        self._choose_steps()

    def _choose_steps(self) -> None:
        is_valid = getattr(getattr(self, "_rules_strategy", None), "is_valid", None)
        if is_valid is not None:  # else Hypothesis has changed inside, and chooses by itself
            self.steps = sorted(
                self.rules, key=lambda one: (one.function.__module__ == __name__, one.function.__name__)
            )
            self._rules_strategy = cast("RuleStrategy", steps(self, is_valid))

    def _read_candidates(self) -> list[Candidate]:
        found = list(read(getattr(self, name) for name in marked_names(type(self))))
        if self.candidates is not None:
            return [*found, *read(self.candidates)]
        self._is_small = not found
        own = answering_hooks(self._ran) if type(self).make is HookMachine.make else []
        return found or [*small_hooks(self.mount, self._ran), *own]

    def _read_parameters(self) -> None:
        parameters = list(inspect.signature(blank_of(self.mount)).parameters.values())[len(bound_of(self.target)) :]
        self._positional = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
        self._keywords = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]

    def teardown(self) -> None:
        """Take off what the machine has put on; what was there before is there again."""
        try:
            if self._pause is not None:
                self._pause.__exit__(None, None, None)
            for row in self._own_rows():
                cast("Hook", row.hook).remove()
            if sys.exc_info()[0] is None:  # else there is a failure already, and this one would hide it
                check_plain(self.mount)
        finally:
            if self._loop is not None:
                self._loop.close()

    def _repr_step(self, rule: Rule, data: Any, result: Any) -> str:
        """Print a step of the kit's own without the names of its parameters."""
        if not _is_ours(rule):
            return super()._repr_step(rule, data, result)
        code = rule.function.__code__  # the data come in the order of their names
        shown = [data[name] for name in code.co_varnames[1 : code.co_argcount]]
        return f"state.{rule.function.__name__}({', '.join(shown)})"

    # The model

    def _own_rows(self) -> list[Row]:
        return [row for row in self._rows if id(row.hook) in self._owned]

    def _movable(self) -> list[Row]:
        free = "priority" in self.vary
        return [row for row in self._own_rows() if free and self._owned[id(row.hook)].leaves_open("priority")]

    def _take_over(self) -> None:
        """Take over what a user's rule has changed, or a hook with ``times=`` that has taken itself off."""
        known = {id(row.hook): row for row in self._rows}
        self._rows = [known.get(id(row.hook), row) for row in rows_of(self.mount)]

    def _agree(self, what: str) -> None:
        check_members(self.mount, self._rows, what)

    # Any: Hypothesis's own arguments. Not an @invariant, which would be printed as a step after each step.
    def check_invariants(self, *args: Any, **kwargs: Any) -> None:
        """Check what holds whatever has happened, the user's own rules included; then the user's own invariants."""
        self._take_over()
        self._had_hooks = self._had_hooks or bool(self._rows or inherited(self.mount))
        check_order(self.mount, self._rows)
        check_plain(self.mount)
        super().check_invariants(*args, **kwargs)

    # Rules: changing

    @precondition(lambda self: self._candidates)
    @rule(hook=additions())
    def add(self, hook: Candidate) -> None:
        """Add a hook, or have it refused."""
        self._add(hook)

    def _add(self, candidate: Candidate) -> None:
        row = row_of(None, candidate.kind, candidate.name, candidate.function, candidate.options)
        if ordered(of_kind([*inherited(self.mount), *self._rows, row], row.kind)) is None:
            self._add_in_vain(candidate)
            return
        try:
            hook = self.attach(candidate)
        except HookOrderError as error:
            raise broken("refusal", self.mount, f"{candidate!r} was refused, though it has a place: {error}") from error
        self._rows.append(row._replace(hook=hook))
        self._owned[id(hook)] = candidate
        self._agree(f"with {candidate!r} added")

    def _add_in_vain(self, candidate: Candidate) -> None:
        with unchanged(self.mount, f"refusing {candidate!r}"):
            try:
                self.attach(candidate)
            except HookOrderError:
                return
            raise broken("refusal", self.mount, f"{candidate!r} contradicts the others, and was not refused")

    @precondition(lambda self: self._own_rows())
    @rule(hook=own())
    def remove(self, hook: Row) -> None:
        """Take a hook off, twice: the second time changes nothing."""
        self._remove(hook)
        with unchanged(self.mount, f"removing {hook!r} again"):
            cast("Hook", hook.hook).remove()

    def _remove(self, row: Row) -> None:
        self.detach(cast("Hook", row.hook))
        self._rows.remove(row)
        self._agree(f"with {row!r} removed")

    @precondition(lambda self: self._movable())
    @rule(hook=own(movable=True), priority=PRIORITIES)
    def move(self, hook: Row, priority: int) -> None:
        """Take a hook off and put it on again with another priority."""
        candidate = self._owned[id(hook.hook)]
        self._remove(hook)
        self._add(candidate.varied({"priority": priority}))

    @precondition(lambda self: self._own_rows())
    @rule(hook=own())
    def pause(self, hook: Row) -> None:
        """Keep one hook from acting."""
        self.mount.set_paused((cast("Hook", hook.hook),), paused=True)
        self._agree(f"with {hook!r} paused")

    @precondition(lambda self: any(cast("Hook", row.hook).paused for row in self._own_rows()))
    @rule(hook=own())
    def resume(self, hook: Row) -> None:
        """Let one hook act again, if it was paused."""
        self.mount.set_paused((cast("Hook", hook.hook),), paused=False)
        self._agree(f"with {hook!r} resumed")

    @precondition(lambda self: self._rows and self._pause is None)
    @rule()
    def pause_all(self) -> None:
        """Keep all hooks from acting."""
        self._pause = self.mount.paused()
        self._pause.__enter__()
        self._agree("paused")

    @precondition(lambda self: self._pause is not None)
    @rule()
    def resume_all(self) -> None:
        """Let all hooks act again."""
        pause, self._pause = self._pause, None
        if pause is not None:
            pause.__exit__(None, None, None)
        self._agree("resumed")

    @precondition(lambda self: self._rows and len(self._rows) == len(self._own_rows()))
    @rule()
    def clear(self) -> None:
        """Take all hooks off."""
        self.mount.clear()
        self._rows = []
        self._agree("cleared")

    @precondition(lambda self: len(self._rows) > 1)
    @rule()
    def rebuild(self) -> None:
        """Put the hooks on a copy of the target in other orders: theirs is the same."""
        check_determinism(self.mount)

    # Rules: calling

    # Before there were hooks a call tells nothing, and would stay in the shortest list of steps.
    @precondition(lambda self: self._had_hooks)
    @rule(given=callings())
    def call(self, given: Calling) -> None:
        """Make one call: as it is, with a hook that calls again, or with one that fails."""
        if given.disturbance is None:
            self._call(given)
            if self._is_small:
                self._call_live(given)
            return
        again = given.disturbance == AGAIN
        kind, function = ("pre", self._again(given)) if again else (given.disturbance, _failing(given.disturbance))
        with self._guest(cast("Kind", kind), function, "again" if again else "failing"):
            self._call(given)

    def _call(self, given: Given) -> None:
        rows = acting(self.mount, self._rows)
        self._ran.clear()
        made: Any = trace_of(self.target)(*given.args, **given.kwargs)
        trace: Trace = made if isinstance(made, Trace) else self.wait_for(made)
        check_call(Played(self.mount, rows, trace, bound_of(self.target), given, Counts(), {}))
        for one in self._laws:
            check_law(one, self.mount, trace)

    def _call_live(self, given: Given) -> None:
        """Call the function itself: the same hooks run as in the trace. Only hooks of our own note that they do."""
        traced = list(self._ran)
        self._ran.clear()
        made = settled(self.target, given)
        if made is not None:
            self.wait_for(made)
        if self._ran != traced:
            raise broken("a call", self.mount, f"a traced call runs {traced}, and a call itself runs {self._ran}")

    def _again(self, given: Given) -> Callable[..., Any]:
        entered: list[bool] = []

        def again() -> None:
            if not entered:
                entered.append(True)
                settled(self.target, given)

        async def again_async() -> None:
            if not entered:
                entered.append(True)
                made = settled(self.target, given)
                await made if made is not None else None

        style = self.mount._get_site().signature.style
        return again_async if "async" in style or style == "coroutine" else again

    @contextmanager
    def _guest(self, kind: Kind, function: Callable[..., Any], name: str) -> Generator[None]:
        """Have one more hook for the length of a block."""
        hook = self.mount.add(kind, function, name=name)
        self._rows.append(row_of(hook, kind, name, function, {}))
        self._agree(f"with {name!r} added")
        try:
            yield
        finally:
            hook.remove()
        self._take_over()


def _is_ours(rule: Rule) -> bool:
    return bool(rule.function.__module__ == __name__)


def _failing(kind: str) -> Callable[..., Any]:
    def failing() -> None:
        raise PlannedError("planned")

    def failing_around() -> Generator[None]:  # with one yield, it serves targets of every style
        failing()
        yield

    return failing_around if kind == "around" else failing
