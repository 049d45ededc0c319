"""Ctrl-C and SIGTERM during a run: the iteration under way ends first, so that what is saved can be resumed from."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, final


class Terminated(BaseException):
    """The run was asked to end, by SIGTERM."""


@final
class Interrupts:
    """Notes signals while a run is under way. The second one of a kind rises at once."""

    kinds: tuple[type[BaseException], ...] = (KeyboardInterrupt, Terminated)

    def __init__(self) -> None:
        self.came: BaseException | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        self.came = None
        self._before = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                # What the program does with a signal itself is left alone.
                if before in (signal.default_int_handler, signal.SIG_DFL):
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def _note(self, number: int, _: FrameType | None) -> None:
        error: BaseException = KeyboardInterrupt() if number == signal.SIGINT else Terminated("SIGTERM")
        if self.came is not None:
            raise error
        self.came = error

    def rise(self) -> None:
        """Raise what has come meanwhile."""
        if self.came is not None:
            raise self.came

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if isinstance(error, Terminated):
            signal.raise_signal(signal.SIGTERM)
