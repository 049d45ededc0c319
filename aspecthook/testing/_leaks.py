"""The hooks that a test leaves behind on what outlives it: they are found by what the garbage collector knows."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Literal, Protocol, cast

import pytest

from aspecthook._core.law.hook import Hook
from aspecthook._core.mount.instance import InstanceMountPoint
from aspecthook._core.mount.point import MountPoint

from ._failures import namespace_of

_FAR = 6  # that many objects from a module to what it holds
_MOST = 20  # hooks that are listed


class HookLeakWarning(pytest.PytestWarning):
    """A test has left a hook behind on a function that outlives it.

    Example:
        >>> HookLeakWarning.__module__  # in pytest's configuration: "error::aspecthook.pytest_plugin.HookLeakWarning"
        'aspecthook.pytest_plugin'
    """

    __module__ = "aspecthook.pytest_plugin"  # where users name it in filters


class Added(Protocol):
    """A hook that a test has added, and where."""

    @property
    def mount(self) -> Callable[[], MountPoint | None]: ...
    @property
    def hook(self) -> Callable[[], Hook | None]: ...
    @property
    def place(self) -> str: ...


class Watch(Protocol):
    """What the plugin knows of the test that has ended."""

    @property
    def mode(self) -> str: ...
    @property
    def failed(self) -> bool: ...
    @property
    def added(self) -> Mapping[Hook, Added]: ...
    def sections(self, item: pytest.Item, excinfo: None) -> list[tuple[str, str]]:
        """Return what the report of a failed test says of hooks."""
        ...


def report_leaks(watch: Watch, item: pytest.Item) -> None:
    """Look for the hooks that a test has left behind, and report them."""
    left = _left(watch)
    if not left:
        return
    lines = [f"  {_line(one)}" for one in left[:_MOST]]
    lines += [f"  ... and {len(left) - _MOST} more"] if len(left) > _MOST else []
    text = "\n".join(
        [
            f"{item.nodeid} has left {len(left)} hook{'s' * (len(left) > 1)} behind:",
            *lines,
            "add them with the fixture `weave`, or remove them before the test ends",
        ]
    )
    if watch.mode == "warn" or watch.failed:
        try:
            item.warn(HookLeakWarning(text))
            return
        except HookLeakWarning:  # warnings are errors here
            if watch.failed:
                return  # a test fails once
    keywords = cast("dict[str, Literal[1]]", dict.fromkeys(item.keywords, 1))
    sections = watch.sections(item, None)
    report = pytest.TestReport(item.nodeid, item.location, keywords, "failed", text, "teardown", sections)
    item.ihook.pytest_runtest_logreport(report=report)


def _line(one: Added) -> str:
    mount, hook = one.mount(), one.hook()
    what = f"{hook.kind} hook {hook.name!r}" if hook is not None else "a hook"
    return f"{what} on {mount.name if mount is not None else 'a function'}, attached at {one.place}"


def _left(watch: Watch) -> list[Added]:
    for generation in (1, 2):  # what a test has just made is young, and found fast
        if any(_stays(one) for one in list(watch.added.values())):
            gc.collect(generation)
    known: dict[int, bool] = {}
    passed_over = (FrameType, type(watch))
    return [one for one in list(watch.added.values()) if _outlives(one, known, passed_over)]


def _stays(one: Added) -> bool:
    """Whether the hook is still on its mount point, and that still exists."""
    mount, hook = one.mount(), one.hook()
    return mount is not None and _mounted(mount) is not None and any(each is hook for each in mount.members)


def _outlives(one: Added, known: dict[int, bool], passed_over: tuple[type, ...]) -> bool:
    """Whether the hook is on something that is there for other tests too; ``known`` keeps the answers."""
    mount = one.mount()
    if mount is None or not _stays(one):
        return False
    if id(mount) not in known:
        # What has no Python code has its proxy where it was found: in a class or a module.
        known[id(mount)] = hasattr(mount, "proxy") or _is_kept(_mounted(mount), passed_over)
    return known[id(mount)]


def _mounted(mount: MountPoint) -> object:
    return mount.instance() if isinstance(mount, InstanceMountPoint) else mount.ref()


def _is_kept(thing: object, passed_over: tuple[type, ...]) -> bool:
    """Whether a module or a fixture of many tests holds this; what a frame or the watch itself holds does not count."""
    spaces = {id(namespace_of(module)) for module in list(sys.modules.values())}
    # pytest leaves the exception of a failed test here for debuggers, until the next test.
    seen = {id(getattr(sys, name, None)) for name in ("last_exc", "last_value")}
    level: list[Any] = [thing]
    for _ in range(_FAR):
        holders: list[Any] = gc.get_referrers(*level)
        seen.update((id(level), id(holders)))
        # By their types: `isinstance` asks an object for its `__class__`, which runs code of those that are proxies.
        level = [one for one in holders if id(one) not in seen and not issubclass(type(one), passed_over)]
        if any(
            id(one) in spaces or (issubclass(type(one), pytest.FixtureDef) and one.scope != "function") for one in level
        ):
            return True
        seen.update(map(id, level))
        if not level:
            return False
    return False
