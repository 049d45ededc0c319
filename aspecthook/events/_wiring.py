"""Events of the interpreter: mount points that are connected to it for as long as they have subscribers that act."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, final, overload

from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import MountError

from ._event import Errors, make_event

if TYPE_CHECKING:
    from aspecthook._core.law.hook import Hook
    from aspecthook._core.law.signature import Emission
    from aspecthook._typing import ToAnswer, ToEvent


class Plug(ABC):
    """What connects an event to the interpreter. It is called under the lock, and may be called again.

    It imports nothing: under the lock that could wait for a thread which waits for the lock.
    """

    __slots__ = ()

    @abstractmethod
    def connect(self) -> None:
        """Put in place what makes the interpreter call the event.

        Raises:
            MountError: The interpreter refuses; `disconnect` then leaves nothing behind.
        """

    @abstractmethod
    def disconnect(self) -> None:
        """Put back what was there; what others have put there meanwhile stays."""

    @property
    def displaced(self) -> bool:
        """Whether others have replaced what we put there; for most plugs that is impossible."""
        return False


@final
class Several(Plug):
    """Plugs that are connected and disconnected together."""

    __slots__ = ("_plugs",)

    def __init__(self, *plugs: Plug) -> None:
        self._plugs = plugs

    def connect(self) -> None:
        """Connect all."""
        for plug in self._plugs:
            plug.connect()

    def disconnect(self) -> None:
        """Disconnect all."""
        for plug in self._plugs:
            plug.disconnect()

    @property
    def displaced(self) -> bool:
        """Whether others have replaced one of ours."""
        return any(plug.displaced for plug in self._plugs)


@final
class WiredPoint(MountPoint):
    """The mount point of an event of the interpreter."""

    __slots__ = ("_plug", "_refused")

    def __init__(self, function: FunctionType, name: str | None, emission: Emission, plug: Plug) -> None:
        super().__init__(function, name, emission)
        self._plug = plug
        self._refused = False

    @property
    @under_lock
    def displaced(self) -> bool:
        """Whether somebody else has replaced ours: the event's code, or what was put into the interpreter."""
        return super().displaced or self._plug.displaced

    @under_lock
    def insert(self, hook: Hook) -> Hook:
        try:
            if not self.pauses:
                self._plug.connect()  # first: if it is refused, nothing has changed
            return super().insert(hook)
        except BaseException:
            if not self._is_needed():
                self._plug.disconnect()
            raise

    def _settle(self) -> None:
        super()._settle()
        while True:
            needed = self._is_needed()
            if needed:
                self._connect()
            else:
                self._plug.disconnect()
            if needed == self._is_needed():  # otherwise a finalizer or a signal handler has made a change meanwhile
                break
        # Linked now and not by the next call, which may come anywhere: in a garbage collection in the middle of
        # `compile`, which CPython 3.11 cannot enter again, or in an import for which the owner of the lock waits.
        if self.place is not None and self.place.opened:
            self.place.current()

    def _connect(self) -> None:
        """Connect the event. A refusal is raised the first time, and not again at each later change."""
        try:
            self._plug.connect()
        except MountError:
            before, self._refused = self._refused, True
            if not before:
                raise
        else:
            self._refused = False


# The plug is made together with the event that it calls.
ToPlug = Callable[[Any], Plug]  # Any: an event, which no type of a plain function describes


@overload
def wired(plug: ToPlug, *, first: Literal[True], errors: Errors = "raise") -> ToAnswer: ...
@overload
def wired(plug: ToPlug, *, errors: Errors = "raise") -> ToEvent: ...
# Any: callers see the overloads, not this line.
def wired(plug: ToPlug, *, first: bool = False, errors: Errors = "raise") -> Any:
    """Return a decorator that makes a stub an event, connected to the interpreter by a plug."""

    def decorate(stub: FunctionType) -> Any:
        return _wired(stub, f"aspecthook.events:{stub.__name__}", plug, first=first, errors=errors)

    return decorate


def wired_copy(stub: Callable[..., object], label: str, plug: ToPlug, *, first: bool = False) -> Any:
    """Make an event of a copy of a stub."""
    assert isinstance(stub, FunctionType)
    copy = FunctionType(stub.__code__, stub.__globals__, stub.__name__)
    copy.__annotations__ = dict(stub.__annotations__)
    return _wired(copy, label, plug, first=first, errors="raise")


def _wired(stub: FunctionType, label: str, plug: ToPlug, *, first: bool, errors: Errors) -> Any:
    def make(function: FunctionType, name: str | None, emission: Emission) -> MountPoint:
        return WiredPoint(function, name, emission, plug(function))

    return make_event(stub, label, make=make, first=first, fold=None, errors=errors)
