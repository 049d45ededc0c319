"""Mount points of single objects: the chain is a function of its own, put where the object keeps its callables.

The invariant: each change makes a new function, and a function is never changed. What it needs is in its cells, which
the garbage collector sees, and tracers such as that of `torch.compile`. A function that has been replaced passes its
calls on to the newest one; once the last hook is removed, it only calls the target.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol, final

from aspecthook._core.compile.copies import Attributes
from aspecthook._core.compile.link import Codes, Linker, template
from aspecthook._core.law.signature import Emission
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.original import copy_description
from aspecthook._core.mount.place import MountSite, Moved
from aspecthook._core.mount.point import MountPoint, mount_of

if TYPE_CHECKING:
    from aspecthook._core.law.call import Fits

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# With more hooks than that, linking waits for the next call, so that adding many takes linear time.
_AT_ONCE = 64


class Slot(Protocol):
    """A place for the function in one object, which is held weakly. All methods are called under the lock."""

    def put(self, function: FunctionType) -> None:
        """Put a function there, which may replace an older one."""

    def leave(self) -> None:
        """Put back what was there before."""

    def forget(self) -> None:
        """Drop the mount point, which has no hooks any more."""

    def is_displaced(self) -> bool:
        """Whether somebody else's callable is there, or was there when ours should have been removed."""
        ...

    def clean(self, space: dict[str, Any]) -> None:
        """Remove our entries from a copy of the object's `__dict__`."""


@final
class Opening:
    """The function in the slot, from the first hook that acts until none does."""

    __slots__ = ("__weakref__", "_changes", "_mount", "_moved", "function", "stale", "target")

    def __init__(self, mount: OwnMountPoint, target: Callable[..., Any]) -> None:
        self._mount: OwnMountPoint | None = mount
        self._moved = Moved()
        self.target = target
        self.function: FunctionType | None = None
        self.stale = True
        self._changes = 0

    def hold(self) -> None:
        """Pass the calls of the function on to us, as a change begins."""
        self.stale = True
        self._changes += 1
        self._moved.run = self._enter

    def link(self) -> FunctionType | None:
        """Return the function that runs the present chain; if there is none, make it and put it into the slot."""
        mount = self._mount
        while self.stale and mount is not None:
            changes, moved = self._changes, Moved()
            function = mount.function_of(moved, self.target)
            if self._changes == changes:  # else a finalizer or a signal handler has made another
                self._moved, self.function, self.stale = moved, function, False
                mount.slot.put(function)
            mount = self._mount
        return self.function

    def close(self) -> None:
        """Take the function away, as no hook acts any more."""
        mount = self._mount
        self.hold()
        self._mount = self.function = None
        if mount is not None:
            mount.slot.leave()

    def _enter(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run a call that an older function has passed on."""
        return self._newest()(*args, **kwargs)

    @under_lock
    def _newest(self) -> Callable[..., Any]:
        run: Callable[..., Any] | None = self.link() if self._mount is not None else None
        return self.target if run is None else run


class OwnMountPoint(MountPoint):
    """The hooks of one object; its class and other objects are not changed, and their calls cost nothing more.

    Args:
        owner: The object, held weakly.
        model: A function with the parameters that the hooks see.
        name: The name in messages.
        slot: Where the function goes.
        target: Returns the target of the chain.
        fits: Checks answers, if the mount point is an event that wants that.
        codes: The codes that were made for the same owner and slot before.
    """

    of_object = True

    __slots__ = ("_codes", "_find_target", "_fits", "_linker", "_model", "_opening", "_pins", "owner", "slot", "stub")

    def __init__(
        self,
        owner: object,
        model: FunctionType,
        name: str,
        slot: Slot,
        *,
        target: Callable[[], Callable[..., Any]],
        emission: Emission | None = None,
        provides: dict[str, str] | None = None,
        fits: Fits | None = None,
        codes: Codes | None = None,
    ) -> None:
        super().__init__(model, name, emission)
        self.owner = weakref.ref(owner)
        self.slot = slot
        found = mount_of(model)
        self._model = model.__code__ if found is None else found.code()
        self.stub = model
        self._find_target = target
        self._opening: Opening | None = None
        self._linker: Linker | None = None
        self._pins = 0
        self._fits = fits
        self._codes: Codes = {} if codes is None else codes
        owned = self.owner
        self.ref = lambda: model if owned() is not None else None
        self.provides = provides or {}

    @property
    @under_lock
    def displaced(self) -> bool:
        """Whether somebody else has replaced our function."""
        return self.slot.is_displaced()

    def inner(self) -> Callable[..., Any]:
        """Return the target, which runs inside all hooks."""
        return self._find_target() if self._opening is None else self._opening.target

    def function_of(self, moved: Moved, target: Callable[..., Any]) -> FunctionType:
        """Return a new function that runs the present chain."""
        site, chain = self.site(), self.chain()
        if self._linker is None:
            facts: dict[str, object] = {"site": site}
            self._linker = Linker(site.signature, self._model, self.name, facts, self.stub.__globals__)
        found = template(site.signature, chain, cells=True, traced=True)
        made = self._linker.make(found, chain, self._codes, {"target": target, "moved": moved})
        function = copy_description(made, self.stub)
        Attributes.put(function, self).wrap(self.stub)
        return function

    def site(self) -> MountSite:
        site = super().site()
        site.fits, site.function = self._fits, self.ref
        return site

    def code(self) -> CodeType:
        return self._model

    def tidy(self) -> None:
        """Complete a change that was interrupted; under the lock."""
        self._settle()

    def _open(self) -> None:
        """Do nothing: `_settle` opens the slot."""

    def _hold(self) -> bool:
        if self._opening is None:
            return False
        self._opening.hold()
        return True

    @under_lock
    def pin(self, step: int) -> None:
        """Keep the function in its slot even without hooks (1), or end that (-1)."""

        def store() -> None:
            self._pins += step

        self._change(store)

    def _is_needed(self) -> bool:
        return self._pins > 0 or super()._is_needed()

    def _settle(self) -> None:
        while True:
            opening = self._opening
            if self.owner() is not None and self._is_needed():
                if opening is None:
                    opening = self._opening = Opening(self, self._find_target())
                if len(self.members) <= _AT_ONCE or opening.function is None:
                    opening.link()
                break
            if opening is None:
                break
            self._opening = None
            opening.close()
            self._reopen()
        if not self.members and not self._pins:
            self.slot.forget()

    def _reopen(self) -> None:
        """Link anew if a signal handler has opened the slot again while it was closed, which took its function away."""
        if self._opening is not None:
            self._opening.hold()
            self._opening.function = None
