"""Noticing the end of an import: also of a reload, of a second try, and of one that has already begun.

While anybody watches imports, two things are patched. `ModuleSpec.__setattr__` notices when importlib marks an import
as done, whichever finder has found the module. And the first finder of `sys.meta_path` is replaced by one that wraps
the loaders of modules whose import ends without that mark.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import machinery
from threading import get_ident
from types import ModuleType

from aspecthook._core.law.callables import type_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._hints import Any, Protocol, final


class Watcher(Protocol):
    """An object that is notified of imports."""

    def wants(self, name: str) -> bool:
        """Whether to notify it of this module."""
        ...

    def imported(self, module: ModuleType) -> None:
        """Handle the end of the import, or the reload, of a module."""
        ...


_watchers: tuple[Watcher, ...] = ()


@under_lock
def watch(watcher: Watcher) -> None:
    """Notify a watcher of every import that ends from now on, also of those that other threads have begun."""
    global _watchers  # noqa: PLW0603  # one tuple, replaced under the lock
    if watcher not in _watchers:
        _watchers = (*_watchers, watcher)
    _patch_specs()
    _install_finder()


@under_lock
def unwatch(watcher: Watcher) -> None:
    """Stop notifying a watcher. With the last one, both patches are removed."""
    global _watchers  # noqa: PLW0603  # likewise
    _watchers = tuple([one for one in _watchers if one is not watcher])
    if not _watchers:
        _restore_specs()
        _remove_finder()
        _restore_loaders()


def is_being_imported(module: ModuleType) -> bool:
    """Whether the import of a module has begun and not ended."""
    space = object.__getattribute__(module, "__dict__")  # without loading a lazy module
    return is_running(module) or bool(getattr(space.get("__spec__"), "_initializing", False))


# Modules that are run rather than imported, `__main__`: who runs them says what they have defined, and when.

_running: tuple[str, ...] = ()


def is_running(module: ModuleType) -> bool:
    """Whether a module is run, and what is missing in it may still be defined."""
    return bool(_running) and object.__getattribute__(module, "__dict__").get("__name__") in _running


def begin_running(name: str) -> None:
    """Take a module for one that will define what it lacks."""
    global _running  # noqa: PLW0603  # one tuple, replaced before the module runs and once it has defined all
    _running = (*_running, name)


def look_again(name: str) -> None:
    """Notify the watchers that a module which is run has defined something."""
    _notify(name)


def end_running(name: str) -> None:
    """Take a module for one that has defined all it will, and notify the watchers."""
    global _running  # noqa: PLW0603  # likewise
    if name in _running:
        _running = tuple([one for one in _running if one != name])
        _notify(name)


def _notify(name: str) -> None:
    module: Any = sys.modules.get(name)
    if not issubclass(type_of(module), ModuleType):
        return
    errors: list[Exception] = []
    for watcher in _watchers:
        try:
            if watcher.wants(name):
                watcher.imported(module)
        except Exception as error:  # a warning that is made an error; the other watchers are notified all the same
            errors.append(error)
    if errors:
        raise errors[0]


# The end of an import. The class of specs is patched, and not single specs: another thread may have found a spec
# already and not have created its module yet.

_set_before: Any = object.__setattr__
_in_specs = False


def _set(spec: machinery.ModuleSpec, name: str, value: Any) -> None:
    """Set an attribute of a spec; if importlib marks the end of an import by it, notify the watchers first."""
    try:
        ends = name == "_initializing" and not value and getattr(spec, name, False)
        if ends and sys.modules.get(spec.name) is not None:  # otherwise the import has failed
            _notify(spec.name)
    finally:
        _set_before(spec, name, value)


def _patch_specs() -> None:
    global _in_specs, _set_before  # noqa: PLW0603  # under the lock
    now = vars(machinery.ModuleSpec).get("__setattr__")
    # If ours is installed and another is there now, other code has patched over ours, and calls it.
    if now is None or (now is not _set and not _in_specs):
        _set_before = machinery.ModuleSpec.__setattr__
        setattr(machinery.ModuleSpec, "__setattr__", _set)  # type checkers allow no assignment to a method
    _in_specs = True


def _restore_specs() -> None:
    global _in_specs  # noqa: PLW0603  # under the lock
    if vars(machinery.ModuleSpec).get("__setattr__") is _set:
        if _set_before is object.__setattr__:
            del machinery.ModuleSpec.__setattr__
        else:
            setattr(machinery.ModuleSpec, "__setattr__", _set_before)
        _in_specs = False


# Only the loader knows when a reload ends, or an import by a loader that is older than specs.


@final
class _Finder:
    """Takes the place of the first finder, finds what that one finds, and wraps the loaders.

    The list keeps its length: before 3.14 importlib iterates over the very list, and when an entry is removed meanwhile
    it skips the next finder.
    """

    _first: Any = None  # copies are made without `__init__`, and `__getattr__` would recurse without end

    def __init__(self, first: Any, finders: list[Any]) -> None:
        self._first = first
        self._finders = finders
        self._asking: set[tuple[int, str]] = set()

    # `isinstance` takes it for the first finder: the code that installed that one looks for it in order to remove it.
    __class__: Any = property(lambda self: type_of(self._first))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)

    def __eq__(self, other: object) -> bool:
        return other is self or bool(self._first == other)

    def __hash__(self) -> int:
        return hash(self._first)

    def __repr__(self) -> str:
        return f"<aspecthook watching imports, around {self._first!r}>"

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        if self is not _finder:
            _put_back(self, sys.meta_path)  # other code has restored an old copy of the list
        elif any(watcher.wants(name) for watcher in _watchers):
            return self._find(name, path, target)
        return self._ask_first(name, path, target)

    def _find(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> machinery.ModuleSpec | None:
        spec = self._ask_first(name, path, target)
        finders = list(sys.meta_path)
        behind = next((place for place, one in enumerate(finders, 1) if one is self), 0)
        for finder in finders[behind:]:
            if spec is not None:
                break
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
        if spec is not None:
            _wrap_loader(spec, reload=target is not None)
        return spec

    def _ask_first(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> machinery.ModuleSpec | None:
        mine = (get_ident(), name)
        if mine in self._asking:
            return None  # the first finder asks all the others, and takes us for one of them
        self._asking.add(mine)
        try:
            spec: machinery.ModuleSpec | None = self._first.find_spec(name, path, target)
            return spec
        finally:
            self._asking.discard(mine)


_finder: _Finder | None = None


def _install_finder() -> None:
    global _finder  # noqa: PLW0603  # under the lock
    finders: list[Any] = sys.meta_path
    first = next((one for one in list(finders) if hasattr(one, "find_spec")), None)
    if first is not None and first is not _finder:
        _remove_finder()
        _finder = _Finder(first, finders)
        _replace(finders, first, _finder)


def _remove_finder() -> None:
    global _finder  # noqa: PLW0603  # under the lock
    if _finder is not None:
        _put_back(_finder, _finder._finders)
        _put_back(_finder, sys.meta_path)  # which may be another list by now
        _finder = None


@under_lock
def _put_back(finder: _Finder, finders: list[Any]) -> None:
    _replace(finders, finder, finder._first)


def _replace(finders: list[Any], old: object, new: object) -> None:
    for place, one in enumerate(list(finders or ())):  # it is None as the interpreter ends
        if one is old and finders[place] is old:
            finders[place] = new


def _wrap_loader(spec: machinery.ModuleSpec, *, reload: bool) -> None:
    loader: Any = spec.loader
    setter: Any = type_of(spec).__setattr__
    executes = hasattr(loader, "exec_module")
    if executes and not reload and setter is _set:
        return  # the spec notices
    if executes or hasattr(loader, "load_module"):
        wrapped: Any = _Loader(loader, spec, executes=executes)
        spec.loader = wrapped


# The modules that a wrapped loader has executed. An import hook around it, such as that of ddtrace, may have put it
# back into the module afterwards, as the loader that it had found.
_loaded: set[str] = set()


def _restore_loaders() -> None:
    while _loaded:
        module: Any = sys.modules.get(_loaded.pop())
        if not issubclass(type_of(module), ModuleType):
            continue
        space = object.__getattribute__(module, "__dict__")  # without loading a lazy module
        held, spec = space.get("__loader__"), space.get("__spec__")
        if type(held) is _Loader:
            space["__loader__"] = held._loader
        held = getattr(spec, "loader", None)
        if type(held) is _Loader:
            spec.loader = held._loader


class _Loader:
    """A wrapped loader, which notifies the watchers when a module has been loaded."""

    def __init__(self, loader: Any, spec: machinery.ModuleSpec, *, executes: bool) -> None:
        self._loader = loader
        self._spec = spec
        # It has the methods that the loader has: importlib asks which there are.
        if executes:
            self.exec_module = self._exec_module
        else:
            self.load_module = self._load_module

    # `isinstance` takes it for the loader that it wraps.
    __class__: Any = property(lambda self: type_of(self._loader))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def _exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        mine: Any = self
        if spec is not None and spec.loader is mine:
            spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        name = spec.name if spec is not None else module.__name__
        _loaded.add(name)
        self._loader.exec_module(module)
        _notify(name)

    def _load_module(self, name: str) -> ModuleType:
        self._spec.loader = self._loader
        module: ModuleType = self._loader.load_module(name)
        _notify(name)
        return module
