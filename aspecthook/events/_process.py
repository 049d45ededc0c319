"""The end of the program, and garbage collection: two lists that the interpreter keeps of callables."""

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

from ._wiring import wired


@final
class _AtExit:
    """The plug of `program_exit`."""

    __slots__ = ("_connected", "_event")

    def __init__(self, event: FunctionType) -> None:
        self._event = event
        self._connected = False

    def prepare(self) -> None:
        """Need nothing."""

    def connect(self) -> None:
        """Register what calls the event."""
        if not self._connected:
            atexit.register(self._told)
            self._connected = True

    def disconnect(self) -> None:
        """Unregister it."""
        if self._connected:
            atexit.unregister(self._told)
            self._connected = False

    def _told(self) -> None:
        """Call the event, and each of its subscribers as if in a `finally` block of its own, as `atexit` itself does.

        Law 1 lets what is no `Exception` end a call at once; here nobody would be told after that.
        """
        mount = mount_of(self._event)
        if mount is None:
            return
        chain = mount._active()
        others = Chain(tuple([hook for hook in chain.everything() if hook.kind != "on"]))
        call = Call(mount._get_site(), ())
        run(others, call, lambda: finish(chain.on, call))

    @property
    def displaced(self) -> bool:
        """Whether it is another's: nobody can put anything over it."""
        return False


@wired(_AtExit, errors="isolate")
def program_exit() -> None:
    """The program ends in order: its main thread is done, or `sys.exit` was called, or an exception not caught.

    Told among the functions of `atexit`, where its first subscriber has its place: what was registered there later
    comes first. All subscribers run: the failure of one is logged, and a `SystemExit` or `KeyboardInterrupt` waits
    until the others have run. Nobody is told when the process dies by a signal or by `os._exit`, as child processes of
    `multiprocessing` do.

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
class _Collector:
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
            # It is no time for it, as for `tell`; which sets context variables, and they may be being set right now.
            if ending() or changing():
                return
            try:
                event(phase, info)
            except ExceptionGroup as group:
                # Python's report of what is unraisable does not look into groups.
                raise group.exceptions[0] if len(group.exceptions) == 1 else group from None

        self._callback = collector
        self._connected = False

    def prepare(self) -> None:
        """Need nothing."""

    def connect(self) -> None:
        """Be among the callbacks."""
        if not self._is_there():
            gc.callbacks.append(self._callback)
        self._connected = True

    def disconnect(self) -> None:
        """Be there no more."""
        self._connected = False
        if self._is_there():
            gc.callbacks.remove(self._callback)

    def _is_there(self) -> bool:
        return any(one is self._callback for one in gc.callbacks)

    @property
    def displaced(self) -> bool:
        """Whether somebody has thrown it out."""
        return self._connected and not self._is_there()


@wired(_Collector, errors="group")
def garbage_collecting(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    """A garbage collection begins or ends, in the thread that runs into it, between any two steps of a program.

    What subscribers raise is reported as unraisable. They do best to count and measure only, as it may have interrupted
    anything. Nobody is told of a collection in the middle of a change of hooks.

    Args:
        phase: ``"start"`` or ``"stop"``.
        info: ``generation``; at the stop also ``collected`` and ``uncollectable``, numbers of objects.

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
