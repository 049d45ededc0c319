"""The hooks that a test leaves behind on what outlives it: they are found by what the garbage collector knows."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any, Literal, TypeAlias, cast

import pytest

from aspecthook._errors import plural

from ._mount import Hook, InstanceMountPoint, MountPoint

_FAR = 6  # the longest path of references from a module that is searched
_MOST = 20  # hooks that are listed


class HookLeakWarning(pytest.PytestWarning):
    """A test has left a hook behind on a function that outlives it.

    Example:
        >>> HookLeakWarning.__module__  # in pytest's configuration: "error::aspecthook.pytest_plugin.HookLeakWarning"
        'aspecthook.pytest_plugin'
    """

    __module__ = "aspecthook.pytest_plugin"  # where users name it in filters


# For each hook that a test has added: its mount point, and the line that added it. This keeps nothing alive.
Added: TypeAlias = "Mapping[Hook, tuple[weakref.ref[MountPoint], str]]"


def report_leaks(
    item: pytest.Item, added: Added, sections: Callable[[], list[tuple[str, str]]], *, fails: bool, failed: bool
) -> None:
    """Report the hooks that a test has left behind: it fails, or there is a warning if it has failed already."""
    left = _left(added)
    if not left:
        return
    lines = [f"  {line}" for line in left[:_MOST]]
    lines += [f"  ... and {len(left) - _MOST} more"] if len(left) > _MOST else []
    text = "\n".join(
        [
            f"{item.nodeid} has left {plural(len(left), 'hook')} behind:",
            *lines,
            "add them with the fixture `weave`, or remove them before the test ends",
        ]
    )
    if failed or not fails:
        try:
            item.warn(HookLeakWarning(text))
            return
        except HookLeakWarning:  # warnings are errors here
            if failed:
                return  # a test fails once
    keywords = cast("dict[str, Literal[1]]", dict.fromkeys(item.keywords, 1))
    report = pytest.TestReport(item.nodeid, item.location, keywords, "failed", text, "teardown", sections())
    item.ihook.pytest_runtest_logreport(report=report)


def _left(added: Added) -> list[str]:
    """Return a line for each hook that is still on something that is there for other tests too."""
    for generation in (1, 2):  # what a test has just made is young, and found fast
        if any(_stays(hook, mount()) for hook, (mount, _) in added.items()):
            gc.collect(generation)
    outlives: dict[int, bool] = {}
    lines: list[str] = []
    for hook, (ref, place) in list(added.items()):
        mount = ref()
        if mount is None or not _stays(hook, mount):
            continue
        if id(mount) not in outlives:
            # What has no Python code has its proxy where it was found: in a class or a module.
            outlives[id(mount)] = hasattr(mount, "proxy") or _is_kept(_mounted(mount))
        if outlives[id(mount)]:
            lines.append(f"{hook.kind} hook {hook.name!r} on {mount.name}, attached at {place}")
    return lines


def _stays(hook: Hook, mount: MountPoint | None) -> bool:
    """Whether a hook is still on its mount point, and that still exists."""
    return mount is not None and _mounted(mount) is not None and any(one is hook for one in mount.members)


def _mounted(mount: MountPoint) -> object:
    return mount.instance() if isinstance(mount, InstanceMountPoint) else mount.ref()


def _is_kept(thing: object) -> bool:
    """Whether a module or a fixture of many tests holds this; what a frame holds does not count."""
    # Not by `vars`, which would load a lazy module.
    held: list[Any] = list(sys.modules.values())
    modules = [module for module in held if issubclass(type(module), ModuleType)]
    spaces = {id(object.__getattribute__(module, "__dict__")) for module in modules}
    # pytest leaves the exception of a failed test here for debuggers, until the next test.
    seen = {id(getattr(sys, name, None)) for name in ("last_exc", "last_value")}
    level: list[Any] = [thing]
    for _ in range(_FAR):
        holders: list[Any] = gc.get_referrers(*level)
        seen.update((id(level), id(holders)))
        # By their types: `isinstance` asks an object for its `__class__`, which runs code of those that are proxies.
        level = [one for one in holders if id(one) not in seen and not issubclass(type(one), FrameType)]
        if any(
            id(one) in spaces or (issubclass(type(one), pytest.FixtureDef) and one.scope != "function") for one in level
        ):
            return True
        seen.update(map(id, level))
        if not level:
            return False
    return False
