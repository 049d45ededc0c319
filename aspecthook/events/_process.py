"""The end of the program and garbage collection: for both, the interpreter keeps a list of callables."""

from __future__ import annotations

import atexit  # built in, as `gc` is: importing them reads no file, and they are there before the lock is taken
import gc
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Literal, final

from aspecthook._core.law.call import Call
from aspecthook._core.law.law_sync import finish, run
from aspecthook._core.law.order import Chain
from aspecthook._core.mount.lock import is_changing
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


@final
class _Collector(Plug):
    """The plug of `garbage_collecting`."""

    __slots__ = ("_callback", "_connected")

    # Any: the event, whose subscribers answer what they like.
    def __init__(self, event: Callable[..., Any]) -> None:
        def collector(
            phase: str,
            info: dict[str, int],
            ending: Callable[[], bool] = sys.is_finalizing,
            changing: Callable[[], bool] = is_changing,
        ) -> None:
            # As in `notify`, which cannot be used: it sets context variables, and the collection may have interrupted
            # code that is setting one.
            if ending() or changing():
                return
            try:
                event(phase, info)
            except ExceptionGroup as group:
                # Python's report of an unraisable exception does not show what is in a group.
                raise group.exceptions[0] if len(group.exceptions) == 1 else group from None

        self._callback = collector
        self._connected = False

    def connect(self) -> None:
        """Add the callback."""
        if not self._is_registered():
            gc.callbacks.append(self._callback)
        self._connected = True

    def disconnect(self) -> None:
        """Remove the callback."""
        self._connected = False
        if self._is_registered():
            gc.callbacks.remove(self._callback)

    def _is_registered(self) -> bool:
        return any(one is self._callback for one in gc.callbacks)

    @property
    def displaced(self) -> bool:
        """Whether somebody else has removed the callback."""
        return self._connected and not self._is_registered()


@wired(_Collector, errors="group")
def garbage_collecting(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    """A garbage collection begins or ends, in the thread that has triggered it, at any point of a program.

    What subscribers raise is reported as unraisable. They should only count and measure, as the collection may have
    interrupted anything. Nobody is notified of a collection in the middle of a change of hooks.

    Args:
        phase: ``"start"`` or ``"stop"``.
        info: ``generation``; at the stop also ``collected`` and ``uncollectable``, counts of objects.

    Example:
        >>> import gc
        >>> generations = []
        >>> @garbage_collecting.on(when=lambda phase: phase == "stop")
        ... def count(info):
        ...     generations.append(info["generation"])
        >>> gc.collect() >= 0, generations[-1]
        (True, 2)
        >>> hooks(garbage_collecting).remove(count)
    """
