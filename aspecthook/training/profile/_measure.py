"""Hooks that measure a stage of a run, or a hook on one; and the list of the hooks on a stage."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from importlib import import_module
from inspect import isgeneratorfunction
from time import perf_counter_ns
from types import FunctionType, MethodType
from typing import Any, cast

from aspecthook import AspecthookError, Hook, Return, hooks
from aspecthook._core.law.callables import type_of
from aspecthook._core.law.kinds import KINDS, Kind
from aspecthook._core.law.order import Chain
from aspecthook._core.mount.point import MountPoint
from aspecthook.training.loop._run import Run
from aspecthook.weave import Weaving, weave

from ._profile import Part, Profile

# The names of the hooks that measure begin with this.
OURS = "ProfilerHook: "


def bracket(
    mount: MountPoint,
    profile: Profile,
    part: Part,
    opened: Callable[[], None],
    closed: Callable[[], None],
    rest: tuple[object, ...],
) -> list[Hook]:
    """Measure a stage twice: around all its hooks, and inside all of them. Return the hooks that measure."""

    def begins() -> None:
        profile.enter(part)
        opened()

    # A generator, since a session that is driven step by step may leave the stage in the middle.
    def body() -> Generator[None]:
        frame = profile.enter(part, is_body=True)
        try:
            yield
        finally:
            profile.leave(frame)

    def ends() -> None:
        profile.leave_part(part)
        closed()

    name = f"{OURS}{part.stage}"
    return [
        mount.add("pre", begins, name=f"{name} begins", priority=0, before=rest),
        mount.add("around", body, name=name, priority=100, after=rest),
        mount.add("always", ends, name=f"{name} ends", priority=100, after=rest),
    ]


def measure(target: Any, profile: Profile, parts: Mapping[str, Part], name: str) -> Weaving:
    """Measure the calls of a function; those of a bound method only on its object.

    The function itself is woven, and no timer put in its place in the chain: a run and an epoch are under way when
    measuring begins, and a call keeps the chain that it began with. So one function may be a hook on several stages;
    a call counts for the part that `parts` has for the stage under way.
    """
    first = next(iter(parts.values()))

    def around(proceed: Callable[[], Any]) -> Any:
        stage = profile.stage
        frame = profile.enter(parts.get(stage, first)) if stage else None
        try:
            return Return(proceed())  # the result may be an answer itself, such as `Args`
        finally:
            profile.leave(frame)

    def begins(call: Any) -> None:
        stage = profile.stage
        call.state["frame"] = profile.enter(parts.get(stage, first)) if stage else None

    def ends(call: Any) -> None:
        profile.leave(call.state.get("frame"))

    if isgeneratorfunction(target):  # an around hook, whose call is over when it reaches its `yield`
        return weave(target, pre=begins, always=ends, name=name)
    return weave(target, around=around, name=name, priority=0)


def hooks_on(runner: Run, stage: str) -> list[tuple[Kind, tuple[Hook, ...]]]:
    """Return the hooks on a stage by kind, in the order in which they run, without those that measure."""
    try:
        mounts = hooks(getattr(type(runner), stage)), hooks(getattr(runner, stage))
    except AspecthookError:  # a subclass has overridden the stage with a method that is no mount point
        return []
    members = [hook for mount in mounts for hook in mount.members if not hook.name.startswith(OURS)]
    chain = Chain(tuple(members))
    return [(kind, ordered) for kind in KINDS if (ordered := getattr(chain, kind))]


def target_of(hook: Hook) -> Any:
    """Return the Python function or bound method that a hook calls; None if it calls C code."""
    # Any: isinstance cannot tell the types that a partial or a staticmethod takes.
    inner: Any = hook.function
    if hook.ref is not None:  # a weak hook calls the object that it holds weakly
        held = hook.ref()
        inner = held if hook.inner is None or held is None else MethodType(hook.inner, held)
    while isinstance(inner, (partial, staticmethod)):
        inner = cast("Any", inner).func if isinstance(inner, partial) else cast("Any", inner).__func__
    if isinstance(inner, MethodType):
        return inner if isinstance(inner.__func__, FunctionType) else None
    if isinstance(inner, FunctionType):
        return inner
    call: object = getattr(type_of(inner), "__call__", None)  # noqa: B004  # the function, not whether there is one
    return MethodType(call, inner) if isinstance(call, FunctionType) and not isinstance(inner, type) else None


def label_of(hook: Hook, names: Mapping[int, str]) -> str:
    """Return the name of a hook: ``EvalHook.after_train_epoch`` for a method of a registered hook, else its own."""
    owner = owner_of(hook)
    word = getattr(hook.function, "__name__", "")
    return f"{names[id(owner)]}.{word}" if id(owner) in names and word else hook.name


def owner_of(hook: Hook) -> object:
    """Return the object whose method a hook is."""
    return hook.function.__self__ if isinstance(hook.function, MethodType) else None


def synchronized() -> int:
    """Return the time in nanoseconds, when the GPU has finished its work."""
    cuda: Any = import_module("torch").cuda
    if cuda.is_available():
        cuda.synchronize()
    return perf_counter_ns()
