"""Ctrl-C and SIGTERM while a run is driven from outside: they wait for the end of a step; the user's code does not."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, final

from aspecthook.training.loop._interrupts import Interrupts, Terminated


@final
class Signals:
    """Takes the signals that nobody else does, for as long as a session is open."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.in_step = False
        self._interrupts = interrupts
        self._before: dict[int, Any] = {}
        self._terminated = False

    def take(self) -> None:
        """Begin to take them."""
        self._interrupts.came = None
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            # What the program does with a signal itself is left alone.
            if before in (signal.default_int_handler, signal.SIG_DFL):
                self._before[number] = before
                signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._terminated = self._terminated or number == signal.SIGTERM
        if self.in_step:
            self._interrupts._note(number, frame)
        else:
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated("SIGTERM")

    def leave(self) -> None:
        """Take them no more."""
        while self._before:
            signal.signal(*self._before.popitem())

    def end_process(self, error: BaseException | None) -> None:
        """Let a SIGTERM do what it does, once all is saved and left."""
        if isinstance(error, Terminated) and self._terminated:
            signal.raise_signal(signal.SIGTERM)
