"""Noticing the end of imports and of reloads, for what is woven by name.

While somebody waits for a module, a finder of ours is the first in `sys.meta_path`. It finds what the finders behind it
find, and has the spec notify the watchers when importlib marks the import as done. Reloads are noticed by a post hook
on `importlib.reload`, for as long as anything is woven by name. Nothing else of the import system is touched.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable, Sequence
from importlib import machinery
from threading import get_ident
from types import FunctionType, ModuleType

from aspecthook._core.law.callables import type_of
from aspecthook._core.law.hook import EXCEPTION, Hook
from aspecthook._core.mount.hookable import mount_for
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint, mount_of
from aspecthook._hints import Any, cast, final

from ._pointcut import Term


@final
class Watcher:
    """The terms of a weaving, and what is called at the end of each import and reload that may concern them."""

    __slots__ = ("_terms", "imported", "names")

    def __init__(self, terms: Sequence[Term], imported: Callable[[ModuleType], None]) -> None:
        self._terms = terms
        self.imported = imported
        # The modules that the terms name; None if a term may choose something of any module.
        self.names: tuple[str, ...] | None = None
        if all(term.exact_module and not term.takes_subclasses for term in terms):
            self.names = tuple(dict.fromkeys([term.module for term in terms]))

    def wants(self, name: str) -> bool:
        """Whether to notify it of this module."""
        return any(term.takes_subclasses or term.in_module(name) for term in self._terms)


_reload = cast("FunctionType", importlib.reload)

# All watchers; with those that wait for the end of an import, the modules that were not there when last looked for.
_watchers: dict[Watcher, tuple[str, ...] | None] = {}


def _waiting() -> list[tuple[Watcher, tuple[str, ...]]]:
    return [(watcher, missing) for watcher, missing in list(_watchers.items()) if missing is not None]


@under_lock
def watch(watcher: Watcher) -> None:
    """Notify a watcher of every import and reload that ends from now on, also of imports that have begun already."""
    _watchers[watcher] = None
    _hook_reloads()
    if watcher.names is None:
        for name in [one for one in list(sys.modules) if watcher.wants(one)]:
            _follow(name)
    _look(watcher)


@under_lock
def unwatch(watcher: Watcher) -> None:
    """Stop notifying a watcher. With the last one, nothing of ours is left in the import system."""
    _watchers.pop(watcher, None)
    _settle()
    if not _watchers and _on_reload is not None:
        mount, hook = _on_reload
        mount.discard((hook,))


# The hook on `importlib.reload` and its mount point, which are kept for the next weaving.
_on_reload: tuple[MountPoint, Hook] | None = None


def _hook_reloads() -> None:
    """Put our hook on `importlib.reload`; under the lock."""
    global _on_reload  # noqa: PLW0603  # under the lock
    now = mount_of(_reload)
    # A user may have put hooks there meanwhile.
    if _on_reload is None or (now is not None and now is not _on_reload[0]):
        mount = mount_for(_reload)
        _on_reload = mount, Hook("post", weave_again, EXCEPTION, {}, mount, None, again=True)
    mount, hook = _on_reload
    if hook not in mount.members:
        mount.insert(hook)


def weave_again(result: ModuleType) -> None:
    """Notify the watchers of a module that was reloaded; the hook on `importlib.reload`."""
    _notify(result.__name__)


def is_being_imported(module: ModuleType) -> bool:
    """Whether the import of a module has begun and not ended."""
    return is_running(module) or bool(getattr(_spec_of(module), "_initializing", False))


def _spec_of(module: ModuleType) -> Any:
    return object.__getattribute__(module, "__dict__").get("__spec__")  # without loading a lazy module


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


def _module(name: str) -> ModuleType | None:
    found: Any = sys.modules.get(name)
    return found if issubclass(type_of(found), ModuleType) else None


def _notify(name: str) -> None:
    """Notify the watchers that the import of a module has ended, well or not; without the lock."""
    module = _module(name)
    errors: list[Exception] = []
    for watcher in list(_watchers):
        try:
            if module is not None and watcher.wants(name):
                watcher.imported(module)
        except Exception as error:  # a warning that is made an error; the other watchers are notified all the same
            errors.append(error)
    for watcher, _ in _waiting():
        if watcher.wants(name):
            _look(watcher, name)
    if errors:
        raise errors[0]


@under_lock
def _look(watcher: Watcher, ended: str = "") -> None:
    """Find out whether a watcher waits for an import, and follow those that have begun."""
    if watcher not in _watchers:
        return
    names = watcher.names
    missing = tuple([name for name in names or () if sys.modules.get(name) is None])
    begun = [name for name in names or () if name != ended and name not in missing and _follow(name)]
    _watchers[watcher] = missing if names is None or missing or begun else None
    _settle()


def _follow(name: str) -> bool:
    """Return whether the import of a module has not ended yet; its spec then notifies the watchers when it does."""
    module = _module(name)
    if module is None or not is_being_imported(module):
        return False
    spec = _spec_of(module)
    _Noticed.of(spec)
    return is_being_imported(module)  # it may have ended in another thread


# The end of an import. For as long as it runs, its spec is of a class of ours.

_specs: weakref.WeakValueDictionary[int, machinery.ModuleSpec] = weakref.WeakValueDictionary()


@final
class _Noticed(machinery.ModuleSpec):
    """A spec that notifies the watchers when importlib marks the import as done."""

    @staticmethod
    def of(spec: Any) -> None:
        """Make a spec one of these. Specs of other classes than importlib's stay what they are."""
        if type_of(spec) is machinery.ModuleSpec:
            spec.__class__ = _Noticed
            _specs[id(spec)] = spec

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            if name == "_initializing" and not value and getattr(self, name, False):
                _leave(self)
                _notify(self.name)
        finally:
            machinery.ModuleSpec.__setattr__(self, name, value)


