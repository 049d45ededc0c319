"""Uncaught exceptions, wherever Python reports them."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._slots import AttributeSlot
from ._wired import Plug, notify, wired

if TYPE_CHECKING:
    from types import TracebackType

Origin: TypeAlias = Literal["main", "thread", "unraisable"]


def _plugs(event: Any) -> list[Plug]:
    """Return the plugs for the three places where Python reports uncaught exceptions."""

    def report(exc: BaseException | None, origin: Origin, source: object) -> Any:
        # `notify`, since a subscriber whose own objects fail as they are freed would be called without end.
        return notify(event, event, exc, origin, source) if isinstance(exc, BaseException) else None

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


@wired("uncaught_exception", _plugs, first=True, errors="isolate")
def uncaught_exception(error: BaseException, origin: Origin, source: object) -> None:
    """An uncaught exception is about to be reported.

    Called where the interpreter reports it: one that ends the program; one that ends a thread, except `SystemExit`; and
    an unraisable one, such as one raised by ``__del__``. The report follows (a traceback on stderr, or what another
    hook makes of it), unless a subscriber answers anything but None, which means that it has handled the exception. The
    program or the thread ends all the same. The failure of a subscriber is logged, and the next one runs; `SystemExit`
    or the like is raised after the report, and no further subscriber runs.

    An event loop of asyncio logs what a task raised and nobody awaited: weave its ``call_exception_handler``.

    Args:
        error: The exception.
        origin: ``"main"``, ``"thread"`` or ``"unraisable"``.
        source: The thread; the object that an unraisable exception came from, or Python's message where it has none
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
