"""Hooks that several weavings share: woven twice with the same options, a hook is one until both are removed."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from aspecthook._core.law.callables import identity
from aspecthook._core.law.hook import EXCEPTION, Hook, Maker, check_options
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Options
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._hints import Any, final

from ._gates import Claim, gate


@final
class Wanted:
    """One hook that is to be woven.

    Raises:
        HookTypeError: An option is unknown, or has the wrong type.
        HookOptionError: An option has a value that it cannot have.
    """

    __slots__ = ("_meaning", "_same", "function", "key", "kind", "options", "types")

    def __init__(
        self,
        kind: Kind,
        function: Callable[..., Any],
        types: tuple[type[BaseException], ...],
        options: Options,
        label: str,
    ) -> None:
        self.kind: Kind = kind
        self.function = function
        self.types = types
        self.options = options
        self._meaning = check_options(kind, function, options, label)
        self._same = (kind, identity(function), frozenset(types or EXCEPTION))
        self.key: object = (self._same, frozenset(self._meaning.items()))

    def key_on(self, mount: MountPoint) -> object:
        """Return what tells hooks apart on a mount point: two with an equal key are one hook there."""
        if mount.emission is None:
            return self.key
        left_out = {name: one for name, one in mount.defaults(self.kind).items() if name not in self.options}
        return (self._same, frozenset({**self._meaning, **left_out}.items()))


@final
class SharedHook:
    """One hook on a mount point, and the claims of the weavings that want it there."""

    __slots__ = ("__weakref__", "_claims", "_mount", "hook", "key")

    def __init__(self, key: object, mount: MountPoint, hook: Hook) -> None:
        self.key = key
        self._mount = weakref.ref(mount)
        self.hook = hook
        self._claims: tuple[Claim, ...] = ()

    @property
    def mount(self) -> MountPoint | None:
        """The mount point that has the hook; None if that or its function is gone."""
        mount = self._mount()
        return mount if mount is not None and mount.ref() is not None else None

    @property
    def attached(self) -> bool:
        """Whether the hook is still on the mount point: it may be removed by other ways than a weaving."""
        mount = self._mount()
        return mount is not None and self.hook in mount

    def hold(self, claim: Claim) -> None:
        """Add the claim of one more weaving; under the lock."""
        self._claims = (*self._claims, claim) if self._claims else claim.alone
        cls = claim.heir.cls() if claim.heir is not None else None
        if cls is not None:
            shared: weakref.ref[SharedHook] = weakref.ref(self)
            claim.watch = weakref.ref(cls, lambda watch: _release(shared, watch))
        if claim.paused or len(self._claims) > 1:  # otherwise the hook was made for this claim
            self._settle()

    def pause(self, claim: Claim, *, paused: bool) -> None:
        """Pause or resume the claim of one weaving; under the lock. The hook acts while any claim is not paused."""
        if claim in self._claims:
            claim.paused = paused
            self._settle()

    @under_lock
    def release(self, claim: Claim) -> None:
        """Drop the claim of a weaving; with the last claim the hook is removed."""
        if claim not in self._claims:
            return
        claim.watch = None
        rest = tuple([one for one in self._claims if one is not claim])
        if rest:
            self._claims = rest
            try:
                self._settle()
            except BaseException:  # an interrupt: the claim is kept, so that the release can be repeated
                self._claims = (*self._claims, claim)
                raise
            return
        mount = self._mount()
        self.hook.remove()
        if mount is not None:
            mount.tidy()
            _replace(mount, self)
        self._claims = ()  # last, so that an interrupted release can be repeated

    def release_gone(self, watch: object) -> None:
        """Drop the claim on a method that a class has inherited, as the class is gone."""
        for claim in self._claims:
            if claim.watch is watch:
                self.release(claim)

    def _settle(self) -> None:
        """Open the hook's gate for the calls that are claimed, and pause it if every claim is paused."""
        mount = self._mount()
        if mount is None:
            return
        active = [claim for claim in self._claims if not claim.paused]
        closed = gate(active, mount.site().signature) if active else None
        mount.regate(self.hook, closed, paused=not active)


def _release(shared: weakref.ref[SharedHook], watch: object) -> None:
    found = shared()
    if found is not None:
        found.release_gone(watch)


def _found(mount: MountPoint, key: object) -> SharedHook | None:
    woven: tuple[SharedHook, ...] = mount.woven
    return next((shared for shared in woven if shared.key == key), None)


def _replace(mount: MountPoint, older: SharedHook | None, *newer: SharedHook) -> None:
    """Store a shared hook in place of another; a finalizer may store one meanwhile."""
    while True:
        before = mount.woven
        after = (*[shared for shared in before if shared is not older], *newer)
        if mount.woven is before:
            mount.woven = after
            return


def acquire(mount: MountPoint, wanted: Wanted, claim: Claim, *, again: bool) -> SharedHook | None:
    """Put a hook on a mount point for one weaving, or add its claim to the hook that is there; under the lock.

    None: there is no hook for this mount point.

    Raises:
        AspecthookError: The hook is refused.
    """
    key = (wanted.key, object()) if again else wanted.key_on(mount)
    before = mount.members
    try:
        found = _found(mount, key)
        if found is None or not found.attached:
            closed = gate([claim], mount.site().signature)
            if isinstance(wanted.function, Maker) and not wanted.function.fits(mount):
                return None
            hook = mount.add_hook(wanted.kind, wanted.function, wanted.types, wanted.options, closed)
            shared = SharedHook(key, mount, hook)
            _replace(mount, found, shared)
        else:
            shared = found
            mount.ensure()
        shared.hold(claim)
    except BaseException:  # an interrupt may come between any two steps
        found = _found(mount, key)
        if found is not None:
            found.release(claim)
        made = identity(mount.unbound(wanted.function))
        for hook in mount.members:
            if hook not in before and hook.kind == wanted.kind and hook.identity == made:
                hook.remove()
        mount.tidy()
        raise
    return shared
