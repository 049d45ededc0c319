"""Law 4 for what has no Python code: a proxy takes its place while its mount point carries hooks.

The invariant: while the mount point is open, the proxy is wherever the original was known (in the class that has it, or
in every module that had it under any name); once it is closed, the original is wherever the proxy was. What others have
put in these places is left alone, and a proxy that they keep passes its calls on.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import ModuleType

from aspecthook._core.law.callables import CODE, code_of, type_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._hints import Any, cast

from .carrier import carrier
from .places import ABSENT, Entry, places, space_of
from .proxies import is_proxy, load_proxies
from .unbound import Binding, as_function

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class ProxyMountPoint(MountPoint):
    """The mount point of something without Python code. Its proxy is in its places for as long as it carries hooks."""

    __slots__ = ("_entries", "binding", "enter", "hands_to", "original", "owner", "proxy", "short")

    def __init__(self, original: Any, label: str, cls: type[Any] | None, name: str, binding: Binding) -> None:
        call, signature, style = as_function(original, cls, name, binding)
        # What the proxy calls, and what its chain calls in the end.
        self.enter, self.hands_to = carrier(call, signature, label, style), call
        super().__init__(self.enter, label)
        setattr(self.enter, CODE, code_of(original))  # for whoever asks where it is written
        self.original = original
        # The class whose member it is, and the name there, how it binds; and where our proxy is, or was until the last
        # hook was removed.
        self.owner: Callable[[], Any] = (lambda: None) if cls is None else weakref.ref(cls)
        self.short = name
        self.binding: Binding = binding
        self._entries = [] if cls is None else [Entry(self.owner, name, vars(cls).get(name, ABSENT))]
        classes = load_proxies()  # loaded already
        binds = cls is not None or hasattr(type_of(original), "__get__")
        self.proxy: Any = (classes.BindingProxy if binds else classes.Proxy)(original, self)

    @property
    def path(self) -> tuple[object, str] | None:
        """The class and the name there, of a member of a class."""
        return (self.owner(), self.short) if self.short else None

    @property
    def inherited(self) -> bool:
        """Whether the proxy stands in a class that only inherits the member."""
        return bool(self.short) and self._entries[0].before is ABSENT

    @property
    def opened(self) -> bool:
        """Whether it carries hooks."""
        return self.place is not None and self.place.opened

    @property
    @under_lock
    def displaced(self) -> bool:
        """Whether somebody else has replaced our proxy."""
        self._heal()
        # A name that a module has dropped meanwhile is no work of others.
        return any(entry.displaced for entry in self._entries if self.short or entry.now() is not ABSENT)

    def ensure(self) -> None:
        """Put the proxy wherever the original is, which may have been put back."""
        if not self.opened:
            return
        if not self.short:
            known = {(id(entry.owner()), entry.name) for entry in self._entries}
            for module, name in list(places(self.original)):
                if (id(module), name) not in known:
                    self._entries.append(Entry(weakref.ref(module), name, self.original))
        for entry in self._entries:
            entry.occupy(self.proxy)

    def moved_on(self, module: ModuleType) -> None:
        """Forget the places in a module that was reloaded: it has new objects, and nobody has replaced our proxy."""
        self._entries = [one for one in self._entries if one.owner() is not module or one.now() is self.proxy]

    def _settle(self) -> None:
        super()._settle()
        self.ensure()

    def _open(self) -> None:
        super()._open()
        self.proxy._self_call = self.enter
        if not self.short and not self.members:  # while there are hooks, paused ones too, it is known who displaced it
            self._entries = []

    def _forget(self) -> None:
        super()._forget()
        # If other code has kept the proxy and puts it back, its next call removes it.
        self.proxy._self_call = self._call_and_heal
        self._heal()

    @under_lock
    def _heal(self) -> None:
        """Put back what was there before, wherever our proxy is, if it carries no hooks."""
        if self.opened:
            return
        for entry in self._entries:
            if entry.opened:  # what others put there after it was left has displaced nothing
                entry.leave()
                entry.opened = False
            entry.heal()
        if not self.short:
            for module, name in list(places(self.proxy)):
                space_of(module)[name] = self.original

    def _call_and_heal(self, /, *args: Any, **kwargs: Any) -> Any:
        self._heal()
        return self.enter(*args, **kwargs)


_known: weakref.WeakValueDictionary[object, ProxyMountPoint] = weakref.WeakValueDictionary()


def proxied(value: object) -> ProxyMountPoint | None:
    """Return the mount point of one of our proxies, or of an original that has one now; else None."""
    if is_proxy(value):
        mount: ProxyMountPoint = cast("Any", value).__aspecthook__
        return mount
    found = _known.get(id(value))
    return found if found is not None and found.original is value and found.opened else None


@under_lock
def mount_in_place(
    original: Any, label: str, cls: type[Any] | None = None, name: str = "", binding: Binding = "none"
) -> ProxyMountPoint:
    """Return the mount point of a callable that modules have, or of the member of a class, which may inherit it."""
    key = id(original) if cls is None else (id(cls), name)
    found = _known.get(key)
    if found is None or found.original is not original or found.owner() is not cls:
        found = _known[key] = ProxyMountPoint(original, label, cls, name, binding)
    return found
