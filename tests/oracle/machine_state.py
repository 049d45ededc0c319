"""What a machine knows: its target, the hooks that it may add, and which of them should be there; and its calls."""

from __future__ import annotations

import asyncio
import copy
import inspect
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from types import MethodType
from typing import Any

from hypothesis import strategies as st

from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.options import Options
from aspecthook._core.mount.hookable import hookable, hooks
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import AspecthookError
from aspecthook.testing._calls import Given, blank_of, bound_of, finished, quiet
from aspecthook.testing._stories import samples_of
from tests.oracle.calls import AT_ONCE, drives_of, ended, make_call, outcome
from tests.oracle.candidates import Candidate, Ran, answering_hooks, asking_hooks, silent_hooks, variants
from tests.oracle.guests import ADDS, AGAIN, REMOVES, Guest, PlannedError, PlannedStop, function_of, guests_of
from tests.oracle.laws import check_call, check_plain, traces
from tests.oracle.model import differs, interpreted
from tests.oracle.recording import NotedTrace as Trace
from tests.oracle.rows import Counts, Expected, Row, law_error, row_of
from tests.oracle.traced_call import COUNTED, TracedCall

_SMALL = (0, 1, 3, 2)  # what parameters are given of which nothing is known


class MachineState:
    """A target under test, with a plain model of what should be true of it: what the rules and the draws look at."""

    # The hooks that may be added; None: the oracle's own.
    candidates: Sequence[Candidate] | None = None
    arguments: st.SearchStrategy[tuple[Sequence[Any], dict[str, Any]]] | None = None

    _loop: asyncio.Runner | None = None
    _had_hooks = False
    _last: TracedCall
    plays_short_stories = False
    # The oracle's own hooks and the arguments of calls, which are made once for all machines of a class.
    _own_hooks: tuple[list[Candidate], Ran]
    _known_samples: list[Given]

    def make(self) -> Any:
        """Return a fresh mount point for each run: a hookable function, or anything that `aspecthook.hooks` takes."""

        @hookable
        def target(a: int, b: int = 1) -> int:
            if a == 3:
                raise PlannedError(a)
            return a + b

        return target

    # Any: an awaitable of anything.
    def wait_for(self, awaitable: Awaitable[Any]) -> Any:
        """Run what a call of an async target returned."""
        if self._loop is None:
            self._loop = asyncio.Runner()
            self._loop.get_loop().set_exception_handler(_pass_over_planned)
        return self._loop.run(finished(awaitable))

    def __init__(self) -> None:
        super().__init__()
        self.target = self.make()
        self.mount: MountPoint = hooks(self.target)
        self.hooks: list[Candidate] = list(self.candidates or ())
        self.has_own_hooks = self.candidates is None
        self.ran = Ran()
        if self.has_own_hooks:
            self.hooks, self.ran = self._make_own_hooks()
        self.expected = Expected(self.mount)
        self.bare = None if self.expected.acting() else traces(self.mount)
        self.pauses: list[tuple[MountPoint, AbstractContextManager[None]]] = []
        self.counts = Counts()
        self.nested: dict[int, list[Callable[[], str | None]]] = {}
        parameters = list(inspect.signature(blank_of(self.mount)).parameters.values())[len(bound_of(self.target)) :]
        by_position = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self.positional = len(by_position)
        self.keywords = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        self.names = [*by_position, *self.keywords]
        self.samples = self._read_samples()

    def _make_own_hooks(self) -> tuple[list[Candidate], Ran]:
        if "_own_hooks" not in vars(type(self)):
            ran = Ran()
            answering = answering_hooks(ran) if type(self).make is MachineState.make else []
            made = [*silent_hooks(self.mount, ran), *asking_hooks(self.mount, ran), *answering]
            type(self)._own_hooks = made, ran
        return type(self)._own_hooks

    def _read_samples(self) -> list[Given]:
        if "_known_samples" not in vars(type(self)):
            if self.arguments is not None:
                drawn = samples_of(self.arguments)[: len(_SMALL)]
                known = [Given(tuple(args), dict(kwargs)) for args, kwargs in drawn]
            else:
                numbers = _SMALL if self.names else _SMALL[:1]
                known = [Given((one,) * self.positional, dict.fromkeys(self.keywords, one)) for one in numbers]
            type(self)._known_samples = known
        return type(self)._known_samples

    def teardown(self) -> None:
        """Remove what the machine has added; what was there before is left."""
        try:
            while self.pauses:
                self.pauses.pop()[1].__exit__(None, None, None)
            for row in self.own_rows():
                row.hook.remove()
            if sys.exc_info()[0] is None:  # else there is a failure already, and this one would hide it
                check_plain(self.mount)
        finally:
            if self._loop is not None:
                with quiet():  # tasks that calls have left behind come to their end
                    self._loop.close()

    # What is drawn: short stories need little of it, and there are many of them.

    @cached_property
    def variants(self) -> dict[str, list[Options]]:
        """Options that place a hook among the others of its kind."""
        return {kind: variants([one for one in self.hooks if one.kind == kind]) for kind in KINDS}

    @cached_property
    def drives(self) -> list[str]:
        """The ways in which a call may be made by its caller."""
        return drives_of(self.mount.site().signature.style)

    @cached_property
    def guests(self) -> list[Guest]:
        """The hooks that a call may have for itself."""
        return [one for one in guests_of(self.mount) if self.names or one.does != "changes"]

    # The model

    def own_rows(self, candidate: Candidate | None = None) -> list[Row]:
        """Return the hooks that the machine has added and that are still there; those of one candidate, if given."""
        own = [row for row in self.expected.rows if row.candidate is not None]
        return [row for row in own if candidate is None or row.candidate.origin is candidate]

    def level(self, of: str | None) -> MountPoint:
        """Return the mount point that is meant: ``"class"`` is that of the class of an instance."""
        return self.expected.parent or self.mount if of == "class" else self.mount

    # Calls: each is traced and compared with the model, also with a guest that is there for it alone.

    def check_call(self, given: Given, drive: str = "") -> None:
        """Make a call, and check it against the laws of every mount point."""
        self.nested = {}
        rows = self.expected.acting()
        with quiet():
            traces = self._traced(given, drive)
            check_call(*[self._call_of(trace, rows) for trace in traces])
        self._drop_used_up()
        self._last = self._call_of(traces[0], rows)

    def _traced(self, given: Given, drive: str = "") -> list[Trace]:
        if drive == AT_ONCE and self.mount.site().signature.style == "coroutine":
            self.counts.forget()  # nothing shows which call is counted first
        made = make_call(self.mount, given._replace(bound=bound_of(self.target)), drive)
        trace: Trace = made if isinstance(made, Trace) else self.wait_for(made)
        return [trace] if trace.beside is None else [trace, trace.beside]

    def _call_of(self, trace: Trace, rows: list[Row]) -> TracedCall:
        return TracedCall(self.mount, rows, trace, self.counts, self.nested)

    def _drop_used_up(self) -> None:
        """Remove used up hooks from the model; the mount point must have removed them too."""
        used_up = [(row, self.counts.is_used_up(row.hook)) for row in self.expected.rows]
        present = {id(hook) for level in self.expected.levels for hook in level.members}
        # A hook whose count is not known is gone if it is not there any more.
        gone = [row for row, off in used_up if (id(row.hook) not in present if off is None else off)]
        self.expected.drop(gone)
        self.expected.check("after a call")

    def check_same_call(self, given: Given) -> None:
        """Call the function itself: it ends as the call did that was traced, and counts as many failures."""
        rows, last = self._last.rows, self._last.trace
        if last.values is None or any(row.hook.options.keys() & COUNTED for row in rows):
            return
        isolated = {(row.kind, row.name) for row in rows if row.hook.isolate}
        failed = [step for step in last.steps if isinstance(step.raised, Exception)]
        should: list[object] = [sum((step.kind, step.name) in isolated for step in failed)]
        should += [last.result, type(last.exc)]
        style = self.mount.site().signature.style
        if style == "generator":
            should += [one.answer for one in last.resumed[-1:] if one.came == "end"]
        before = sum(row.hook.failures for row in rows)
        with quiet():
            found = ended(self.target, given, style, self.wait_for)
        found.insert(0, sum(row.hook.failures for row in rows) - before)
        if found != should:
            raise law_error("a call", self.mount, f"a call gives {found}, and should give {should}", last)

    def check_call_of_another(self, given: Given) -> None:
        """Call the method of another instance: the hooks of this one do not act there."""
        if self.expected.parent is not None:
            try:
                other = MethodType(self.target.__func__, copy.copy(self.target.__self__))
            except Exception:  # it cannot be copied
                return
            rows = [row for row in self.expected.acting() if row.level is self.expected.parent]
            self.check_live_call(given, other, rows)

    # Any: a target of any sort.
    def check_live_call(self, given: Given, target: Any = None, rows: list[Row] | None = None) -> None:
        """Call the function itself: it does what the interpreter does. Only hooks of the kit's own can be run twice."""
        if self.mount.site().signature.style != "function":
            return
        target, mount = (self.target, self.mount) if target is None else (target, hooks(target))
        rows = self.expected.acting() if rows is None else rows
        if any(self.counts.is_unknown(row.hook) for row in rows):
            return
        self.ran.take()
        is_own = type(self).make is MachineState.make
        with quiet():
            result, exc = outcome(target, given)
            ran = self.ran.take()
            known = interpreted(
                mount, rows, given._replace(bound=bound_of(target)), self.counts, None if is_own else (result, exc)
            )
        should = self.ran.take()
        if should != ran:
            raise law_error("a call", self.mount, f"a call runs {ran}, and should run {should}")
        if is_own and (known[0], type(known[1])) != (result, type(exc)):
            raise law_error("a call", self.mount, f"a call ends with {(result, exc)}, and should end with {known}")
        self._drop_used_up()

    @contextmanager
    def having(self, guest: Guest, given: Given) -> Generator[None]:
        """Add a guest for the length of a block."""
        late: list[Hook] = []
        entered: list[bool] = []
        style = self.mount.site().signature.style
        waits = style == "coroutine"

        def act() -> Any:
            if entered:
                return None
            entered.append(True)
            if guest.does.startswith(AGAIN):
                return self._call_again(hook, given, waits=waits)
            if guest.does == ADDS:
                late.append(self.mount.add("pre", lambda: None, name="late"))
                self.expected.rows.append(row_of(late[0], "pre", "late", None, {}, self.mount))
            if guest.does == REMOVES:
                self._remove_some()
            return None

        named = {self.names[0]: self._other_value()} if guest.does == "changes" else {}
        function = function_of(guest, style=style, changes=named, act=act)
        hook = self.mount.add(guest.kind, function, **guest.options)
        self.counts.know(hook)
        self.expected.rows.append(row_of(hook, guest.kind, hook.name, function, guest.options, self.mount))
        self.expected.check(f"with the guest {guest!r} added")
        try:
            yield
        finally:
            for one in (hook, *late):
                one.remove()
            ended = {id(one) for one in (hook, *late)}
            self.expected.drop([row for row in self.expected.rows if id(row.hook) in ended])
        self.expected.check("with the guest gone")

    def _call_again(self, hook: Hook, given: Given, *, waits: bool) -> Any:
        present = {id(one) for level in self.expected.levels for one in level.members}
        rows = [row for row in self.expected.acting() if id(row.hook) in present]
        made: Any = make_call(self.mount, given._replace(bound=bound_of(self.target)))

        def note(trace: Trace) -> None:
            self.nested.setdefault(id(hook), []).append(partial(differs, self._call_of(trace, rows)))

        async def later() -> None:
            note(await made)

        return later() if waits else note(made)

    def _remove_some(self) -> None:
        own = self.own_rows()
        if own:
            own[0].hook.remove()
            self.expected.drop(own[:1])

    def _other_value(self) -> object:
        """Return a value for the first parameter that some other call is given."""
        given = self.samples[-1]
        return given.args[0] if given.args else given.kwargs.get(self.names[0])


def _pass_over_planned(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what an event loop cannot raise, as of a task that nobody awaits; but not what comes of guests in it."""
    if not isinstance(context.get("exception"), (PlannedError, PlannedStop, AspecthookError)):
        loop.default_exception_handler(context)
