"""The calls of a machine: each is traced and compared with the model, also with a guest that is there for it alone."""

from __future__ import annotations

import copy
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from types import MethodType
from typing import Any

from aspecthook._core.law.hook import Hook
from aspecthook._core.mount.hookable import hooks
from aspecthook.testing._calls import Given, quiet
from tests.oracle.calls import make_call, outcome
from tests.oracle.drives import AT_ONCE
from tests.oracle.guests import ADDS, AGAIN, REMOVES, Guest, function_of
from tests.oracle.laws import check_call, law_error
from tests.oracle.machine_state import MachineState
from tests.oracle.model import differs, interpreted
from tests.oracle.recording import NotedTrace as Trace
from tests.oracle.rows import Row, row_of
from tests.oracle.traced_call import TracedCall


class CallingMachine(MachineState):
    """Makes calls of the target, and checks what they do."""

    def check_call(self, given: Given, drive: str = "") -> None:
        """Make a call, and check it against the laws of every mount point."""
        self.nested = {}
        rows = self.expected.acting()
        with quiet():
            traces = self._traced(given, drive)
            check_call(*[self._call_of(trace, rows) for trace in traces])
        self._drop_used_up()

    def _traced(self, given: Given, drive: str = "") -> list[Trace]:
        if drive == AT_ONCE and self.mount.site().signature.style == "coroutine":
            self.counts.forget()  # nothing shows which call is counted first
        made = make_call(self.mount, given.to(self.target), drive)
        trace: Trace = made if isinstance(made, Trace) else self.wait_for(made)
        return [trace] if trace.beside is None else [trace, trace.beside]

    def _call_of(self, trace: Trace, rows: list[Row]) -> TracedCall:
        return TracedCall(self.mount, rows, trace, self.counts, self.nested)

    def _drop_used_up(self) -> None:
        """Remove used up hooks from the model; the mount point must have removed them too."""
        used_up = [(row, self.counts.is_used_up(row.hook)) for row in self.expected.rows]
        # A hook whose count is not known is gone if it is not there any more; and so is one that a hook of the user's
        # own has removed during the call.
        believed = [row for row, off in used_up if off is None or not (self.has_own_hooks or off or _is_counted(row))]
        present = {id(hook) for level in self.expected.levels for hook in level.members}
        gone = [row for row in believed if id(row.hook) not in present]
        self.expected.drop([*gone, *(row for row, off in used_up if off)])
        if self.has_own_hooks or any(off or _is_counted(row) for row, off in used_up):
            self.expected.check("after a call")

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
            known = interpreted(mount, rows, given.to(target), self.counts, None if is_own else (result, exc))
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
        made: Any = make_call(self.mount, given.to(self.target))

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


def _is_counted(row: Row) -> bool:
    return bool(row.hook.options.keys() & {"once", "times"})
