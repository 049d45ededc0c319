"""Law 4 as a state machine: hooks and another library's code come and go in any order, in the place of one function.

The model knows what is in the place (the function's own code, theirs, or ours), and what each of these was put over.
Ours is put over what the function had when it was hooked first, the base, and never over what others have put there
since: then the hooks act where their code calls ours, and the mount point says that it is displaced.
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
        # By id, since codes of one shape are equal. As the model keeps them, the place is never let go and made again.
        self.ours: dict[int, types.CodeType] = {}
        self.base: types.CodeType | None = None
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

    def is_ours(self, code: types.CodeType) -> bool:
        return id(code) in self.ours

    def expected(self, code: types.CodeType) -> list[str]:
        """Return what a call of a code notes."""
        if code is self.plain:
            return []
        if not self.is_ours(code):
            return ["theirs", *self.expected(self.theirs[code])]
        assert self.base is not None
        return [*(hook.name for hook in self.hooks if self.open), *self.expected(self.base)]

    def look(self) -> None:
        """Learn what is in the place after a step of ours."""
        code = self.function.__code__
        if code is not self.plain and code not in self.theirs:
            self.ours[id(code)] = code

    def changed(self, before: types.CodeType) -> None:
        """Check a change that began with `before` in the place."""
        was_open, self.open = self.open, bool(self.hooks) and not self.pauses
        if self.open and self.base is None:
            self.base = before
        self.look()
        after = self.function.__code__
        can_act = before is self.base or self.is_ours(before)
        if not can_act:
            assert after is before, "others' work was touched"
        elif self.open:
            assert self.is_ours(after), "there are hooks, and nothing was put in the place"
        elif was_open:
            assert after is self.base, "the last hook was removed, and ours stayed in the place"
        if self.open:
            assert self.mount.displaced == (not can_act)
        elif was_open and after is not self.plain:
            assert self.mount.displaced == (after is not self.base)

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
            assert not self.is_ours(self.function.__code__), "our code stayed in the place when no hook was left"
            space = vars(self.function)
            assert [(name, space[name]) for name in space] == list(self.space.items())
        log.clear()
        INNER.clear()


TestRemoval = Removal.TestCase
TestRemoval.settings = settings(stateful_step_count=15)  # as many examples as the profile says
