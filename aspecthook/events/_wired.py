"""Events of the interpreter: mount points that are connected to it for as long as they have subscribers that act."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final, overload

from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import MountError

from ._event import Errors, make_event
from ._slots import Slot

if TYPE_CHECKING:
    from aspecthook._core.law.hook import Hook
    from aspecthook._core.law.signature import Emission
    from aspecthook._typing import ToAnswer, ToEvent


class Plug(NamedTuple):
    """What connects an event to the interpreter where others cannot replace it, as they can in a `Slot`.

    Both functions are called under the lock, may be called again, and import nothing: that could wait for a thread
    which waits for the lock. `connect` raises a `MountError` if the interpreter refuses.
    """

    connect: Callable[[], None]
    disconnect: Callable[[], None]
    displaced: bool = False


# The plugs are made together with the event that they call.
ToPlugs = Callable[[Any], Iterable[Plug | Slot]]  # Any: an event, which no type of a plain function describes


@final
class WiredPoint(MountPoint):
    """The mount point of an event of the interpreter."""

    __slots__ = ("_plugs", "_refused")

    def __init__(self, function: FunctionType, name: str | None, emission: Emission, plugs: ToPlugs) -> None:
        super().__init__(function, name, emission)
        self._plugs = tuple(plugs(function))
        self._refused = False

    @property
    @under_lock
    def displaced(self) -> bool:
        """Whether somebody else has replaced ours: the event's code, or what was put into the interpreter."""
        return super().displaced or any(plug.displaced for plug in self._plugs)

    @under_lock
    def insert(self, hook: Hook) -> Hook:
        try:
            if not self.pauses:
                self._connect(on=True)  # first: if it is refused, nothing has changed
            return super().insert(hook)
        except BaseException:
            if not self._is_needed():
                self._connect(on=False)
            raise

    def _settle(self) -> None:
        super()._settle()
        while True:
            needed = self._is_needed()
            try:
                self._connect(on=needed)
            except MountError:
                # A refusal is raised the first time, and not again at each later change.
                before, self._refused = self._refused, True
                if not before:
                    raise
            else:
                self._refused = False
            if needed == self._is_needed():  # otherwise a finalizer or a signal handler has made a change meanwhile
                break
        # Linked now and not by the next call, which may come anywhere: in a garbage collection in the middle of
        # `compile`, which CPython 3.11 cannot enter again, or in an import for which the owner of the lock waits.
        if self.place is not None and self.place.opened:
            self.current()

    def _connect(self, *, on: bool) -> None:
        for plug in self._plugs:
            plug.connect() if on else plug.disconnect()


@overload
def wired(name: str, plugs: ToPlugs, *, first: Literal[True], errors: Errors = "raise") -> ToAnswer: ...
@overload
def wired(name: str, plugs: ToPlugs, *, errors: Errors = "raise") -> ToEvent: ...
# Any: callers see the overloads, not this line.
def wired(name: str, plugs: ToPlugs, *, first: bool = False, errors: Errors = "raise") -> Any:
    """Return a decorator that makes a stub an event, connected to the interpreter by plugs."""
    label, make = f"aspecthook.events:{name}", partial(WiredPoint, plugs=plugs)
    return partial(make_event, name=label, make=make, first=first, fold=None, errors=errors)
