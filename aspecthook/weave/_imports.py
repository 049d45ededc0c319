"""Noticing the end of imports and of reloads, for what is woven by name.

While a weaving waits for a module, a finder of ours is the first in `sys.meta_path`. It finds what the finders behind
it find, and has the spec notify the watchers when importlib marks the import as done. Reloads are noticed by a post
hook on `importlib.reload`, for as long as anything is woven by name. Nothing else of the import system is touched.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib import machinery
from threading import get_ident
from types import FunctionType, ModuleType

from aspecthook._core.law.callables import type_of
from aspecthook._core.law.hook import EXCEPTION, Hook
from aspecthook._core.mount.hookable import mount_for
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint, mount_of
from aspecthook._hints import Any, NamedTuple, cast, final

from ._pointcut import Term


class Watcher(NamedTuple):
    """The terms of a weaving, and what is called at the end of each import and reload that may concern them."""

    terms: Sequence[Term]
    imported: Callable[[ModuleType], None]

    def wants(self, name: str) -> bool:
        """Whether to notify it of this module."""
        return any(term.in_module(name) for term in self.terms)


_reload = cast("FunctionType", importlib.reload)

# All watchers, by `id`; and those that wait for imports, with the modules that they name whose import has not ended.
_watchers: dict[int, Watcher] = {}
_waiting: dict[int, tuple[Watcher, list[str]]] = {}


@under_lock
def watch(watcher: Watcher) -> None:
    """Notify a watcher of every import and reload that ends from now on, also of imports that have begun already."""
    _watchers[id(watcher)] = watcher
    _hook_reloads()
    if any(not term.exact_module for term in watcher.terms):
        for name in [one for one in list(sys.modules) if watcher.wants(one)]:
            _follow(name)
    _look(watcher)


@under_lock
def unwatch(watcher: Watcher) -> None:
    """Stop notifying a watcher. With the last one, nothing of ours is left in the import system."""
    _watchers.pop(id(watcher), None)
    _waiting.pop(id(watcher), None)
    _place_finder()
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
    notify(result.__name__)


# Modules that are run rather than imported, `__main__`: who runs them says what they have defined, and when.
_running: list[str] = []


def begin_running(name: str) -> None:
    """Take a module for one that will define what it lacks; `notify` says that it has defined something."""
    _running.append(name)


def end_running(name: str) -> None:
    """Take a module for one that has defined all it will, and notify the watchers."""
    if name in _running:
        _running.remove(name)
        notify(name)


# The specs of imports that have ended and are not marked as done yet, by `id`.
_ending: set[int] = set()


def is_being_imported(module: ModuleType) -> bool:
    """Whether the import of a module has begun and not ended, so that what it lacks may still be defined."""
    space = object.__getattribute__(module, "__dict__")  # without loading a lazy module
    spec = space.get("__spec__")
    if getattr(spec, "_initializing", False):
        return id(spec) not in _ending
    return bool(_running) and space.get("__name__") in _running


def _module(name: str) -> ModuleType | None:
    found: Any = sys.modules.get(name)
    return found if issubclass(type_of(found), ModuleType) else None


def _is_imported(name: str) -> bool:
    module = _module(name)
    return sys.modules.get(name) is not None if module is None else not is_being_imported(module)


def notify(name: str) -> None:
    """Notify the watchers that the import of a module has ended, well or not; without the lock."""
    errors: list[Exception] = []
    watchers = [one for one in list(_watchers.values()) if one.wants(name)]
    for watcher in watchers:
        _look(watcher)  # all of them first: to weave may import something, and so lead here again without end
    for watcher in watchers:
        module = _module(name)
        try:
            if module is not None:
                watcher.imported(module)
        except Exception as error:  # a warning that is made an error; the other watchers are notified all the same
            errors.append(error)
    if errors:
        raise errors[0]


@under_lock
def _look(watcher: Watcher) -> None:
    """Find out whether a watcher waits for the end of an import, and follow those that have begun."""
    if id(watcher) not in _watchers:
        return
    names = [term.module for term in watcher.terms if term.exact_module]
    for name in names:
        _follow(name)
    missing = [name for name in names if not _is_imported(name)]
    # A term that is a glob may choose something of any module that is imported later.
    if missing or len(names) < len(watcher.terms):
        _waiting[id(watcher)] = watcher, missing
    else:
        _waiting.pop(id(watcher), None)
    _place_finder()


def _follow(name: str) -> None:
    """If the import of a module has begun, have its spec notify the watchers when it ends."""
    module = _module(name)
    if module is not None and is_being_imported(module):
        _notice(object.__getattribute__(module, "__dict__").get("__spec__"))


def _notice(spec: Any) -> None:
    """Let a spec notify the watchers when its import ends. Specs of other classes than importlib's are left alone."""
    if type_of(spec) is machinery.ModuleSpec:
        spec.__class__ = _Noticed


@final
class _Noticed(machinery.ModuleSpec):
    """The class of a spec while its module is imported: it notifies the watchers when importlib marks that as done.

    They are notified before: another thread that waits for the import is then let go, and must find all woven.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_initializing" or value or not getattr(self, name, False):
            super().__setattr__(name, value)
            return
        spec: Any = self
        object.__setattr__(spec, "__class__", machinery.ModuleSpec)
        _ending.add(id(spec))
        try:
            notify(spec.name)
        finally:
            spec._initializing = value
            _ending.discard(id(spec))


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
        # A module may have come by a way that does not lead past this finder: the import was on its way when the finder
        # came, or a finder in front of this one has found it.
        for missing in [one for _, several in list(_waiting.values()) for one in several]:
            if _is_imported(missing):
                notify(missing)
            else:
                _follow(missing)
        asking = (get_ident(), name)
        # A finder that asks all the others takes us for one of them.
        if (
            target is not None
            or asking in self._asking
            or not any(one.wants(name) for one, _ in _waiting.copy().values())
        ):
            return None
        self._asking.add(asking)
        try:
            for finder in [one for one in list(sys.meta_path) if one is not self and hasattr(one, "find_spec")]:
                spec: machinery.ModuleSpec | None = finder.find_spec(name, path, target)
                if spec is not None:
                    _notice(spec)
                    return spec
        finally:
            self._asking.discard(asking)
        return None

    def leave(self) -> None:
        """Restore `sys.meta_path`, with what others have added to it or removed from it meanwhile."""
        now: Any = sys.meta_path
        if now is self._finders:
            others = [one for one in now if one is not self]
            if list(map(id, others)) != list(map(id, self._behind)):
                self._behind[:] = others
            sys.meta_path = self._behind
        elif now is not None:  # it is None as the interpreter ends
            sys.meta_path = [one for one in now if one is not self]


_finder: _Finder | None = None


def _place_finder() -> None:
    """Put the finder in place while somebody waits, and remove it otherwise; under the lock."""
    global _finder  # noqa: PLW0603  # under the lock
    if _waiting and _finder is None:
        _finder = _Finder()
    elif not _waiting and _finder is not None:
        gone, _finder = _finder, None
        gone.leave()
