"""Signals as events, one for each signal."""

from __future__ import annotations

import signal as signals
from types import FrameType
from typing import TYPE_CHECKING, Any, final

from aspecthook._errors import HookLookupError, MountError, brief, nearest

from ._slots import Link, Notify, Slot
from ._wired import wired

if TYPE_CHECKING:
    from aspecthook._typing import Event

    # Any: a subscriber that has handled the signal answers anything but None.
    SignalEvent = Event[[int, FrameType | None], Any]

_events: dict[int, Any] = {}

# The system ignores these by default.
_IGNORED = ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH")


def signal(which: str | int) -> SignalEvent:
    """Return the event of a signal; the same signal always gives the same event.

    Subscribers run in the main thread, like every signal handler in Python, and may ask for ``signum`` and ``frame``.
    If one answers anything but None, it has handled the signal. Otherwise the earlier handler follows, or the system's
    default action, which for most signals ends the process. If a subscriber raises, the exception goes to the
    interrupted code, and no further subscriber runs.

    Only the main thread can change signal handlers, so add the first subscriber there. If the last one is removed in
    another thread, the handler stays until the next signal, which it passes on.

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

        @wired(f"signal({_name(number)!r})", lambda event: [_SignalSlot(number, event)], first=True)
        def received(signum: int, frame: FrameType | None) -> None:
            """A signal has arrived."""

        found = _events.setdefault(number, received)
    given: SignalEvent = found
    return given


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
class _SignalSlot(Slot):
    """The slot of the handler of a signal: a callable, SIG_DFL, SIG_IGN, or None if C code has set it."""

    __slots__ = ("_number",)

    def __init__(self, number: int, event: Notify) -> None:
        # An occurrence is known by the frame that was interrupted: a signal may arrive again while it is being handled.
        super().__init__(_name(number), event, key=1)
        self._number = number

    def now(self) -> Any:
        return signals.getsignal(self._number)

    def put(self, value: Any) -> None:
        label = f"aspecthook.events:signal({self.name!r})"
        if isinstance(value, Link) and value.before is None:
            raise MountError(
                f"{label} cannot be connected: its handler was not set by Python code, and could not be put back; set "
                f"one with signal.signal before you subscribe"
            )
        try:
            signals.signal(self._number, value)
        except (ValueError, OSError) as error:
            raise MountError(
                f"{label} cannot be connected: {error}; subscribe in the main thread of the program, and to a signal "
                f"that a program may handle"
            ) from error

    def pass_on(self, before: Any, args: tuple[Any, ...]) -> Any:
        if before is signals.SIG_IGN or (before is signals.SIG_DFL and self.name in _IGNORED):
            return None
        if before is not signals.SIG_DFL:
            return before(*args)
        # Let the system do what it does about this signal, which for most signals ends the process.
        now = self.now()
        signals.signal(self._number, signals.SIG_DFL)
        signals.raise_signal(self._number)
        # The process still runs: it has been stopped and continued, for example.
        signals.signal(self._number, now)
        return None
