"""A call that was traced, with all that is needed to play it again, and what two such calls are compared by."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, final

from aspecthook._core.law.call import Site
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import KINDS, Kind
from aspecthook._core.law.order import Chain
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import HookAnswerError
from tests.oracle.recording import NotedStep as Step
from tests.oracle.recording import NotedTrace as Trace
from tests.oracle.rows import Counts, Row, of_kind, ordered

COUNTED = frozenset({"once", "times", "every", "reentrant"})


@final
@dataclass(frozen=True, eq=False)
class TracedCall:
    """A call that was traced, and all that is needed to play it again."""

    mount: MountPoint
    rows: list[Row]  # the hooks that should act in the call, in the order in which they were added
    trace: Trace
    counts: Counts
    # What checks the calls that hooks have made in it, by the id of the hook.
    nested: dict[int, list[Callable[[], str | None]]]

    @cached_property
    def chain(self) -> Chain:
        """The hooks in the order in which they must run."""
        return chain_of(self.rows)


class _Site(Site):
    """The site of a replay; what `inspect.signature` shows of the target is the same."""

    real: Site

    def shown(self) -> Any:
        return self.real.shown()


def site_of(mount: MountPoint) -> Site:
    """Make the site of a replay, in which nothing waits."""
    emission = mount.site().signature.emission
    site = _Site(mount.name, mount.code(), lambda: mount.function, emission)
    site.real = mount.site()
    site.signature = copy.copy(site.signature)  # functions with the same parameters share one
    site.signature.style = "generator" if "generator" in site.signature.style else "function"
    return site


def chain_of(rows: list[Row]) -> Chain:
    by_kind: dict[Kind, tuple[Hook, ...]] = {}
    for kind in KINDS:
        order = ordered(of_kind(rows, kind))
        assert order is not None, "the hooks of a call have an order, or they would have been refused"
        by_kind[kind] = tuple([row.hook for row in order])
    return Chain(()).replaced(by_kind)


@final
class Admission:
    """Stands for the conditions of a hook that count."""

    reentrant = True  # the interpreter need not report when a run ends: `Counts.acting` has what is running
    counts_every_alone = False

    def __init__(self, counts: Counts, hook: Hook, has_run: Callable[[], bool]) -> None:
        self.counts = counts
        self.hook = hook
        self.has_run = has_run  # what is believed where nothing is known

    def admit(self) -> bool:
        """Whether the hook runs now, by the counts of the model."""
        admitted = self.counts.admits(self.hook)
        return self.has_run() if admitted is None else admitted


def step_name(step: Step) -> str:
    return f"{step.kind} {step.name}"


def same_object(one: Any, other: Any) -> bool:
    """Whether two values are one object; containers that each call makes anew are compared by their items.

    These are the tuples and dicts in which arguments are passed, and the list that an event returns.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, (tuple, list)):
        pair = cast("tuple[Sequence[object], Sequence[object]]", (one, other))
        return len(pair[0]) == len(pair[1]) and all(map(same_object, *pair))
    if isinstance(one, dict):
        first, second = cast("tuple[dict[str, object], dict[str, object]]", (one, other))
        return first.keys() == second.keys() and all(same_object(value, second[key]) for key, value in first.items())
    # Python's own, made anew each time.
    if type(one) in (RuntimeError, TypeError) and ("generator" in str(one) or "coroutine raised" in str(one)):
        return str(one) == str(other).replace("async ", "")  # a replay is not async
    return isinstance(one, (HookAnswerError, GeneratorExit))  # made anew by whoever refuses the answer, or closes
