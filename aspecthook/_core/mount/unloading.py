"""Modules that are unloaded while functions of theirs carry hooks.

A function that lives as long as its module has its hooks as constants of its code, and code objects are invisible to
the garbage collector. Most hooks lead back to the module, if only through their globals. So once the module is
unloaded, the constants would keep all of it alive for ever. The invariant: as soon as it is noticed that a module has
left `sys.modules`, its functions take their hooks from where the collector sees them (the weak form of `_source`).

It is noticed when a module object dies: functions hold the dict of their module, not the object. A module object that
its own dict leads to, as in packages whose parts import the package, does not die by itself; therefore all modules are
looked at whenever one dies, and when a function is hooked and there are other modules than the last time.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Protocol, final

from aspecthook._core.compile.link import FREE_THREADED
from aspecthook._core.law.callables import unwrap

from .lock import under_lock


class Hooked(Protocol):
    """A function with hooks; its mount point."""

    def weaken(self) -> None:
        """Let no constant of the function's code lead to its hooks any more; under the lock."""
        ...


@final
class _Watched:
    """A module, and the functions whose code has hooks as constants: its own by name, those with hooks of it by id."""

    __slots__ = ("functions", "module")

    def __init__(self, module: ModuleType) -> None:
        self.module = weakref.ref(module, _unloaded)
        self.functions: weakref.WeakValueDictionary[object, Hooked] = weakref.WeakValueDictionary()


_watched: dict[str, _Watched] = {}  # by the name of the module
_count = 0  # of all modules, when they were last looked at


def module_of(function: FunctionType) -> ModuleType | None:
    """Return the module that a function lives as long as, so that its code may hold hooks; None if there is none."""
    module = sys.modules.get(function.__module__)
    lasting = (
        not FREE_THREADED
        and "<locals>" not in function.__code__.co_qualname
        and getattr(module, "__dict__", None) is function.__globals__
    )
    return module if lasting else None


def watch(function: FunctionType, module: ModuleType, mount: Hooked) -> None:
    """Note that the code of a function holds hooks until its module is unloaded; under the lock.

    Where another function of the same name was noted, that one may be gone although the module is not: after
    `importlib.reload`, or when a cell of a notebook has run again. So it gets the weak form too.
    """
    functions = _functions(function.__module__, module)
    key = function.__qualname__
    if key.endswith("<lambda>"):
        key = f"{key}:{function.__code__.co_firstlineno}"
    older = functions.get(key)
    if older is not mount:
        functions[key] = mount
        if older is not None:
            older.weaken()


def watch_hook(hook: object, function: FunctionType, mount: Hooked) -> None:
    """Note that the code of a function is to hold this hook until the module of the hook is unloaded; under the lock.

    That module may be what refers to the module of the function, which then does not die before it.
    """
    inner = hook if type(hook) is FunctionType else unwrap(hook)
    space = inner.__globals__ if type(inner) is FunctionType else None
    if FREE_THREADED or space is function.__globals__:
        return
    name = type(inner).__module__ if space is None else space.get("__name__")
    if isinstance(name, str) and name != "builtins":
        module = sys.modules.get(name)
        if module is None:
            mount.weaken()
        else:
            functions = _functions(name, module)
            if functions.get(id(mount)) is not mount:
                functions[id(mount)] = mount


def _functions(name: str, module: ModuleType) -> weakref.WeakValueDictionary[object, Hooked]:
    found = _watched.get(name)
    if found is None or found.module() is not module or len(sys.modules) != _count:
        _weaken_unloaded()
        found = _watched.get(name)
        if found is None:
            found = _watched[name] = _Watched(module)
    return found.functions


def _unloaded(_: object, ending: Callable[[], bool] = sys.is_finalizing) -> None:
    """Called when the object of a module dies."""
    if not ending():
        _weaken_unloaded()


@under_lock
def _weaken_unloaded() -> None:
    global _count  # noqa: PLW0603  # under the lock
    _count = len(sys.modules)
    for name, watched in list(_watched.items()):
        module = watched.module()
        if module is None or sys.modules.get(name) is not module:
            for mount in list(watched.functions.values()):
                mount.weaken()
            if _watched.get(name) is watched:  # last: an interrupted look is made again by the next
                del _watched[name]