def _leave(spec: Any) -> None:
    """Restore the class of a spec."""
    _specs.pop(id(spec), None)
    if type_of(spec) is _Noticed:
        object.__setattr__(spec, "__class__", machinery.ModuleSpec)


# The finder


@final
class _Finder:
    """The first finder, which finds what the others find.

    `sys.meta_path` is replaced by a list that has it, and put back later. importlib, before 3.14, iterates over the
    very list, and would skip a finder when ours were taken out of it in another thread.
    """

    def __init__(self) -> None:
        self._behind: list[Any] = sys.meta_path
        self._finders: list[Any] = [self, *self._behind]
        self._asking: set[tuple[int, str]] = set()
        sys.meta_path = self._finders

    def __repr__(self) -> str:
        return "<aspecthook waiting for imports>"

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        """Find the spec of a module that somebody waits for; None for any other, and for a reload."""
        if self is not _finder:  # other code has put back a list that it had kept
            self.leave()
            return self._find(name, path, target)
        self._catch_up()
        if target is not None or not any(watcher.wants(name) for watcher in list(_watchers)):
            return None
        spec = self._find(name, path, target)
        _Noticed.of(spec)
        return spec

    def _catch_up(self) -> None:
        """Notify of modules that have come by a way that does not lead past this finder.

        An import may have been on its way when the finder came; a finder in front of this one may have found it.
        """
        for watcher, missing in _waiting():
            for name in missing:
                module = _module(name)
                if module is not None and is_being_imported(module):
                    _look(watcher)
                elif module is not None:
                    _notify(name)

    def _find(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> machinery.ModuleSpec | None:
        mine = (get_ident(), name)
        if mine in self._asking:
            return None  # a finder that asks all the others takes us for one of them
        self._asking.add(mine)
        try:
            for finder in [one for one in list(sys.meta_path) if one is not self]:
                find = getattr(finder, "find_spec", None)
                spec: machinery.ModuleSpec | None = find(name, path, target) if find is not None else None
                if spec is not None:
                    return spec
        finally:
            self._asking.discard(mine)
        return None

    def leave(self) -> None:
        """Restore `sys.meta_path`, with what others have added to it or removed from it meanwhile."""
        now: Any = sys.meta_path
        if now is self._finders:
            rest = [one for one in now if one is not self]
            if list(map(id, rest)) != list(map(id, self._behind)):
                self._behind[:] = rest
            sys.meta_path = self._behind
            return
        for finders in (now or [], self._finders):  # it is None as the interpreter ends
            while any(one is self for one in finders):
                finders.remove(self)


_finder: _Finder | None = None


def _settle() -> None:
    """Put the finder in place while somebody waits, and remove it otherwise; under the lock."""
    global _finder  # noqa: PLW0603  # under the lock
    waits = any(missing is not None for missing in _watchers.values())
    if waits and _finder is None:
        _finder = _Finder()
    elif not waits and _finder is not None:
        gone, _finder = _finder, None
        gone.leave()
        for spec in list(_specs.values()):  # that were looked up, and not imported
            _leave(spec)
