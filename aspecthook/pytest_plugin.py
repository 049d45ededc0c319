"""The part of the pytest plugin that looks for the hooks that a test leaves behind.

pytest itself loads `_aspecthook_pytest`, which is small, and imports this when a run that asked for it has something to
look for. ``-p aspecthook.pytest_plugin`` loads both.
"""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any, Literal, cast

import pytest

import _aspecthook_pytest as entry

from ._core.mount.instance import InstanceMountPoint
from ._core.mount.point import MountPoint
from .testing._failures import namespace_of

_FAR = 6  # that many objects from a module to what it holds
_MOST = 20  # hooks that are listed


class HookLeakWarning(pytest.PytestWarning):
    """A test has left a hook behind on a function that outlives it."""


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the entry point, which a run without entry points does not know of."""
    name = "aspecthook" if not pluginmanager.has_plugin("aspecthook") else entry.__name__
    if not pluginmanager.is_registered(entry):
        pluginmanager.register(entry, name)


def report_leaks(watch: entry.Watch, item: pytest.Item) -> None:
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
            "put them on with the fixture `weave`, or take them off before the test ends",
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


def _line(one: entry.Added) -> str:
    mount, hook = one.mount(), one.hook()
    what = f"{hook.kind} hook {hook.name!r}" if hook is not None else "a hook"
    return f"{what} on {mount.name if mount is not None else 'a function'}, attached at {one.place}"


def _left(watch: entry.Watch) -> list[entry.Added]:
    for generation in (1, 2):  # what a test has just made is young, and found fast
        if any(_stays(one) for one in list(watch.added.values())):
            gc.collect(generation)
    known: dict[int, bool] = {}
    return [one for one in list(watch.added.values()) if _outlives(one, known)]


def _stays(one: entry.Added) -> bool:
    """Say whether the hook is still on something that is still there."""
    mount, hook = one.mount(), one.hook()
    return mount is not None and _mounted(mount) is not None and any(each is hook for each in mount.members)


def _outlives(one: entry.Added, known: dict[int, bool]) -> bool:
    """Say whether the hook is on something that is there for other tests too; what is known is not asked again."""
    mount = one.mount()
    if mount is None or not _stays(one):
        return False
    if id(mount) not in known:
        # What has no Python code has its proxy where it was found: in a class or a module.
        known[id(mount)] = hasattr(mount, "proxy") or _is_kept(_mounted(mount))
    return known[id(mount)]


def _mounted(mount: MountPoint) -> object:
    return mount.instance() if isinstance(mount, InstanceMountPoint) else mount.ref()


def _is_kept(thing: object) -> bool:
    """Say whether a module or a fixture of many tests holds this: a traceback's frames keep it, but not for others."""
    spaces = {id(namespace_of(module)) for module in list(sys.modules.values())}
    # pytest leaves the exception of a failed test here for debuggers, until the next test.
    seen = {id(getattr(sys, name, None)) for name in ("last_exc", "last_value")}
    level: list[Any] = [thing]
    for _ in range(_FAR):
        holders: list[Any] = gc.get_referrers(*level)
        seen.update((id(level), id(holders)))
        # By their types: `isinstance` asks an object for its `__class__`, which runs code of those that are proxies.
        level = [one for one in holders if id(one) not in seen and not issubclass(type(one), _NO_HOLDERS)]
        if any(
            id(one) in spaces or (issubclass(type(one), pytest.FixtureDef) and one.scope != "function") for one in level
        ):
            return True
        seen.update(map(id, level))
        if not level:
            return False
    return False


_NO_HOLDERS = (FrameType, entry.Watch)
