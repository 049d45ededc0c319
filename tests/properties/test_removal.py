"""Law 4 as a state machine: hooks and another library's code come and go in any order, in the place of one function.

The model knows what is in the place (the function's own code, theirs, or ours), and what each of these was put over.
Ours are told by when they appear: what is in the place after a step of ours and was never seen before. An epoch is
one time of carrying hooks over one base; an older one is inert, and goes on where somebody has put back what it was.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Callable
from contextlib import AbstractContextManager

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aspecthook import Hook, hookable, hooks

log: list[str] = []
INNER: dict[int, Callable[..., int]] = {}


class Removal(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.theirs: dict[types.CodeType, types.CodeType] = {}  # each of their codes, and what they put it over
        self.applied: list[types.CodeType] = []
        self.ours: dict[int, tuple[types.CodeType, int]] = {}  # by id: codes of one shape are equal
        self.bases: list[types.CodeType] = []  # what each epoch was put over
        self.last = -1  # the epoch that acts, if any does: somebody may have put back the code of an older one
        self.hooks: list[Hook] = []
        self.pauses: list[AbstractContextManager[None]] = []
        self.open = False

    @initialize(lasting=st.booleans())
    def begin(self, lasting: bool) -> None:
        # The first seems to live as long as its module, so that its code may hold hooks; the second does not.
        self.function = hookable(eval("lambda x=1: x")) if lasting else hookable(lambda x=1: x)
        self.mount = hooks(self.function)
        self.plain = self.function.__code__
        self.space = dict(vars(self.function))

    # What is in the place

    def epoch(self, code: types.CodeType) -> int | None:
        """Say of which epoch a code of ours is; None: it is not ours."""
        found = self.ours.get(id(code))
        return found and found[1]

    def stripped(self, code: types.CodeType) -> types.CodeType:
        """Give what is there when ours are taken off."""
        epoch = self.epoch(code)
        return code if epoch is None else self.stripped(self.bases[epoch])

    def expected(self, code: types.CodeType) -> list[str]:
        """Give what a call of a code notes."""
        if code is self.plain:
            return []
        epoch = self.epoch(code)
        if epoch is None:
            return ["theirs", *self.expected(self.theirs[code])]
        acts = self.open and epoch == self.last
        return [*(hook.name for hook in self.hooks if acts), *self.expected(self.bases[epoch])]

    def turned(self, before: types.CodeType) -> int:
        """Say which epoch goes on over this code: the one that it is of, or was put over, or a new one."""
        epoch = self.epoch(before)
        known = [place for place, base in enumerate(self.bases) if base is before]
        if epoch is None and known:
            epoch = self.last if self.last in known else known[-1]
        if epoch is None:
            self.bases.append(before)
            epoch = len(self.bases) - 1
        return epoch

    def look(self) -> None:
        """Learn what is in the place after a step of ours."""
        code = self.function.__code__
        if code is not self.plain and code not in self.theirs and id(code) not in self.ours:
            self.ours[id(code)] = (code, self.last)

    def changed(self, before: types.CodeType) -> None:
        """Check a change that began with `before` in the place."""
        was_open, self.open = self.open, bool(self.hooks) and not self.pauses
        if self.open and not was_open:
            self.last = self.turned(before)
        self.look()
        after = self.function.__code__
        if self.open and not was_open:
            assert self.epoch(after) == self.last, "hooks were added, and nothing was put in the place"
            assert not self.mount.displaced
        elif was_open and not self.open:
            base = self.bases[self.last]
            if self.epoch(before) == self.last:
                assert after in {base, self.stripped(base)}
                assert not self.mount.displaced
            else:
                assert after is before, "others' work was touched"
                if after is not self.plain:
                    assert self.mount.displaced == (after not in {base, self.stripped(base)})
        if self.open:
            assert self.mount.displaced == (self.epoch(after) != self.last)

    # Steps of ours

    @rule()
    def add(self) -> None:
        before = self.function.__code__
        name = f"hook {len(self.hooks)}"
        self.hooks.append(self.mount.add("pre", lambda: log.append(name), name=name))
        self.changed(before)

    @precondition(lambda self: self.hooks)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        before = self.function.__code__
        hook = self.hooks.pop(data.draw(st.integers(0, len(self.hooks) - 1)))
        hook.remove()
        hook.remove()
        self.changed(before)

    @rule()
    def clear(self) -> None:
        before = self.function.__code__
        self.hooks.clear()
        self.mount.clear()
        self.changed(before)

    @rule()
    def pause(self) -> None:
        before = self.function.__code__
        self.pauses.append(self.mount.paused())
        self.pauses[-1].__enter__()
        self.changed(before)

    @precondition(lambda self: self.pauses)
    @rule()
    def resume(self) -> None:
        before = self.function.__code__
        self.pauses.pop().__exit__(None, None, None)
        self.changed(before)

    # Steps of others

    @rule()
    def put_theirs(self) -> None:
        before, key = self.function.__code__, len(INNER)
        INNER[key] = types.FunctionType(before, globals(), "inner", (1,))
        code = eval(f"lambda x=1: log.append('theirs') or INNER[{key}](x)").__code__
        self.theirs[code] = before
        self.applied.append(code)
        self.function.__code__ = code

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def take_theirs_off(self, data: st.DataObject) -> None:
        code = self.applied.pop(data.draw(st.integers(0, len(self.applied) - 1)))
        self.function.__code__ = self.theirs[code]

    @rule()
    def call(self) -> None:
        expected = self.expected(self.function.__code__)
        log.clear()
        try:
            assert self.function(5) == 5
        finally:
            self.look()
        assert log == expected

    @rule()
    def collect(self) -> None:
        gc.collect(1)  # what this machine has made is young; the heap of a whole test run is not

    def teardown(self) -> None:
        if hasattr(self, "function"):
            while self.pauses:
                self.resume()
            self.clear()
            while self.applied:
                self.function.__code__ = self.theirs[self.applied.pop()]
            self.call()
            assert self.epoch(self.function.__code__) is None, "our code stayed in the place when no hook was left"
            space = vars(self.function)
            assert [(name, space[name]) for name in space] == list(self.space.items())
        log.clear()
        INNER.clear()


TestRemoval = Removal.TestCase
TestRemoval.settings = settings(stateful_step_count=15)  # as many examples as the profile says
