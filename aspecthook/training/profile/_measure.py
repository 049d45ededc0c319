"""Hooks that measure: on a stage of a run, and on a function that is a hook on one; and what that itself costs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from inspect import isgeneratorfunction
from pathlib import Path
from time import perf_counter_ns
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

from aspecthook import AspecthookError, Hook, Return, hookable, hooks
from aspecthook._core.law.asks import KINDS, Kind
from aspecthook._core.law.callables import code_of, type_of
from aspecthook._core.law.order import arrange
from aspecthook._core.mount.point import MountPoint
from aspecthook.weave import Weaving, weave

from ._profile import Cost, Part, Profile

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

# How the names of the hooks begin that measure.
OURS = "ProfilerHook: "


def bracket(
    mount: MountPoint,
    profile: Profile,
    part: Part,
    opened: Callable[[], None],
    closed: Callable[[], None],
    rest: tuple[object, ...],
) -> list[Hook]:
    """Measure a stage: outside of all the hooks on it, and its body inside of all."""

    def begins() -> None:
        profile.enter(part)
        opened()

    def body() -> Generator[None]:  # one that can be left in the middle, in a session that is driven step by step
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
    """Measure a function, wherever it is called in a stage.

    Args:
        target: The function, or a bound method: then its calls for that object alone.
        profile: What it is told to.
        parts: What its calls are counted as, by the stage that is under way.
        name: What the hooks are called.
    """
    first = next(iter(parts.values()))

    def around(proceed: Callable[[], Any]) -> Any:
        stage = profile.stage
        frame = profile.enter(parts.get(stage, first)) if stage else None
        try:
            return Return(proceed())  # an answer itself, such as `Args`, is the result here
        finally:
            profile.leave(frame)

    def begins(call: Any) -> None:
        stage = profile.stage
        call.state["frame"] = profile.enter(parts.get(stage, first)) if stage else None

    def ends(call: Any) -> None:
        profile.leave(call.state.get("frame"))

    if isgeneratorfunction(target):  # an around hook: the stage runs while it waits at its `yield`
        return weave(target, pre=begins, always=ends, name=name)
    return weave(target, around=around, name=name, priority=0)


def hooks_on(runner: Runner, stage: str) -> list[tuple[Kind, tuple[Hook, ...]]]:
    """Give the hooks on a stage of a run by kind, in the order in which they run; not those that measure."""
    try:
        mounts = hooks(getattr(type(runner), stage)), hooks(getattr(runner, stage))
    except AspecthookError:  # a method of a subclass that is no mount point
        return []
    members = [hook for mount in mounts for hook in mount.members if not hook.name.startswith(OURS)]
    kinds = dict.fromkeys(hook.kind for hook in members)
    return [(kind, arrange(hook for hook in members if hook.kind == kind)) for kind in KINDS if kind in kinds]


def target_of(hook: Hook) -> Any:
    """Give the Python function that a hook runs, or the bound method; None if there is none."""
    # Any: isinstance cannot tell what such a shell takes and gives.
    inner: Any = hook.function
    if hook.ref is not None:  # what is called is what is held weakly, and not what stands for it
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
    """Name a hook: the method of one that was registered, whose name is known by its identity; else by its own name."""
    owner = owner_of(hook.function)
    word = getattr(hook.function, "__name__", "")
    return f"{names[id(owner)]}.{word}" if id(owner) in names and word else hook.name


def owner_of(function: object) -> object:
    """Give the object whose method it is."""
    return function.__self__ if isinstance(function, MethodType) else None


def place_of(hook: Hook) -> str:
    """Say where a hook is written."""
    code = code_of(hook.function)
    return f"{_near(code.co_filename)}:{code.co_firstlineno}" if code is not None else ""


def _near(file: str) -> str:
    """Give a path from here, if that is shorter."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


# What measuring costs


class _Idle:
    """Stands in for a runner and a hook: what it takes is what measuring takes."""

    @hookable
    def stage(self) -> None: ...

    def hook(self) -> None: ...


def costs(clock: Callable[[], int]) -> tuple[Cost, Cost]:
    """Measure what measuring costs, of a hook and of a stage."""
    profile, idle = Profile(clock), _Idle()
    hook, stage, outer = Part("stage", "hook"), Part("stage"), Part("outer")
    profile.begin()
    profile.enter(outer)
    bare = _time(profile, idle.hook)
    with measure(idle.hook, profile, {"outer": hook}, OURS):
        of_hook = _cost(profile, idle.hook, hook, bare)
    mount = hooks(idle.stage)
    bracket(mount, profile, stage, lambda: None, lambda: None, ())
    of_stage = _cost(profile, idle.stage, stage, bare)
    mount.clear()
    return of_hook, of_stage


_CALLS, _ROUNDS = 200, 5


def _time(profile: Profile, function: Callable[[], None]) -> float:
    """Give the nanoseconds of a call."""
    begun = profile.clock()
    for _ in range(_CALLS):
        function()
    return (profile.clock() - begun) / _CALLS


def _cost(profile: Profile, function: Callable[[], None], part: Part, bare: float) -> Cost:
    function()
    found: list[Cost] = []
    for _ in range(_ROUNDS):
        part.total = 0
        took = _time(profile, function)
        counted = part.total / _CALLS
        found.append(Cost(max(0.0, counted - bare), max(0.0, took - counted)))
    return min(found, key=sum)  # the one that was disturbed the least


def synchronized() -> int:
    """Give the time in nanoseconds, once the GPU has done what it was asked for."""
    from importlib import import_module

    cuda: Any = import_module("torch").cuda
    if cuda.is_available():
        cuda.synchronize()
    return perf_counter_ns()
