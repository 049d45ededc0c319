"""The end of the program, and uncaught exceptions, wherever Python reports them."""

from __future__ import annotations

import atexit  # built in: importing it reads no file, and it is there before the lock is taken
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._slots import AttributeSlot, Slot, notify
from ._wired import Plug, wired

if TYPE_CHECKING:
    from types import TracebackType

Origin: TypeAlias = Literal["main", "thread", "unraisable"]


def _slots(event: Any) -> list[Slot]:
    """Return the slots of the three places where Python reports uncaught exceptions."""

    def report(exc: BaseException | None, origin: Origin, source: object) -> Any:
        # `notify`, since a subscriber whose own objects fail as they are freed would be called without end.
        return notify(event, exc, origin, source) if isinstance(exc, BaseException) else None

    def main(_: type[BaseException], exc: BaseException, __: TracebackType | None = None) -> Any:
        return report(exc, "main", None)

    def thread(args: threading.ExceptHookArgs) -> Any:
        # SystemExit ends a thread, and Python does not report it either.
        return None if isinstance(args.exc_value, SystemExit) else report(args.exc_value, "thread", args.thread)

    def unraisable(args: sys.UnraisableHookArgs) -> Any:
        # Since 3.14 Python passes no object for a `__del__`; its message names the function.
        return report(args.exc_value, "unraisable", args.err_msg if args.object is None else args.object)

    return [
        AttributeSlot(sys, "excepthook", main, key=1),
        AttributeSlot(threading, "excepthook", thread, key=0),
        AttributeSlot(sys, "unraisablehook", unraisable, key=0),
    ]


@wired("uncaught_exception", _slots, first=True, errors="isolate")
def uncaught_exception(error: BaseException, origin: Origin, source: object) -> None:
    """An uncaught exception is about to be reported.

    The exception ends the program, or a thread (unless it is a `SystemExit`), or cannot be raised, such as one in
    ``__del__``. If a subscriber answers anything but None, it has handled the exception; otherwise the report follows:
    a traceback on stderr, or that of an earlier hook. The program or the thread ends in any case. If a subscriber
    fails, that is logged, and the next one runs; `SystemExit` and `KeyboardInterrupt` are raised after the report, and
    no further subscriber runs.

    An event loop of asyncio logs exceptions of tasks that nobody awaited: weave its ``call_exception_handler``.

    Args:
        error: The exception.
        origin: ``"main"``, ``"thread"`` or ``"unraisable"``.
        source: The thread; or the object that an unraisable exception came from, or Python's message if there is none
            (since 3.14 for a ``__del__``, which the message names); or None.

    Example:
        >>> import threading
        >>> @uncaught_exception.on
        ... def report(error, origin, source):
        ...     print(f"{origin} {source.name}: {error!r}")
        ...     return "reported"
        >>> worker = threading.Thread(target=lambda: 1 / 0, name="worker")
        >>> worker.start(), worker.join()
        thread worker: ZeroDivisionError('division by zero')
        (None, None)
        >>> hooks(uncaught_exception).remove(report)
    """


# For the end of the program the interpreter keeps a list of callables.

_registered: set[object] = set()


def _register(event: Any) -> None:
    if event not in _registered:
        atexit.register(event)
        _registered.add(event)


def _unregister(event: Any) -> None:
    if event in _registered:
        atexit.unregister(event)
        _registered.discard(event)


@wired("program_exit", lambda event: [Plug(lambda: _register(event), lambda: _unregister(event))], errors="isolate")
def program_exit() -> None:
    """The program ends normally: its main thread has ended, even if by `sys.exit` or an uncaught exception.

    The event runs among the functions of `atexit`, in the place of its first subscriber: functions that were registered
    later run before it. If a subscriber fails, that is logged, and the next one runs; a `SystemExit` ends the event.
    If a signal or `os._exit` ends the process, as with child processes of `multiprocessing`, the event is not called.

    Example:
        >>> @program_exit.on
        ... def say_goodbye():
        ...     print("goodbye")
        >>> program_exit()
        goodbye
        []
        >>> hooks(program_exit).remove(say_goodbye)
    """
