"""Noticing that a module's import has ended: also when it is reloaded, has failed before, or is under way already.

A finder stands first in `sys.meta_path` while some weaving names modules. It lets the other finders find, and has the
spec that they give tell when importlib notes that the import is done; that of a reload is told by the loader.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import machinery
from types import ModuleType
from typing import Any, Protocol, final

from aspecthook._changes import lock
from aspecthook._hook import type_of


class Watcher(Protocol):
    """What wants to know of imports."""

    def wants(self, name: str) -> bool:
        """Say whether it wants to know of this module."""
        ...

    def imported(self, module: ModuleType) -> None:
        """Take note that a module has been imported, or imported again."""
        ...


_watchers: tuple[Watcher, ...] = ()
_lists: list[list[Any]] = []  # that the finder has been put into


def watch(watcher: Watcher) -> None:
    """Tell a watcher of imports from now on."""
    global _watchers  # noqa: PLW0603  # one tuple, replaced under the lock
    with lock:
        if watcher not in _watchers:
            _watchers = (*_watchers, watcher)
        if sys.meta_path[:1] != [_finder]:
            _withdraw(sys.meta_path)
            sys.meta_path.insert(0, _finder)
            if not any(one is sys.meta_path for one in _lists):
                _lists.append(sys.meta_path)


def unwatch(watcher: Watcher) -> None:
    """Tell it no more; with the last one, the finder goes."""
    global _watchers  # noqa: PLW0603  # one tuple, replaced under the lock
    with lock:
        _watchers = _without(watcher)
        if not _watchers:
            _withdraw_all()


# Functions of their own: CPython 3.13 may handle a signal at a loop's jump back, and leave `with` without its end.


def _without(watcher: Watcher) -> tuple[Watcher, ...]:
    return tuple([one for one in _watchers if one is not watcher])


def _withdraw_all() -> None:
    for one in (sys.meta_path, *_lists):  # somebody may have put another list there
        _withdraw(one)
    _lists.clear()


def _withdraw(finders: list[Any]) -> None:
    while _finder in finders:
        finders.remove(_finder)


def is_under_way(module: ModuleType) -> bool:
    """Say whether a module is still being imported."""
    return bool(getattr(_spec_of(module), "_initializing", False))


def _spec_of(module: ModuleType) -> Any:
    return object.__getattribute__(module, "__dict__").get("__spec__")  # a lazy module is not to be woken


def watch_end(module: ModuleType) -> None:
    """Tell the watchers when an import ends that began before anybody watched."""
    spec = _spec_of(module)
    with lock:
        if type(spec) is machinery.ModuleSpec and is_under_way(module):
            spec.__class__ = ModuleSpec


def _tell(name: str) -> None:
    module: Any = sys.modules.get(name)
    if not issubclass(type_of(module), ModuleType):
        return
    errors: list[Exception] = []
    for watcher in _watchers:
        try:
            if watcher.wants(name):
                watcher.imported(module)
        except Exception as error:  # of a warning that is made an error; the others are told all the same
            errors.append(error)
    if errors:
        raise errors[0]


@final
class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        if not any(watcher.wants(name) for watcher in _watchers):
            return None
        finders = sys.meta_path
        behind = finders[finders.index(self) + 1 :] if self in finders else finders
        for finder in behind:
            find = getattr(finder, "find_spec", None)
            spec: machinery.ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                self._mark(spec, again=target is not None)
                return spec
        return None

    def _mark(self, spec: machinery.ModuleSpec, *, again: bool) -> None:
        loader: Any = spec.loader
        # The end of a first import is told by the spec. That of a reload is told by nobody but the loader.
        if not again and type_of(spec) in (machinery.ModuleSpec, ModuleSpec) and hasattr(loader, "exec_module"):
            spec.__class__ = ModuleSpec
        elif hasattr(loader, "exec_module") or hasattr(loader, "load_module"):
            # To everybody who asks it is a loader.
            telling: Any = _Loader(loader) if hasattr(loader, "exec_module") else _OldLoader(loader, spec)
            spec.loader = telling

    def invalidate_caches(self) -> None:
        """Have none."""


_finder: Any = _Finder()


def _type_of_loader(loader: Any) -> type[Any]:
    return type_of(loader._loader)


class _Loader:
    """Another's loader, that tells when a module has been loaded."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    # Who asks what loader a spec has is told of the other one.
    __class__: Any = property(_type_of_loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: machinery.ModuleSpec) -> ModuleType | None:
        create: Any = getattr(self._loader, "create_module", None)
        made: ModuleType | None = create(spec) if create is not None else None
        return made

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        mine: Any = self
        if spec is not None and spec.loader is mine:
            spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        name = spec.name if spec is not None else module.__name__
        self._loader.exec_module(module)
        _tell(name)


class _OldLoader:
    """The same for a loader that has only `load_module`."""

    def __init__(self, loader: Any, spec: machinery.ModuleSpec) -> None:
        self._loader = loader
        self._spec = spec

    __class__: Any = property(_type_of_loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def load_module(self, name: str) -> ModuleType:
        self._spec.loader = self._loader
        module: ModuleType = self._loader.load_module(name)
        _tell(name)
        return module


# Named as the other, which it is to everybody who looks at it before the import is done.
class ModuleSpec(machinery.ModuleSpec):
    """The spec of a module that is being imported: its end is told as importlib notes it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_initializing" and not value:
            try:
                if sys.modules.get(self.name) is not None:  # else it has failed
                    _tell(self.name)
            finally:
                with lock:
                    object.__setattr__(self, "__class__", machinery.ModuleSpec)
                    machinery.ModuleSpec.__setattr__(self, name, value)
        else:
            machinery.ModuleSpec.__setattr__(self, name, value)
