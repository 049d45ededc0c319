"""Modules that are unloaded while their functions have hooks.

A function that lives as long as its module has its hooks as constants of its code, into which the garbage collector
does not look. Most hooks refer to the module, if only through their globals, so the constants of an unloaded module
would keep all of it alive. The invariant: as soon as a module is seen to have left `sys.modules`, its functions get the
weak form (see docs/contributing/architecture.md), whose hooks the collector does see.

A module object that dies is noticed by a weak reference: functions refer to the dict of their module, not to the
object. A module object that its own dict refers to, as in a package whose modules import the package, does not die by
itself. Therefore all modules are checked whenever one dies, and when a function is hooked and the number of modules has
changed. When the program ends, all functions get the weak form, so that files that modules have left open are written.
"""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable
from types import FunctionType, ModuleType

from aspecthook._core.compile.show import FREE_THREADED
from aspecthook._core.law.callables import unwrap
from aspecthook._core.law.signature import ASYNC_GENERATOR, GENERATOR
from aspecthook._hints import Any, final

from .lock import is_ending, under_lock


@final
class _Watched:
    """A module, and the mount points that must change to the weak form before it dies.

    They are those of its functions, by qualified name, and those that carry hooks of the module, by the reference.
    """

    __slots__ = ("limit", "module", "mounts")

    def __init__(self, module: ModuleType) -> None:
        self.module = weakref.ref(module, _unloaded)
        # References without a callback, which a mount point has anyway. Those of mount points that are gone are removed
        # when there are twice as many as at the last time. Any, here and below: mount points, whose module imports
        # this one.
        self.mounts: dict[object, weakref.ref[Any]] = {}
        self.limit = 64


_watched: dict[str, _Watched] = {}  # by the name of the module
_count = 0  # how many modules there were when all were last checked
_is_over = False  # whether the program ends


def watch_module(function: FunctionType, mount: Any) -> ModuleType | None:
    """Watch the module that a function lives as long as, and return it; None: it may die sooner; under the lock.

    An older function of the same name may be unused although the module is not: after `importlib.reload`, or when a
    cell of a notebook has run again. So it gets the weak form. So do generator functions: a suspended generator keeps
    its code, whatever code its function has by now, and the module may keep the generator.
    """
    code, module = function.__code__, sys.modules.get(function.__module__)
    if "<locals>" in code.co_qualname or getattr(module, "__dict__", None) is not function.__globals__:
        return None
    if _is_over or (code.co_flags & (GENERATOR | ASYNC_GENERATOR) and not FREE_THREADED):
        return None
    if module is not None and not FREE_THREADED:
        key = function.__qualname__
        if key.endswith("<lambda>"):
            key = f"{key}:{function.__code__.co_firstlineno}"
        older = _watch(function.__module__, module, key, mount)
        if older is not None:
            older.weaken()
    return module


def watch_hook(hook: object, mount: Any) -> None:
    """Watch the module of a hook that is a constant of a function's code; under the lock.

    The module of the hook may refer to the module of the function, which then does not die before it.
    """
    if FREE_THREADED:
        return
    inner = unwrap(hook)
    space = inner.__globals__ if type(inner) is FunctionType else None
    name = type(inner).__module__ if space is None else space.get("__name__")
    if isinstance(name, str) and name != "builtins":
        module = sys.modules.get(name)
        if module is None:
            mount.weaken()
        else:
            _watch(name, module, weakref.ref(mount), mount)


def _watch(name: str, module: ModuleType, key: object, mount: Any) -> Any:
    """Watch a mount point; return the one that was watched by this key before, if that is another one."""
    found = _watched.get(name)
    if found is None or found.module() is not module or len(sys.modules) != _count:
        _weaken_unloaded()
        found = _watched.get(name)
        if found is None:
            found = _watched[name] = _Watched(module)
    ref, mounts = weakref.ref(mount), found.mounts
    before = mounts.get(key)
    if before is ref:
        return None
    if len(mounts) >= found.limit:
        for old, one in list(mounts.items()):
            if one() is None:
                mounts.pop(old, None)
        found.limit = 64 + 2 * len(mounts)
    mounts[key] = ref
    return None if before is None else before()


def _unloaded(_: object, ending: Callable[[], bool] = is_ending) -> None:
    """Called when the object of a module dies."""
    if not ending():
        _weaken_unloaded()


@under_lock
def _weaken_unloaded(*, ending: bool = False) -> None:
    """Change the functions of modules that have been unloaded to the weak form; all functions if the program ends."""
    global _count, _is_over  # under the lock
    _count, _is_over = len(sys.modules), _is_over or ending
    for name, watched in list(_watched.items()):
        module = watched.module()
        if ending or module is None or sys.modules.get(name) is not module:
            for one in list(watched.mounts.values()):
                mount = one()
                if mount is not None:
                    mount.weaken()
            if _watched.get(name) is watched:  # last: an interrupted check is repeated by the next
                del _watched[name]


# Early, so that it runs after most functions that programs register: hooks also act in these.
atexit.register(_weaken_unloaded, ending=True)
