"""The site of a mount point: what the code in a function calls to find its place, and what messages need to know."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType

from aspecthook._core.compile.copies import Witness
from aspecthook._core.law.call import Site
from aspecthook._core.law.callables import signature_of
from aspecthook._core.law.hook import Hook
from aspecthook._core.law.order import Chain
from aspecthook._core.law.signature import Emission, Shown, shown_by
from aspecthook._errors import MountError
from aspecthook._hints import Any, Protocol, cast, final

from .lock import under_lock

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class Placed(Protocol):
    """What the site needs of a `Place`, which is defined above this module."""

    @property
    def site(self) -> MountSite:
        """The site that its code calls."""
        ...

    @property
    def under(self) -> Placed | None:
        """The older place under it."""
        ...

    @property
    def original(self) -> Callable[..., Any]:
        """What the chain calls."""
        ...

    def current(self) -> Callable[..., Any]:
        """Link the chain as it is now, and return a function that runs it."""
        ...

    def forget(self, taken: object) -> None:
        """Forget code that is gone."""
        ...


class Mounted(Protocol):
    """What its site and its places need of a mount point."""

    provides: Mapping[str, str]
    emission: Emission | None

    @property
    def place(self) -> Placed | None:
        """Where its code is, or was: the newest of its places."""
        ...

    def chains(self) -> Iterator[tuple[Hook, ...]]:
        """Yield the hooks of every chain."""
        ...

    def arranged(self) -> Chain:
        """Return the chain that runs now."""
        ...


@final
class MountSite(Site, Witness):
    """The site of a mount point, which it does not keep alive.

    The stand-in and stale code call it: it returns the function to run this call with.
    """

    __slots__ = ("_mount", "_shown")

    def __init__(
        self,
        label: str,
        model: CodeType,
        function: Callable[[], FunctionType | None],
        mount: Mounted,
    ) -> None:
        super().__init__(label, model, function, mount.emission)
        self.provides: Mapping[str, str] = mount.provides
        self._mount = weakref.ref(mount)
        # What `shown` returns, once it has been read.
        self._shown: tuple[Shown | None] | None = None

    def shown(self) -> Shown | None:
        """Return the parameters that the function shows; None if they are those of its code. It is read once."""
        if self._shown is None:
            mount = self._mount()
            if mount is None:
                return None
            original = None if mount.place is None else mount.place.original
            self._shown = (shown_by(self._mounted(), self.signature, original, signature_of),)
        return self._shown[0]

    def find(self, kind: str, function: object) -> Hook | None:
        """Return the hook of a kind that a function is, for messages."""
        mount = self._mount()
        found = [] if mount is None else [hook for hooks in mount.chains() for hook in hooks]
        return next((hook for hook in found if hook.kind == kind and hook.function is function), None)

    def _mounted(self) -> FunctionType | None:
        return cast("FunctionType | None", self.function())

    def place(self) -> Placed | None:
        """Return the place whose code calls this; None once it is gone."""
        mount = self._mount()
        place = None if mount is None else mount.place
        while place is not None and place.site is not self:
            place = place.under
        return place

    def __call__(self) -> Callable[..., Any]:
        place = self.place()
        return place.current() if place is not None else self._left()

    @under_lock
    def _left(self) -> Callable[..., Any]:
        """Return the function as it was; somebody has kept code of ours for longer than the function had hooks."""
        function = self._mounted()
        if function is None:
            raise MountError(
                "the function that this code was put into is gone; keep it for as long as you keep its code"
            )
        if any(const is self for const in function.__code__.co_consts):
            function.__code__ = self.model
        return FunctionType(self.model, function.__globals__, function.__name__, None, function.__closure__)
