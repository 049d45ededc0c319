"""Law 4 as a state machine: hooks and another library's code come and go in any order, in the place of one function.

The model knows what is in the place (the function's own code, theirs, or ours), and what each of these was put over.
Ours is put over what the function had when it was hooked first, the base, and never over what others have put there
since: then the hooks act where their code calls ours, and the mount point says that it is displaced.
"""

from __future__ import annotations

import copy
import gc
import inspect
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aspecthook import Hook, hookable, hooks
from aspecthook._core.compile.copies import Attribute
from aspecthook._core.mount.point import MountPoint

log: list[str] = []
INNER: dict[int, Callable[..., int]] = {}


def made(text: str) -> types.FunctionType:
    """Make a function that seems to live as long as its module."""
    space: dict[str, Any] = {}
    exec(f"def target(x=1, *, y=2): return {text}", globals(), space)
    return space["target"]  # type: ignore[no-any-return]


def run(code: types.CodeType) -> types.FunctionType:
    """Return a function that runs a code."""
    function = types.FunctionType(code, globals(), "inner", (1,))
    function.__kwdefaults__ = {"y": 2}
    return function


def copied(function: types.FunctionType) -> types.FunctionType:
    """Return a function that may die before its module."""
    function.__code__ = function.__code__.replace(co_qualname="made.<locals>.target")
    return function


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

    @initialize(lasting=st.booleans(), woven=st.booleans())
    def begin(self, lasting: bool, woven: bool) -> None:
        # The first seems to live as long as its module, so that its code may hold hooks; the second does not.
        self.function = made("x") if lasting else copied(made("x"))
        self.plain = self.function.__code__
        self.signature = inspect.signature(self.function)
        self.attributes: dict[str, object] = {}  # what others have set
        self.bare = vars(self.function) if woven else None
        self.mount = MountPoint(self.function) if woven else hooks(hookable(self.function))

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
        self.seen()
        if self.open:
            assert self.mount.displaced == (not can_act)
        elif was_open and after is not self.plain:
            assert self.mount.displaced == (after is not self.base)

    def seen(self) -> None:
        """Check what tools see of the function: no hooks, and the attributes of others."""
        code, space = self.function.__code__, vars(self.function)
        assert code.co_name == "target"
        assert inspect.signature(self.function) == self.signature
        shown = {name: value for name, value in {**space}.items() if not isinstance(value, Attribute)}
        assert shown == copy.copy(space) == self.attributes

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
        INNER[key] = run(before)
        code = made(f"log.append('theirs') or INNER[{key}](x)").__code__
        self.theirs[code] = before
        self.applied.append(code)
        self.function.__code__ = code

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def take_theirs_off(self, data: st.DataObject) -> None:
        code = self.applied.pop(data.draw(st.integers(0, len(self.applied) - 1)))
        self.function.__code__ = self.theirs[code]

    @rule(name=st.sampled_from("ab"), value=st.integers())
    def set_attribute(self, name: str, value: int) -> None:
        self.attributes[name] = value
        setattr(self.function, name, value)

    @rule(name=st.sampled_from("ab"))
    def delete_attribute(self, name: str) -> None:
        if self.attributes.pop(name, None) is not None:
            delattr(self.function, name)

    @rule()
    def call_kept(self) -> None:
        for code in [*self.ours.values()]:
            expected = self.expected(code)
            log.clear()
            assert run(code)(5) == 5
            self.look()
            assert log == expected

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
            self.seen()
            assert self.bare is None or vars(self.function) is self.bare
        log.clear()
        INNER.clear()


TestRemoval = Removal.TestCase
TestRemoval.settings = settings(max_examples=3 * settings().max_examples, stateful_step_count=20)
