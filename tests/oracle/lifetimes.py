"""Law 5 on lifetimes: no hook keeps its target alive, and no target that is gone keeps its hooks alive.

The invariant: what is expected of a hooked target is what the same target does without hooks; where `make` returns
something that outlives the machine, nothing is checked.
"""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import update_wrapper
from types import FunctionType, MethodType
from typing import Any

from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import Kind, kinds_of
from aspecthook._core.mount.hookable import hooks
from aspecthook._core.mount.instance import InstanceMountPoint
from aspecthook._core.mount.point import MountPoint, mount_of
from aspecthook.testing._calls import Given
from tests.oracle.calls import outcome
from tests.oracle.guests import PlannedError
from tests.oracle.laws import law_error
from tests.oracle.machine_state import MachineState


def check_lifetimes(state: MachineState, given: Given) -> None:
    """Check that weak hooks go with what they are of, and that a call that fails leaves nothing to the collector."""
    mount = state.mount
    _check_weak(mount)
    if isinstance(mount, InstanceMountPoint):
        _check_instances(mount, state.target)
    if mount.site().signature.style == "function":
        _check_failures(mount, state.target, given)
        if not isinstance(mount, InstanceMountPoint):
            _check_copies(mount, given)


def _check_weak(mount: MountPoint) -> None:
    before = mount.members
    owner = _Owner()
    hook = mount.add("pre", owner.act, weak=True)
    seen = weakref.ref(owner)
    del owner
    gone = seen() is None and mount.members == before
    hook.remove()
    if not gone:
        raise law_error("lifetimes", mount, "a weak hook stays, though its object is gone")


class _Owner:
    def act(self) -> None:
        """Do nothing."""


def _check_failures(mount: MountPoint, target: Any, given: Given) -> None:
    """Check that reference counting alone ends all exceptions of a call, as it does without hooks."""
    seen: list[weakref.ref[PlannedError]] = []

    def fail() -> None:
        error = PlannedError("planned")
        seen.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error  # else this frame would keep it alive

    def around() -> Generator[None]:
        yield

    def failing() -> Generator[None]:
        fail()
        yield

    failures: list[tuple[Kind, Callable[..., object]]] = [
        ("around", around),
        ("around", failing),
        ("exception", fail),
        ("exception", fail),
        ("always", fail),
        ("always", fail),
    ]
    added = [mount.add(kind, function, again=True, priority=0) for kind, function in failures]
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        outcome(target, given)
        alive = [one for one in seen if one() is not None]
    finally:
        if was_enabled:
            gc.enable()
        for hook in added:
            hook.remove()
    if alive:
        raise law_error("lifetimes", mount, "a call that failed is kept alive by itself until it is collected")


def _check_instances(mount: MountPoint, target: Any) -> None:
    """Check that an object has one mount point, and that nobody finds that of an object which is gone."""
    if hooks(target) is not mount:
        raise law_error("lifetimes", mount, "another look at it finds another mount point")
    for _ in range(20):
        other = copy.copy(target.__self__)
        found = hooks(MethodType(target.__func__, other))
        found.add("pre", lambda: None)
        del other
        again = copy.copy(target.__self__)  # mostly where the other was
        if hooks(MethodType(target.__func__, again)).members:
            raise law_error("lifetimes", mount, f"{found} of an object that is gone is found again")


def _check_copies(mount: MountPoint, given: Given) -> None:
    """Check that what is made of a hooked function has none of our attributes, and runs the hooks of the moment."""
    function: Any = mount.function
    if not isinstance(function, FunctionType) or mount.site().signature.emission is not None:
        return
    ran: list[str] = []
    with mount.add("pre", lambda: ran.append("old"), name="old"):
        outcome(function, given)  # so that the chain is linked
        copied = update_wrapper(lambda: None, function)
        kept = FunctionType(function.__code__, function.__globals__, "kept", None, function.__closure__)
        kept.__defaults__, kept.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    if mount_of(copied) is not None or copied.__wrapped__ is not function:
        raise law_error("no trace", mount, f"a copy of its attributes has taken ours along: {vars(copied)}")
    ran.clear()
    with mount.add("pre", lambda: ran.append("new"), name="new"):
        outcome(kept, given)
    if ran != ["new"] * bool(ran):
        raise law_error("no trace", mount, "a copy of its code that was kept runs hooks that are removed")


def check_death(machine: type[MachineState]) -> None:
    """Check that a hooked target dies when nothing refers to it any more, and its hooks with it."""
    with _collecting():
        if _alive(_made(machine, hooked=False)):
            return
        alive = _alive(_made(machine, hooked=True))
    if alive:
        raise law_error(
            "lifetimes", machine().mount, f"nothing refers to it any more, and its hooks keep {alive[0]} alive"
        )


Remains = tuple[list[tuple[str, "weakref.ref[Any]"]], object]


def _made(machine: type[MachineState], *, hooked: bool) -> Remains:
    """Make a target, hook it and call it, and drop it; return what must be freed, and what may stay."""
    state = machine()
    machine._last = None
    mount, target, given = state.mount, state.target, state._samples[0]
    is_instance = isinstance(mount, InstanceMountPoint)
    thing: Any = target.__self__ if is_instance else mount.function
    seen: list[tuple[str, weakref.ref[Any]]] = [("its instance" if is_instance else "its function", weakref.ref(thing))]
    kept: list[object] = []
    if hooked:
        kinds = kinds_of(mount.site().signature)
        own: Any = MethodType(_nothing, thing) if is_instance else lambda: target and None
        added: list[Hook] = [mount.add("pre", own, name="own")]
        added += [mount.add(kind, lambda: None, name="other") for kind in kinds if kind not in ("around", "item", "on")]
        if mount.site().signature.style == "function":
            outcome(target, given)
        seen += [("a hook", weakref.ref(hook)) for hook in added[:-1]]
        seen.append(("its mount point", weakref.ref(mount)))
        kept = [added[-1], state._expected.parent]  # a handle keeps nothing else
    return seen, kept


def _nothing(_self: object) -> None:
    """Do nothing."""


def _alive(remains: Remains) -> list[str]:
    gc.collect()
    seen, _ = remains
    return [what for what, ref in seen if ref() is not None]


@contextmanager
def _collecting() -> Generator[None]:
    """Restrict the garbage collector to what is made in the block, which makes it fast."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
