"""The laws of every mount point as checks, which plain rows and the interpreter of law 1 decide."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, TypeAlias

from aspecthook._core.law.kinds import KINDS
from aspecthook._core.mount.hookable import hooks
from aspecthook._core.mount.instance import InstanceMountPoint
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import article
from aspecthook._values import shortened
from aspecthook.testing._calls import Given, bound_of, run_to_end
from tests.oracle.calls import code_in, make_call
from tests.oracle.law import kinds_of
from tests.oracle.model import differs
from tests.oracle.recording import NotedTrace
from tests.oracle.rows import Counts, Row, acting, law_error, of_kind, ordered, rows_of
from tests.oracle.traced_call import TracedCall

_GUEST = "<guest of the kit>"  # no hook of the user's has this name, and so no constraint of theirs names it

# The parts of what can be seen of a mount point.
State: TypeAlias = list[tuple[str, list[object]]]

# The laws of every mount point


def check_order(mount: MountPoint, rows: Sequence[Row]) -> None:
    """Check law 2 against plain rows of the hooks that the mount point itself carries."""
    for kind in dict.fromkeys([*(row.kind for row in rows), *(hook.kind for hook in mount.members)]):
        shown = list(getattr(mount, kind))
        order = ordered(of_kind(rows, kind))
        if order is None:
            raise law_error("order", mount, f"the {kind} hooks contradict each other, and were not refused")
        if len(shown) != len(order) or any(hook is not row.hook for hook, row in zip(shown, order, strict=True)):
            names = ", ".join(f"{hook.name} ({hook.priority})" for hook in shown)
            should = ", ".join(f"{row.name} ({row.priority})" for row in order)
            raise law_error("order", mount, f"the {kind} hooks run {names}; they should run {should}")


def check_plain(mount: MountPoint) -> None:
    """Check law 4: where nothing acts, the function runs its own code."""
    owner = mount.parent if isinstance(mount, InstanceMountPoint) else mount
    if owner is not mount and not mount.members and id(mount) in map(id, owner.instances.values()):
        raise law_error("no trace", mount, "it has no hooks, and calls still look for it")
    acts = owner.instances or (not owner.pauses and any(not hook.paused for hook in owner.members))
    if not acts and not mount.displaced and _is_ours(mount):
        raise law_error("no trace", mount, "nothing acts, and the function does not run its own code object")


def _is_ours(mount: MountPoint) -> bool:
    code = code_in(mount)
    return code is not None and code is not mount.code()


def _stand_in(kind: str) -> Callable[..., Any]:
    def note() -> None: ...

    def around() -> Generator[None]:  # with one yield, it serves targets of every style
        yield

    return around if kind == "around" else note


@contextmanager
def unchanged(mount: MountPoint, what: str) -> Generator[None]:
    """Check that what is done in the block changes nothing that anybody could see, by identity."""
    before = _state(mount)
    yield
    _compare(mount, before, _state(mount), what)


def _compare(mount: MountPoint, before: State, after: State, what: str) -> None:
    for (part, was), (_, is_) in zip(before, after, strict=True):
        if len(was) != len(is_) or any(one is not other for one, other in zip(was, is_, strict=True)):
            raise law_error("no trace", mount, f"{what} changes {part}: from {shortened(was)} to {shortened(is_)}")


def _state(mount: MountPoint) -> State:
    return [
        ("its hooks", list(mount.members)),
        *((f"its {kind} hooks", list(getattr(mount, kind))) for kind in KINDS),
        *traces(mount),
    ]


def traces(mount: MountPoint) -> State:
    """Return what can be seen of a mount point without asking it: the code and the `__dict__` of its function."""
    # While hooks act the code is ours, and is made anew when it is next called.
    code = "ours" if _is_ours(mount) else code_in(mount)
    space: dict[str, object] = getattr(mount.function, "__dict__", {})
    entries = sorted(dict[str, object].items(space), key=itemgetter(0))  # not those that it shows: all there are
    return [
        ("its code", [code]),
        ("the names in its __dict__", [name for name, _ in entries]),
        ("its __dict__", [value for _, value in entries]),
    ]


def check_traces(mount: MountPoint, before: State, what: str) -> None:
    """Check that nothing can be seen that could not be seen before, by identity."""
    _compare(mount, before, traces(mount), what)


def check_comings_and_goings(mount: MountPoint) -> None:
    """Check that hooks of each kind come and go without a trace."""
    for kind in kinds_of(mount.site().signature):
        with unchanged(mount, f"adding and removing {article(kind)} {kind} hook"):
            hook = mount.add(kind, _stand_in(kind), name=_GUEST)
            hook.remove()
            hook.remove()


def check_explained(mount: MountPoint) -> None:
    """Check that the mount point can be explained."""
    text = mount.explain()
    if mount.name not in text or len(text.splitlines()) < 1 + bool(mount.chain().hooks):
        raise law_error("explain", mount, f"its explanation is {text!r}")


def check_call(call: TracedCall, *beside: TracedCall) -> None:
    """Check a call against laws 1 and 2: it did what the interpreter does on the naively ordered hooks.

    Another call may have been made at once.
    """
    wrong = differs(call, *beside)
    if wrong is not None:
        raise law_error("a call", call.mount, wrong, call.trace)


# Any: a mount point of any sort, and its own arguments.
def check_laws(function: Any, /, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None) -> None:
    """Check all laws on a mount point as it is now, and leave it as it was; with arguments also those of one call."""
    mount = hooks(function)
    with unchanged(mount, "checking the laws"):
        check_order(mount, rows_of(mount))
        check_plain(mount)
        check_comings_and_goings(mount)
        check_explained(mount)
    if args is not None or kwargs is not None:
        rows = acting(mount)
        made: Any = make_call(mount, Given(tuple(args or ()), dict(kwargs or {}), bound_of(function)))
        trace = made if isinstance(made, NotedTrace) else run_to_end(made)
        check_call(TracedCall(mount, rows, trace, Counts(), {}))
