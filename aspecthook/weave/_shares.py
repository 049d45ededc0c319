"""What is woven on a mount point: the same hook, woven twice with the same options, is one hook until both are off."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, cast, final

from aspecthook._core.law.asks import Kind
from aspecthook._core.law.callables import identity
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.options import Options, priority_of
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import AspecthookError

from ._gates import Claim, gate

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class Wish:
    """One hook that somebody wants woven; its `key` tells it from others on one mount point."""

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
            return identity(value)  # it is refused for that elsewhere
    if isinstance(value, (list, tuple, set, frozenset)):
        return frozenset(_comparable("", one) for one in cast("Any", value))
    return (type(value), value) if isinstance(value, (str, int)) else identity(value)


@final
class Share:
    """One hook, and what the weavings that hold it want of it."""

    __slots__ = ("__weakref__", "_claims", "_paused", "_signature", "_watches", "hook", "key", "mount")

    def __init__(self, key: object, mount: MountPoint, hook: Hook) -> None:
        self.key = key
        self.mount = weakref.ref(mount)
        self.hook = hook
        self._signature = mount._get_site().signature
        self._claims: dict[object, Claim] = {}
        self._paused: set[object] = set()
        self._watches: dict[object, weakref.ref[type[Any]]] = {}

    @property
    def attached(self) -> bool:
        """Whether nobody has taken the hook off by other ways."""
        mount = self.mount()
        return mount is not None and self.hook in mount

    @property
    def lives(self) -> bool:
        """Whether the function that the hook was put on is still there."""
        mount = self.mount()
        return mount is not None and mount._ref() is not None

    def hold(self, holder: object, claim: Claim, *, paused: bool) -> None:
        """Note what one more weaving wants of the hook; under the lock."""
        self._claims[holder] = claim
        if paused:
            self._paused.add(holder)
        cls = claim.heir.cls() if claim.heir is not None else None
        if cls is not None:
            taken: weakref.ref[Share] = weakref.ref(self)
            self._watches[holder] = weakref.ref(cls, lambda _: _gone(taken, holder))
        self._settle()

    def pause(self, holder: object, *, paused: bool) -> None:
        """Pause the hook for one weaving: it acts for as long as another one wants it to; under the lock."""
        if holder in self._claims:
            (self._paused.add if paused else self._paused.discard)(holder)
            self._settle()

    @under_lock
    def release(self, holder: object) -> None:
        """Note that a weaving does not want the hook any more; the last one takes it off."""
        if holder not in self._claims:
            return
        self._watches.pop(holder, None)
        self._paused.discard(holder)
        mount = self.mount()
        if len(self._claims) > 1:
            claim = self._claims.pop(holder)
            try:
                self._settle()
            except BaseException:  # an interrupt: to be done again
                self._claims[holder] = claim
                raise
            return
        self.hook.remove()
        if mount is not None:
            mount.tidy()
        if mount is not None and mount.woven.get(self.key) is self:
            del mount.woven[self.key]
        self._claims.pop(holder, None)  # last: an interrupted release can be done again

    def _settle(self) -> None:
        """Let the hook act for the calls that somebody wants it to, and be paused if nobody does."""
        mount = self.mount()
        if mount is None:
            return
        active = [claim for holder, claim in list(self._claims.items()) if holder not in self._paused]
        closed = gate(active, self._signature) if active else None
        mount.regate(self.hook, closed, paused=not active)


def _gone(taken: weakref.ref[Share], holder: object) -> None:
    """Take note that a class is gone whose inherited method was woven."""
    share = taken()
    if share is not None:
        share.release(holder)


def is_shared(mount: MountPoint, wish: Wish, *, again: bool) -> bool:
    """Say whether a hook is on a mount point already; under the lock."""
    found = None if again else mount.woven.get(wish.key)
    return found is not None and bool(found.attached)


def share(
    mount: MountPoint,
    wish: Wish,
    claim: Claim,
    *,
    holder: object,
    paused: bool,
    again: bool,
    put: Callable[[], Hook] | None = None,
) -> Share:
    """Put a hook on a mount point for one weaving, or let it share the one that is there; under the lock.

    `put` puts in a hook that is made already.

    Raises:
        AspecthookError: The hook is refused.
    """
    key = (wish.key, object()) if again else wish.key
    before = mount.members
    try:
        found = mount.woven.get(key)
        if found is None or not found.attached:
            closed = gate([claim], mount._get_site().signature)
            hook = mount.admit(wish.kind, wish.function, wish.types, wish.options, closed) if put is None else put()
            found = mount.woven[key] = Share(key, mount, hook)
        else:
            mount.ensure()
        made = cast("Share", found)
        made.hold(holder, claim, paused=paused)
    except BaseException:  # an interrupt may come between any two steps
        found = mount.woven.get(key)
        if found is not None:
            found.release(holder)
        for hook in mount.members:
            if hook not in before and hook.kind == wish.kind and hook.options is wish.options:
                hook.remove()
        mount.tidy()
        raise
    return made
