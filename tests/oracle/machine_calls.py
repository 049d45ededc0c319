"""The calls of a machine: each is traced and compared with the model, also with a guest that is there for it alone."""

from __future__ import annotations

import copy
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from types import MethodType
from typing import Any

from aspecthook._core.law.hook import Hook
from aspecthook._core.mount.hookable import hooks
from aspecthook.testing._calls import Given, quiet
from tests.oracle.calls import make_call, outcome
from tests.oracle.drives import AT_ONCE
from tests.oracle.guests import ADDS, AGAIN, ANSWERS, REMOVES, Guest, function_of
from tests.oracle.laws import check_call, check_law, law_error
from tests.oracle.machine_state import MachineState
from tests.oracle.model import differs, interpreted
from tests.oracle.recording import NotedTrace as Trace
from tests.oracle.rows import Row, row_of
from tests.oracle.traced_call import TracedCall

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class CallingMachine(MachineState):
    """Makes calls of the target, and checks what they do."""

    def _call(self, given: Given, drive: str = "") -> None:
        self._check_laws([self._trace(given, drive)], drive)

    def _check_laws(self, traces: list[Trace], drive: str) -> None:
        """Check the user's laws on calls that were read to their end: a law may repeat a call, but only like that."""
        if drive:
            return
        counted = self._counted()
        for trace in traces:
            for one in self._laws:
                check_law(one, self.mount, trace)
        if counted != self._counted():  # a law has called the target itself
            self._counts.forget()
            self._expected.take_over()

    def _counted(self) -> object:
        """Return how far the hooks have counted their runs, to be compared."""
        guards = [row.hook.guard for row in self._expected.rows]
        # `skips` is a cycle: reading one whole round of it leaves it where it was.
        skips = [[*islice(one.skips, one.every)] for one in guards if one is not None and one.skips is not None]
        return [repr(one._runs) for one in guards if one is not None], skips

    def _trace(self, given: Given, drive: str) -> Trace:
        """Make a call, and check it against the laws of every mount point."""
        self._nested = {}
        rows = self._expected.acting()
        with quiet():
            traces = self._traced(given, drive)
            check_call(*[self._call_of(trace, rows) for trace in traces])
        self._drop_used_up()
        return traces[0]

    def _traced(self, given: Given, drive: str = "") -> list[Trace]:
        if drive == AT_ONCE and self.mount.site().signature.style == "coroutine":
            self._counts.forget()  # nothing shows which call is counted first
        made = make_call(self.mount, given.to(self.target), drive)
        trace: Trace = made if isinstance(made, Trace) else self.wait_for(made)
        traces = [trace] if trace.beside is None else [trace, trace.beside]
        for one in traces:
            one._wait = self.wait_for  # where a law makes the call again
        return traces

    def _call_of(self, trace: Trace, rows: list[Row]) -> TracedCall:
        return TracedCall(self.mount, rows, trace, self._counts, self._nested)

    def _drop_used_up(self) -> None:
        """Remove used up hooks from the model; the mount point must have removed them too."""
        used_up = [(row, self._counts.is_used_up(row.hook)) for row in self._expected.rows]
        # A hook whose count is not known is gone if it is not there any more; and so is one that a hook of the user's
        # own has removed during the call.
        believed = [row for row, off in used_up if off is None or not (self._has_kit_hooks or off or _is_counted(row))]
        present = {id(hook) for level in self._expected.levels for hook in level.members}
        gone = [row for row in believed if id(row.hook) not in present]
        self._expected.drop([*gone, *(row for row, off in used_up if off)])
        if self._has_kit_hooks or any(off or _is_counted(row) for row, off in used_up):
            self._expected.check("after a call")

    def _call_other(self, given: Given) -> None:
        """Call the method of another instance: the hooks of this one do not act there."""
        if self._expected.parent is not None:
            try:
                other = MethodType(self.target.__func__, copy.copy(self.target.__self__))
            except Exception:  # it cannot be copied
                return
            rows = [row for row in self._expected.acting() if row.level is self._expected.parent]
            self._call_live(given, other, rows)

    # Any: a target of any sort.
    def _call_live(self, given: Given, target: Any = None, rows: list[Row] | None = None) -> None:
        """Call the function itself: it does what the interpreter does. Only hooks of the kit's own can be run twice."""
        if self.mount.site().signature.style != "function" or self._calls_itself:
            return
        target, mount = (self.target, self.mount) if target is None else (target, hooks(target))
        rows = self._expected.acting() if rows is None else rows
        if any(self._counts.is_unknown(row.hook) for row in rows):
            return
        self._ran.take()
        is_own = type(self).make is MachineState.make
        with quiet():
            result, exc = outcome(target, given)
            ran = self._ran.take()
            known = interpreted(mount, rows, given.to(target), self._counts, None if is_own else (result, exc))
        should = self._ran.take()
        if should != ran:
            raise law_error("a call", self.mount, f"a call runs {ran}, and should run {should}")
        if is_own and (known[0], type(known[1])) != (result, type(exc)):
            raise law_error("a call", self.mount, f"a call ends with {(result, exc)}, and should end with {known}")
        self._drop_used_up()

    def _call_with(self, guest: Guest, given: Given, drive: str) -> None:
        with self._guest(guest, given):
            traces = [self._trace(given, drive) for _ in range(guest.calls)]
        # Without the guest: a law may call the target itself, and what a guest raises is nobody else's business.
        if guest.does not in ANSWERS:
            self._check_laws(traces, drive)

    @contextmanager
    def _guest(self, guest: Guest, given: Given) -> Generator[None]:
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
                self._expected.rows.append(row_of(late[0], "pre", "late", None, {}, self.mount))
            if guest.does == REMOVES:
                self._remove_some()
            return None

        named = {self._names[0]: self._other_value()} if guest.does == "changes" else {}
        function = function_of(guest, style=style, changes=named, act=act)
        hook = self.mount.add(guest.kind, function, **guest.options)
        self._counts.know(hook)
        self._expected.rows.append(row_of(hook, guest.kind, hook.name, function, guest.options, self.mount))
        self._expected.check(f"with the guest {str(guest)!r} added")
        try:
            yield
        finally:
            for one in (hook, *late):
                one.remove()
            ended = {id(one) for one in (hook, *late)}
            self._expected.drop([row for row in self._expected.rows if id(row.hook) in ended])
        self._expected.check("with the guest gone")

    def _call_again(self, hook: Hook, given: Given, *, waits: bool) -> Any:
        present = {id(one) for level in self._expected.levels for one in level.members}
        rows = [row for row in self._expected.acting() if id(row.hook) in present]
        made: Any = make_call(self.mount, given.to(self.target))

        def note(trace: Trace) -> None:
            self._nested.setdefault(id(hook), []).append(partial(differs, self._call_of(trace, rows)))

        async def later() -> None:
            note(await made)

        return later() if waits else note(made)

    def _remove_some(self) -> None:
        own = self._own_rows()
        if own:
            self.detach(own[0].hook)
            self._expected.drop(own[:1])

    def _other_value(self) -> object:
        """Return a value for the first parameter that some other call is given."""
        given = self._samples[-1]
        return given.args[0] if given.args else given.kwargs.get(self._names[0])


def _is_counted(row: Row) -> bool:
    return bool(row.hook.options.keys() & {"once", "times"})
