"""Signals as events, one for each signal."""

from __future__ import annotations

import signal as signals
from types import FrameType
from typing import TYPE_CHECKING, Any, final

from aspecthook._errors import HookLookupError, MountError, brief, nearest

from ._slots import Notify, Slot
from ._wired import copied, wired

if TYPE_CHECKING:
    from aspecthook._typing import Event

    # Any: a subscriber that has handled the signal answers anything but None.
    SignalEvent = Event[[int, FrameType | None], Any]

_events: dict[int, Any] = {}

# The system ignores these by default.
_IGNORED = ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH")


def signal(which: str | int) -> SignalEvent:
    """Return the event of a signal: always the same one for the same signal.

    Subscribers run in the main thread, as every signal handler in Python, and may ask for ``signum`` and ``frame``.
    After them runs the handler that was there before, or the system's default, which for most signals ends the process;
    unless a subscriber answers anything but None, which means that it has handled the signal. What a subscriber raises
    goes to the code that was interrupted, and no further subscriber runs.

    Only the main thread can change signal handlers: add the first subscriber there. If the last one is removed in
    another thread, our handler stays until the signal comes next, and passes it on.

    Args:
        which: The name, such as ``"SIGHUP"``, or the number: ``signal.SIGHUP``.

    Raises:
        HookLookupError: This system has no such signal.

    Example:
        >>> import signal as signals
        >>> @signal("SIGTERM").on
        ... def finish(signum):
        ...     print("finishing", signals.Signals(signum).name)
        ...     return "handled"
        >>> signals.raise_signal(signals.SIGTERM)
        finishing SIGTERM
        >>> hooks(signal(signals.SIGTERM)).remove(finish)
        >>> signals.getsignal(signals.SIGTERM)
        <Handlers.SIG_DFL: 0>
    """
    number = _number(which)
    found = _events.get(number)
    if found is None:
        decorate = wired(f"signal({_name(number)!r})", lambda event: [_Handler(number, event)], first=True)
        found = _events.setdefault(number, decorate(copied(_received)))
    given: SignalEvent = found
    return given


def _received(signum: int, frame: FrameType | None) -> None:
    """A signal has arrived."""


def _number(which: object) -> int:
    known = {name: int(one) for name, one in signals.Signals.__members__.items()}
    if isinstance(which, str) and which in known:
        return known[which]
    if isinstance(which, int) and not isinstance(which, bool) and which in signals.valid_signals():
        return int(which)
    near = nearest(which.upper(), list(known)) if isinstance(which, str) else ""
    raise HookLookupError(
        f"this system has no signal {brief(which)}{near}; give a name such as 'SIGTERM', or the number"
    )


def _name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return str(number)  # a real-time signal


@final
class _Handler(Slot):
    """The handler of one signal."""

    __slots__ = ("_label", "_number")

    def __init__(self, number: int, event: Notify) -> None:
        # An occurrence is known by the frame that was interrupted: a signal may arrive again while it is being handled.
        super().__init__(_name(number), event, key=1)
        self._number = number
        self._label = f"aspecthook.events:signal({self.name!r})"

    def now(self) -> Any:
        """Return the handler: a callable, SIG_DFL, SIG_IGN, or None if it was not set by Python."""
        return signals.getsignal(self._number)

    def put(self, value: Any) -> None:
        """Set the handler."""
        try:
            signals.signal(self._number, value)
        except (ValueError, OSError) as error:
            raise MountError(
                f"{self._label} cannot be connected: {error}; subscribe in the main thread of the program, and to a "
                f"signal that a program may handle"
            ) from error

    def connect(self) -> None:
        """Set our handler, unless the one that is set could not be put back."""
        if not self.opened and self.now() is None:
            raise MountError(
                f"{self._label} cannot be connected: its handler was not set by Python code, and could not be put "
                f"back; set one with signal.signal before you subscribe"
            )
        super().connect()

    def pass_on(self, before: Any, args: tuple[Any, ...]) -> Any:
        """Call the handler that was there before, or do what the system does."""
        if before is signals.SIG_DFL:
            if self.name not in _IGNORED:
                # Let the system do what it does about this signal, which for most signals ends the process.
                now = self.now()
                signals.signal(self._number, signals.SIG_DFL)
                signals.raise_signal(self._number)
                # The process still runs: it has been stopped and continued, for example.
                signals.signal(self._number, now)
        elif before is not signals.SIG_IGN:
            return before(*args)
