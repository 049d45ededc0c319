"""What is woven on a mount point: the same hook, woven twice with the same options, is one hook until both are off."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, final

from aspecthook._asks import Kind
from aspecthook._changes import lock
from aspecthook._hook import Hook, Options, identity
from aspecthook._mount import MountPoint

from ._gates import Blocks, Heir, gate


class Wish(NamedTuple):
    """One hook that somebody wants woven."""

    kind: Kind
    function: Callable[..., Any]
    types: tuple[type[BaseException], ...]
    options: Options

    def key(self, heir: Heir | None, *, scoped: bool) -> object:
        """Give what tells it from others on one mount point."""
        options = frozenset((name, _comparable(value)) for name, value in self.options.items())
        return self.kind, identity(self.function), self.types, options, heir, scoped


def _comparable(value: Any) -> object:
    return (type(value), value) if isinstance(value, (str, int)) else identity(value)


@final
class Share:
    """One hook, and the weavings that hold it."""

    __slots__ = ("__weakref__", "blocks", "holders", "hook", "key", "mount", "watch")

    def __init__(self, key: object, mount: MountPoint, hook: Hook, blocks: Blocks | None, heir: Heir | None) -> None:
        self.key = key
        self.mount = weakref.ref(mount)
        self.hook = hook
        self.blocks = blocks
        self.holders: set[object] = set()
        cls = heir.cls() if heir is not None else None
        taken: weakref.ref[Share] = weakref.ref(self)
        self.watch = weakref.ref(cls, lambda _: _gone(taken)) if cls is not None else None

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

    def hold(self, holder: object) -> None:
        """Note one more weaving that wants the hook."""
        self.holders.add(holder)
        if self.blocks is not None:
            self.blocks.tokens |= {holder}

    def release(self, holder: object) -> None:
        """Note that a weaving does not want it any more; the last one takes it off."""
        with lock:
            self.holders.discard(holder)
            if self.blocks is not None:
                self.blocks.tokens -= {holder}
            if not self.holders:
                mount = self.mount()
                shares = _shares.get(mount) if mount is not None else None
                if shares is not None and shares.get(self.key) is self:
                    del shares[self.key]
                    if not shares and mount is not None:
                        del _shares[mount]
                self.hook.remove()


_shares: weakref.WeakKeyDictionary[MountPoint, dict[object, Share]] = weakref.WeakKeyDictionary()


def _gone(taken: weakref.ref[Share]) -> None:
    share = taken()
    if share is not None:
        share.hook.remove()


def share(mount: MountPoint, wish: Wish, heir: Heir | None, *, holder: object, scoped: bool, again: bool) -> Share:
    """Put a hook on a mount point for one weaving, or let it share the one that is there; under the lock.

    Raises:
        AspecthookError: The hook is refused.
    """
    key = wish.key(heir, scoped=scoped)
    if again:
        key = (key, object())
    shares = _shares.get(mount, {})
    found = shares.get(key)
    if found is None or not found.attached:
        blocks = Blocks() if scoped else None
        closed = gate(heir, blocks, mount._get_site().signature)
        hook = mount.admit(wish.kind, wish.function, wish.types, wish.options, closed)
        found = Share(key, mount, hook, blocks, heir)
        _shares.setdefault(mount, shares)[key] = found
    found.hold(holder)
    return found
