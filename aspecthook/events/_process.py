"""The end of the program, for which the interpreter keeps a list of callables."""

from __future__ import annotations

import atexit  # built in: importing it reads no file, and it is there before the lock is taken
from types import FunctionType
from typing import final

from ._wired import Plug, wired


@final
class _AtExit(Plug):
    """The plug of `program_exit`."""

    __slots__ = ("_connected", "_event")

    def __init__(self, event: FunctionType) -> None:
        self._event = event
        self._connected = False

    def connect(self) -> None:
        """Register the event."""
        if not self._connected:
            atexit.register(self._event)
            self._connected = True

    def disconnect(self) -> None:
        """Unregister the event."""
        if self._connected:
            atexit.unregister(self._event)
            self._connected = False


@wired("program_exit", lambda event: [_AtExit(event)], errors="isolate")
def program_exit() -> None:
    """The program ends normally: its main thread is done, or `sys.exit` was called, or an exception was not caught.

    Called among the functions of `atexit`, in the place of the first subscriber: functions that were registered later
    run before it. The failure of a subscriber is logged, and the next one runs; a `SystemExit` ends the event. Nobody
    is notified when the process ends by a signal or by `os._exit`, as child processes of `multiprocessing` do.

    Example:
        >>> @program_exit.on
        ... def say_goodbye():
        ...     print("goodbye")
        >>> program_exit()
        goodbye
        []
        >>> hooks(program_exit).remove(say_goodbye)
    """
