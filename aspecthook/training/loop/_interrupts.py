"""Ctrl-C and SIGTERM during a run: the current iteration ends first, so that the run can be resumed."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, final


class Terminated(BaseException):
    """SIGTERM has ended the run."""


INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, Terminated)


@final
class Interrupts:
    """Signal handlers for SIGINT and SIGTERM; they note a signal until the iteration ends.

    A second signal raises at once. Between two steps of a session, when the user's own code runs, the first one does.
    """

    def __init__(self) -> None:
        # The signal that was noted first, and the one for which all ranks have agreed to end. A signal that comes to a
        # rank after they have agreed to go on waits for the next time: the others would wait for that rank forever.
        self.noted: BaseException | None = None
        self.came: BaseException | None = None
        self.at_once: bool = False  # whether the first signal raises
        self._signals: list[int] = []
        self._replaced: dict[int, Any] = {}  # the handlers that were there before, by signal

    def take(self) -> None:
        """Install the handlers, except where the program has a handler of its own."""
        self.noted, self.came, self.at_once, self._signals = None, None, False, []
        if threading.current_thread() is not threading.main_thread():  # Python sets handlers only in the main thread
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if handler in (signal.default_int_handler, signal.SIG_DFL):
                self._replaced[number] = handler
                signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._signals.append(number)
        error = KeyboardInterrupt() if number == signal.SIGINT else Terminated("SIGTERM")
        if self.at_once or len(self._signals) > 1:
            raise error
        self.noted = self.noted or error

    @property
    def first(self) -> BaseException | None:
        """The interrupt that ends the run, agreed or not; None if there is none."""
        return self.came or self.noted

    def release(self) -> None:
        """Restore the handlers that were there before."""
        while self._replaced:
            signal.signal(*self._replaced.popitem())

    def end_process(self, error: BaseException) -> None:
        """Send a SIGTERM again, to the handler that was there before, which ends the process: all is saved by now."""
        if signal.SIGTERM in self._signals and isinstance(error, Terminated):
            signal.raise_signal(signal.SIGTERM)
