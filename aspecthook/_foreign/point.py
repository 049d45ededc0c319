"""Law 4 for what has no Python code: a proxy stands in its place while its mount point carries hooks.

The invariant: while the mount point is open, the proxy is wherever the original was known (in the class that has it, or
in every module that had it under any name); once it is closed, the original is wherever the proxy was. What others have
put in these places is left alone, and a proxy that they keep passes its calls on.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, cast

from aspecthook._core.law.callables import signature_of, type_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint

from .carrier import Carrier, carrier, style_of
from .places import places, space_of
from .proxy import Binding, FunctionProxy, MethodProxy, Proxy, ReadProxy, bind
from .unbound import as_function

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_ABSENT: Any = object()


class _Held(NamedTuple):
    """A place that our proxy was put into, and what was there before."""

    owner: Callable[[], Any]
    name: str
    before: object

    def now(self) -> object:
        """Return what is there now; None if the owner is gone."""
        owner = self.owner()
        return None if owner is None else space_of(owner).get(self.name, _ABSENT)

    def put(self, value: object) -> None:
        """Put something there."""
        owner = self.owner()
        if not isinstance(owner, type):
            space_of(owner)[self.name] = value
        elif value is _ABSENT:
            type.__delattr__(owner, self.name)
        else:
            type.__setattr__(owner, self.name, value)


class ProxyMountPoint(MountPoint):
    """The mount point of something without Python code. Its proxy is in its places for as long as it carries hooks."""

    __slots__ = (
        "_held",
        "_named",
        "_stranded",
        "binding",
        "carrier",
        "enter",
        "forward",
        "original",
        "owner",
        "proxy",
        "short",
    )

    def __init__(
        self,
        original: Any,
        name: str,
        made: Carrier,
        place: tuple[type[Any], str] | None = None,
        binding: Binding = "none",
    ) -> None:
        super().__init__(made[0], name)
        self.carrier, self.enter, self.forward = made
        self.original = original
        self.binding: Binding = binding
        # The places of our proxy; and those where somebody else's had replaced it when the hooks were removed: they may
        # put our proxy back.
        self._held: list[_Held] = []
        self._stranded: list[_Held] = []
        # The names of a module's callable that users gave. Only of these is it reported that another stands there.
        self._named: set[tuple[int, str]] = set()
        self.owner: Callable[[], Any] = lambda: None
        self.short = ""
        shell: type[Proxy] = FunctionProxy if hasattr(type_of(original), "__get__") else Proxy
        if place is not None:
            owner, self.short = place
            self.owner = weakref.ref(owner)
            self._held.append(_Held(self.owner, self.short, vars(owner).get(self.short, _ABSENT)))
            shell = ReadProxy if binding == "read" else MethodProxy
        self.proxy: Proxy = shell(original, self)

    @property
    def path(self) -> tuple[object, str] | None:
        """The class and the name, if the member is inherited, so that its own name leads to the base class."""
        inherited = bool(self.short) and self._held[0].before is _ABSENT
        return (self.owner(), self.short) if inherited else None

    @property
    def opened(self) -> bool:
        """Whether it carries hooks."""
        return self.place is not None and self.place.opened

    @property
    @under_lock
    def displaced(self) -> bool:
        """Whether somebody else has replaced our proxy."""
        if self.opened:
            return any(self._is_theirs(held) for held in self._held)
        self._heal()
        return bool(self._stranded)

    def ensure(self) -> None:
        """Put the proxy wherever the original is: somebody may have put that back."""
        if not self.opened:
            return
        if not self.short:
            known = {(id(held.owner()), held.name) for held in self._held}
            for module, name in list(places(self.original)):
                if (id(module), name) not in known:
                    self._held.append(_Held(weakref.ref(module), name, self.original))
        for held in self._held:
            if held.now() is held.before:
                held.put(self.proxy)

    def moved_on(self, module: ModuleType) -> None:
        """Forget the places in a module that was reloaded: it has new objects, and nobody has replaced our proxy."""
        self._held = [held for held in self._held if held.owner() is not module or held.now() is self.proxy]

    def _target(self) -> Callable[..., Any]:
        return self.forward

    def _settle(self) -> None:
        super()._settle()
        self.ensure()

    def _open(self) -> None:
        super()._open()
        self.proxy._self_call = self.enter
        self._stranded = []
        if not self.short:
            self._held = []

    def _forget(self) -> None:
        super()._forget()
        # If somebody has kept the proxy and puts it back, its next call removes it.
        self.proxy._self_call = self._call_and_heal
        self._stranded = [held for held in self._held if self._is_theirs(held)]
        self._heal()

    def name_place(self, module: ModuleType, name: str) -> None:
        """Note a name that a user gave."""
        self._named.add((id(module), name))

    def _is_theirs(self, held: _Held) -> bool:
        if not self.short and (id(held.owner()), held.name) not in self._named:
            return False
        now = held.now()
        if not self.short and now is _ABSENT:
            return False  # a module has dropped the name
        return now is not self.proxy and now is not None and (self.opened or now is not held.before)

    def _heal(self) -> None:
        """Put back what was there before, wherever our proxy is, since it carries no hooks."""
        for held in self._held:
            if held.now() is self.proxy:
                held.put(held.before)
        if not self.short:
            for module, name in list(places(self.proxy)):
                space_of(module)[name] = self.original
        self._stranded = [held for held in self._stranded if self._is_theirs(held)]

    def _call_and_heal(self, /, *args: Any, **kwargs: Any) -> Any:
        self._heal_unless_opened()
        return self.carrier(*args, **kwargs)

    @under_lock
    def _heal_unless_opened(self) -> None:
        if not self.opened:
            self._heal()


_known: weakref.WeakValueDictionary[object, ProxyMountPoint] = weakref.WeakValueDictionary()


def proxied(value: object) -> ProxyMountPoint | None:
    """Return the mount point of one of our proxies, or of an original that one stands for now; else None."""
    if issubclass(type(value), Proxy):
        mount: ProxyMountPoint = cast("Any", value)._self_mount
        return mount
    found = _known.get(id(value))
    return found if found is not None and found.original is value and found.opened else None


@under_lock
def mount_in_module(original: Any, name: str) -> ProxyMountPoint:
    """Return the mount point of a callable that modules have under one name or several."""
    found = _known.get(id(original))
    if found is None or found.original is not original:
        made = carrier(original, signature_of(original), name, style_of(original))
        found = _known[id(original)] = ProxyMountPoint(original, name, made)
    return found


@under_lock
def mount_in_class(original: Any, cls: type[Any], name: str, label: str, binding: Binding) -> ProxyMountPoint:
    """Return the mount point of a member of a class, which the class has itself or inherits."""
    key = (id(cls), name)
    found = _known.get(key)
    if found is None or found.original is not original or found.owner() is not cls:
        call, signature = as_function(original, cls, name, binding)
        made = carrier(call, signature, label, style_of(bind(original, None, cls)))
        found = _known[key] = ProxyMountPoint(original, label, made, (cls, name), binding)
    return found
