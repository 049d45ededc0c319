"""Noticing that a module's import has ended: also when it is reloaded, has failed before, or is under way already.

A finder stands first in `sys.meta_path` while some weaving names modules. It lets the other finders find, and has the
loader that they give tell when it is done; once the module runs, its spec has its own loader again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Protocol, final

from aspecthook._changes import lock
from aspecthook._proxy import type_of


class Watcher(Protocol):
    """What wants to know of imports."""

    def wants(self, name: str) -> bool:
        """Say whether it wants to know of this module."""
        ...

    def imported(self, module: ModuleType) -> None:
        """Take note that a module has been imported, or imported again."""
        ...


_watchers: tuple[Watcher, ...] = ()


def watch(watcher: Watcher) -> None:
    """Tell a watcher of imports from now on."""
    global _watchers  # noqa: PLW0603  # one tuple, replaced under the lock
    with lock:
        if watcher not in _watchers:
            _watchers = (*_watchers, watcher)
        if sys.meta_path[:1] != [_finder]:
            if _finder in sys.meta_path:
                sys.meta_path.remove(_finder)
            sys.meta_path.insert(0, _finder)


def unwatch(watcher: Watcher) -> None:
    """Tell it no more; with the last one, the finder goes."""
    global _watchers  # noqa: PLW0603  # one tuple, replaced under the lock
    with lock:
        _watchers = tuple([one for one in _watchers if one is not watcher])
        if not _watchers and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)


def is_under_way(module: ModuleType) -> bool:
    """Say whether a module is still being imported."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def watch_end(module: ModuleType) -> None:
    """Tell the watchers when an import ends that began before anybody watched."""
    spec = module.__spec__
    if type(spec) is ModuleSpec and is_under_way(module):
        spec.__class__ = _Spec


def _tell(name: str) -> None:
    module = sys.modules.get(name)
    if isinstance(module, ModuleType):
        for watcher in _watchers:
            if watcher.wants(name):
                watcher.imported(module)


@final
class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(watcher.wants(name) for watcher in _watchers):
            return None
        finders = sys.meta_path
        behind = finders[finders.index(self) + 1 :] if self in finders else finders
        for finder in behind:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                loader: Any = spec.loader
                if hasattr(loader, "exec_module"):
                    telling: Any = _Loader(loader)  # a loader to everybody who asks
                    spec.loader = telling
                return spec
        return None

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

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        create: Callable[[ModuleSpec], ModuleType | None] | None = getattr(self._loader, "create_module", None)
        return create(spec) if create is not None else None

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


class _Spec(ModuleSpec):
    """The spec of a module that is being imported: its end is told as importlib notes it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_initializing" and not value:
            object.__setattr__(self, "__class__", ModuleSpec)
            try:
                _tell(self.name)
            finally:
                super().__setattr__(name, value)
        else:
            super().__setattr__(name, value)
