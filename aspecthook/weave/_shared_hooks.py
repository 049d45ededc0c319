"""Hooks that several weavings share: woven twice with the same options, a hook is one until both are removed."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, cast, final

from aspecthook._core.law.callables import identity
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Options, priority_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import AspecthookError

from ._gates import Claim, gate

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class Wanted:
    """One hook that is to be woven. Two with an equal `key` are one hook on a mount point."""

    __slots__ = ("function", "key", "kind", "options", "types")

    def __init__(
        self, kind: Kind, function: Callable[..., Any], types: tuple[type[BaseException], ...], options: Options
    ) -> None:
        self.kind: Kind = kind
        self.function = function
        self.types = types
        self.options = options
        compared = frozenset((name, _comparable(name, value)) for name, value in options.items())
        chosen = frozenset(types or (Exception,)) if kind == "exception" else None
        self.key: object = (kind, identity(function), chosen, compared)


def _comparable(name: str, value: Any) -> object:
    if name == "priority":
        try:
            return priority_of(value, name)
        except AspecthookError:
            return identity(value)  # making the hook refuses it
    if isinstance(value, (list, tuple, set, frozenset)):
        return frozenset(_comparable("", one) for one in cast("Any", value))
    return (type(value), value) if isinstance(value, (str, int)) else identity(value)


@final
class SharedHook:
    """One hook on a mount point, and the claims of the weavings that hold it."""

    __slots__ = ("__weakref__", "_claims", "_function", "_paused", "_signature", "_watches", "hook", "key", "mount")

    def __init__(self, key: object, mount: MountPoint, hook: Hook) -> None:
        self.key = key
        self.mount = weakref.ref(mount)
        self.hook = hook
        site = mount.site()
        self._signature, self._function = site.signature, site.function
        self._claims: dict[object, Claim] = {}
        self._paused: set[object] = set()
        self._watches: dict[object, weakref.ref[type[Any]]] = {}

    @property
    def attached(self) -> bool:
        """Whether the hook is still on the mount point: it may be removed by other ways than a weaving."""
        mount = self.mount()
        return mount is not None and self.hook in mount

    @property
    def alive(self) -> bool:
        """Whether the function that has the hook still exists."""
        return self.mount() is not None and self._function() is not None

    def hold(self, holder: object, claim: Claim, *, paused: bool) -> None:
        """Add the claim of one more weaving; under the lock."""
        self._claims[holder] = claim
        if paused:
            self._paused.add(holder)
        cls = claim.heir.cls() if claim.heir is not None else None
        if cls is not None:
            shared: weakref.ref[SharedHook] = weakref.ref(self)
            self._watches[holder] = weakref.ref(cls, lambda _: _release(shared, holder))
        self._settle()

    def pause(self, holder: object, *, paused: bool) -> None:
        """Pause or resume the claim of one weaving; under the lock. The hook acts while any claim is not paused."""
        if holder in self._claims:
            (self._paused.add if paused else self._paused.discard)(holder)
            self._settle()

    @under_lock
    def release(self, holder: object) -> None:
        """Drop the claim of a weaving; with the last claim the hook is removed."""
        if holder not in self._claims:
            return
        self._watches.pop(holder, None)
        self._paused.discard(holder)
        mount = self.mount()
        if len(self._claims) > 1:
            claim = self._claims.pop(holder)
            try:
                self._settle()
            except BaseException:  # an interrupt: the claim is kept, so that the release can be repeated
                self._claims[holder] = claim
                raise
            return
        self.hook.remove()
        if mount is not None:
            mount.tidy()
        if mount is not None and mount.woven and mount.woven.get(self.key) is self:
            del mount.woven[self.key]
        self._claims.pop(holder, None)  # last, so that an interrupted release can be repeated

    def _settle(self) -> None:
        """Open the hook's gate for the calls that are claimed, and pause it if every claim is paused."""
        mount = self.mount()
        if mount is None:
            return
        active = [claim for holder, claim in list(self._claims.items()) if holder not in self._paused]
        closed = gate(active, self._signature) if active else None
        mount.regate(self.hook, closed, paused=not active)


def _release(shared: weakref.ref[SharedHook], holder: object) -> None:
    """Drop the claim on a method that a class has inherited, as the class is gone."""
    found = shared()
    if found is not None:
        found.release(holder)


def is_woven(mount: MountPoint, wanted: Wanted, *, again: bool) -> bool:
    """Whether a hook is on a mount point already; under the lock."""
    found = None if again or not mount.woven else mount.woven.get(wanted.key)
    return found is not None and bool(found.attached)


def acquire(
    mount: MountPoint,
    wanted: Wanted,
    claim: Claim,
    *,
    holder: object,
    paused: bool,
    again: bool,
    put: Callable[[], Hook] | None = None,
) -> SharedHook:
    """Put a hook on a mount point for one weaving, or add its claim to the hook that is there; under the lock.

    The hook is made, unless `put` puts one there that exists already.

    Raises:
        AspecthookError: The hook is refused.
    """
    key = (wanted.key, object()) if again else wanted.key
    before = mount.members
    woven: dict[object, SharedHook] = {}
    if mount.woven is None:
        mount.woven = woven
    try:
        found = mount.woven.get(key)
        if found is None or not found.attached:
            closed = gate([claim], mount.site().signature)
            if put is not None:
                hook = put()
            else:
                hook = mount.admit(wanted.kind, wanted.function, wanted.types, wanted.options, closed)
            found = mount.woven[key] = SharedHook(key, mount, hook)
        else:
            mount.ensure()
        shared = cast("SharedHook", found)
        shared.hold(holder, claim, paused=paused)
    except BaseException:  # an interrupt may come between any two steps
        found = mount.woven.get(key)
        if found is not None:
            found.release(holder)
        for hook in mount.members:
            if hook not in before and hook.kind == wanted.kind and hook.options is wanted.options:
                hook.remove()
        mount.tidy()
        raise
    return shared
