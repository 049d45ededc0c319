"""Events of the interpreter: mount points that are connected to it for as long as they have subscribers that act.

A notification is known in its own context, and in copies of it, until it has ended: nobody is notified of what
subscribers do themselves meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, final, overload

from aspecthook._core.law.variables import Variable, variable
from aspecthook._core.mount.lock import is_changing, under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import MountError

from ._event import Errors, make_event

if TYPE_CHECKING:
    from aspecthook._core.law.hook import Hook
    from aspecthook._core.law.signature import Emission
    from aspecthook._typing import ToAnswer, ToEvent


# Notifying


@final
class _Notification:
    """One notification: of what, and of which occurrence of it; of nothing any more, once it has ended."""

    __slots__ = ("occurrence", "what")

    def __init__(self, what: object, occurrence: object) -> None:
        self.what = what
        self.occurrence = occurrence


_current: Variable[tuple[_Notification, ...]] = variable("aspecthook_notifications", ())


def is_notifying(what: object, occurrence: object = None) -> bool:
    """Whether subscribers are being notified of this in this context."""
    for one in _current.get():  # noqa: SIM110  # each audit event asks, and a generator takes longer
        if one.what is what and one.occurrence is occurrence:
            return True
    return False


# Any, here and below: the arguments and the result are those of the callable.
def notifying(what: object, occurrence: object, work: Callable[..., Any], *args: Any) -> Any:
    """Call a function that notifies subscribers of something."""
    before = _current.get()
    one = _Notification(what, occurrence)
    try:
        # Those that have ended are here because a context was copied in the middle of them.
        _current.set((*[outer for outer in before if outer.what is not None], one))
        return work(*args)
    finally:
        # First, and no call of C code: an interrupt that comes here must not leave it current.
        one.what = one.occurrence = None
        _current.set(before)


def notify(
    what: object,
    event: Callable[..., Any],
    *args: Any,
    ending: Callable[[], bool] = sys.is_finalizing,
    changing: Callable[[], bool] = is_changing,
) -> Any:
    """Call an event, unless subscribers are being notified of the same in this context.

    Nobody is notified while the interpreter is torn down, as modules are empty then; nor of what aspecthook itself does
    in the middle of a change. It makes code and puts it into functions: a hook that forbade that could not be removed.
    """
    # `ending` and `changing` come first and are defaults: this module may be empty, too.
    if ending() or changing() or is_notifying(what):
        return None
    return notifying(what, None, event, *args)


# Connecting


class Plug:
    """What connects an event to the interpreter. It is called under the lock, and may be called again.

    It imports nothing: under the lock that could wait for a thread which waits for the lock.
    """

    __slots__ = ()

    @property
    def displaced(self) -> bool:
        """Whether others have replaced what we put there; for most plugs that is impossible."""
        return False

    def connect(self) -> None:
        """Put in place what makes the interpreter call the event.

        Raises:
            MountError: The interpreter refuses; `disconnect` then leaves nothing behind.
        """
        raise NotImplementedError

    def disconnect(self) -> None:
        """Put back what was there; what others have put there meanwhile stays."""
        raise NotImplementedError


@final
class WiredPoint(MountPoint):
    """The mount point of an event of the interpreter."""

    __slots__ = ("_plugs", "_refused")

    def __init__(self, function: FunctionType, name: str | None, emission: Emission, plugs: Iterable[Plug]) -> None:
        super().__init__(function, name, emission)
        self._plugs = tuple(plugs)
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


# The plugs are made together with the event that they call.
ToPlugs = Callable[[Any], Iterable[Plug]]  # Any: an event, which no type of a plain function describes


@overload
def wired(name: str, plugs: ToPlugs, *, first: Literal[True], errors: Errors = "raise") -> ToAnswer: ...
@overload
def wired(name: str, plugs: ToPlugs, *, errors: Errors = "raise") -> ToEvent: ...
# Any: callers see the overloads, not this line.
def wired(name: str, plugs: ToPlugs, *, first: bool = False, errors: Errors = "raise") -> Any:
    """Return a decorator that makes a stub an event, connected to the interpreter by plugs."""

    def make(function: FunctionType, label: str | None, emission: Emission) -> MountPoint:
        return WiredPoint(function, label, emission, plugs(function))

    def decorate(stub: FunctionType) -> Any:
        return make_event(stub, f"aspecthook.events:{name}", make=make, first=first, fold=None, errors=errors)

    return decorate


def copied(stub: Callable[..., object]) -> Any:
    """Return a copy of a stub, of which several events are made."""
    assert isinstance(stub, FunctionType)
    copy = FunctionType(stub.__code__, stub.__globals__, stub.__name__)
    copy.__annotations__ = dict(stub.__annotations__)
    return copy
