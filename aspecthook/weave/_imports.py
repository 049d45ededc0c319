"""Noticing that a module's import has ended: also when it is reloaded, has failed before, or is under way already.

While some weaving names modules, two things stand in: `ModuleSpec.__setattr__` tells when importlib notes that an
import is done, whoever has found the module, and the first finder of `sys.meta_path` has those loaders tell that do
their work without that note.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import machinery
from threading import get_ident
from types import ModuleType
from typing import Any, Protocol, final

from aspecthook._core.law.hook import type_of
from aspecthook._core.mount.lock import under_lock


class Watcher(Protocol):
    """What wants to know of imports."""

    def wants(self, name: str) -> bool:
        """Say whether it wants to know of this module."""
        ...

    def imported(self, module: ModuleType) -> None:
        """Take note that a module has been imported, or imported again."""
        ...


_watchers: tuple[Watcher, ...] = ()


@under_lock
def watch(watcher: Watcher) -> None:
    """Tell a watcher of every import that ends from now on, also of those that are under way in other threads."""
    global _watchers  # noqa: PLW0603  # one tuple, replaced under the lock
    if watcher not in _watchers:
        _watchers = (*_watchers, watcher)
    _stand_in_specs()
    _stand_first()


@under_lock
def unwatch(watcher: Watcher) -> None:
    """Tell it no more; with the last one, all that was put somewhere goes."""
    global _watchers  # noqa: PLW0603  # likewise
    _watchers = tuple([one for one in _watchers if one is not watcher])
    if not _watchers:
        _leave_specs()
        _leave_finders()


def is_being_imported(module: ModuleType) -> bool:
    """Whether the import of a module has begun and not ended."""
    spec = object.__getattribute__(module, "__dict__").get("__spec__")  # without loading a lazy module
    return bool(getattr(spec, "_initializing", False))


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


# The end of an import. A class of specs is made to tell, and not single specs: another thread may have found the spec
# already, and have put the module nowhere yet.

_set_before: Any = object.__setattr__
_in_specs = False


def _set(spec: machinery.ModuleSpec, name: str, value: Any) -> None:
    """Set an attribute of a spec; if that is how importlib notes the end of an import, tell of it first."""
    try:
        ends = name == "_initializing" and not value and getattr(spec, name, False)
        if ends and sys.modules.get(spec.name) is not None:  # else it has failed
            _tell(spec.name)
    finally:
        _set_before(spec, name, value)


def _stand_in_specs() -> None:
    global _in_specs, _set_before  # noqa: PLW0603  # under the lock
    now = vars(machinery.ModuleSpec).get("__setattr__")
    if now is None or (now is not _set and not _in_specs):  # else somebody's who puts theirs over ours, and knows it
        _set_before = machinery.ModuleSpec.__setattr__
        setattr(machinery.ModuleSpec, "__setattr__", _set)  # which type checkers know to be a method
    _in_specs = True


def _leave_specs() -> None:
    global _in_specs  # noqa: PLW0603  # under the lock
    if vars(machinery.ModuleSpec).get("__setattr__") is _set:
        if _set_before is object.__setattr__:
            del machinery.ModuleSpec.__setattr__
        else:
            setattr(machinery.ModuleSpec, "__setattr__", _set_before)
        _in_specs = False


# The end of a reload, and of an import by a loader of the time before specs, is told by nobody but the loader.


@final
class _Finder:
    """Stands in the place of the first finder, does what that one does, and has the loaders tell that are found.

    It takes the place of one and makes no room for itself: before 3.14, importlib goes through the very list, and what
    is taken out of it meanwhile has importlib pass by the next finder.
    """

    _first: Any = None  # of one that is copied, which `__getattr__` would look for for ever

    def __init__(self, first: Any, finders: list[Any]) -> None:
        self._first = first
        self._finders = finders
        self._asking: set[tuple[int, str]] = set()

    # To everybody who asks it is the other one, who is looked for and taken out by them that have put it there.
    __class__: Any = property(lambda self: type_of(self._first))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)

    def __eq__(self, other: object) -> bool:
        return other is self or bool(self._first == other)

    def __hash__(self) -> int:
        return hash(self._first)

    def __repr__(self) -> str:
        return f"<aspecthook notes what is imported, and finds by {self._first!r}>"

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        if self is not _finder:
            _put_back(self, sys.meta_path)  # by somebody who had kept a copy of the list
        elif any(watcher.wants(name) for watcher in _watchers):
            return self._find(name, path, target)
        return self._ask_first(name, path, target)

    def _find(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> machinery.ModuleSpec | None:
        spec = self._ask_first(name, path, target)
        finders = list(sys.meta_path)
        mine = [place for place, one in enumerate(finders) if one is self]
        for finder in finders[mine[0] + 1 :] if mine else finders:
            if spec is not None:
                break
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
        if spec is not None:
            _mark(spec, again=target is not None)
        return spec

    def _ask_first(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> machinery.ModuleSpec | None:
        mine = (get_ident(), name)
        if mine in self._asking:
            return None  # it asks all finders but itself, and does not know us
        self._asking.add(mine)
        try:
            spec: machinery.ModuleSpec | None = self._first.find_spec(name, path, target)
            return spec
        finally:
            self._asking.discard(mine)


_finder: _Finder | None = None


def _stand_first() -> None:
    global _finder  # noqa: PLW0603  # under the lock
    finders: list[Any] = sys.meta_path
    first = next((one for one in list(finders) if hasattr(one, "find_spec")), None)
    if first is not None and first is not _finder:
        _leave_finders()
        _finder = _Finder(first, finders)
        _replace(finders, first, _finder)


def _leave_finders() -> None:
    global _finder  # noqa: PLW0603  # under the lock
    if _finder is not None:
        _put_back(_finder, _finder._finders)
        _put_back(_finder, sys.meta_path)  # somebody may have put another list there
        _finder = None


@under_lock
def _put_back(finder: _Finder, finders: list[Any]) -> None:
    _replace(finders, finder, finder._first)


def _replace(finders: list[Any], old: object, new: object) -> None:
    for place, one in enumerate(list(finders or ())):  # it is None as the interpreter ends
        if one is old and finders[place] is old:
            finders[place] = new


def _mark(spec: machinery.ModuleSpec, *, again: bool) -> None:
    loader: Any = spec.loader
    setter: Any = type_of(spec).__setattr__
    executes = hasattr(loader, "exec_module")
    if executes and not again and setter is _set:
        return  # the spec tells
    if executes or hasattr(loader, "load_module"):
        telling: Any = _Loader(loader) if executes else _OldLoader(loader, spec)
        spec.loader = telling


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
