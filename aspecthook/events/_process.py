"""The end of the program, for which the interpreter keeps a list of callables."""

from __future__ import annotations

import atexit  # built in: importing it reads no file, and it is there before the lock is taken
from types import FunctionType
from typing import final

from aspecthook._core.law.call import Call
from aspecthook._core.law.law_sync import finish, run
from aspecthook._core.law.order import Chain
from aspecthook._core.mount.point import mount_of

from ._wiring import Plug, wired


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
            atexit.register(self._notify)
            self._connected = True

    def disconnect(self) -> None:
        """Unregister the event."""
        if self._connected:
            atexit.unregister(self._notify)
            self._connected = False

    def _notify(self) -> None:
        """Call the event, with each subscriber as if in a `finally` block of its own, as `atexit` itself does.

        By law 1 a `SystemExit` ends a call at once. Here that would leave the other subscribers out.
        """
        mount = mount_of(self._event)
        if mount is None:
            return
        chain = mount.chain()
        others = Chain(tuple([hook for hook in chain.everything() if hook.kind != "on"]))
        call = Call(mount.site(), ())
        run(others, call, lambda: finish(chain.on, call))


@wired(_AtExit, errors="isolate")
def program_exit() -> None:
    """The program ends normally: its main thread is done, or `sys.exit` was called, or an exception was not caught.

    Called among the functions of `atexit`, in the place of the first subscriber: functions that were registered later
    run before it. All subscribers run: the failure of one is logged, and a `SystemExit` or `KeyboardInterrupt` is
    raised when the others have run. Nobody is notified when the process ends by a signal or by `os._exit`, as child
    processes of `multiprocessing` do.

    Example:
        >>> @program_exit.on
        ... def say_goodbye():
        ...     print("goodbye")
        >>> program_exit()
        goodbye
        []
        >>> hooks(program_exit).remove(say_goodbye)
    """
