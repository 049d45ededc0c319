"""Exceptions that nobody has caught, wherever Python reports them."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aspecthook._core.law.answers import Return

from ._pre_inside import Inside
from ._quiet import tell
from ._slots import Attribute
from ._wiring import Plug, Several, wired

if TYPE_CHECKING:
    from types import TracebackType

Origin: TypeAlias = Literal["main", "thread", "asyncio", "unraisable"]


def _plug(event: Any) -> Plug:
    """Connect the event to the four places where exceptions end that nobody has caught."""

    def told(exc: BaseException | None, origin: Origin, source: object) -> Any:
        # A subscriber whose own objects fail as they are freed is not told of that: it would never end.
        return tell(event, event, exc, origin, source) if isinstance(exc, BaseException) else None

    def main(_: type[BaseException], exc: BaseException, __: TracebackType | None = None) -> Any:
        return told(exc, "main", None)

    def thread(args: threading.ExceptHookArgs) -> Any:
        # SystemExit ends a thread, and Python does not report it either.
        return None if isinstance(args.exc_value, SystemExit) else told(args.exc_value, "thread", args.thread)

    def unraisable(args: sys.UnraisableHookArgs) -> Any:
        # Since 3.14 Python gives no object for a `__del__`; its message names the function.
        return told(args.exc_value, "unraisable", args.err_msg if args.object is None else args.object)

    def loop(context: dict[str, Any]) -> Return[None] | None:
        # Event loops also report what is no exception, such as a task that was destroyed.
        return None if told(context.get("exception"), "asyncio", context) is None else Return(None)

    return Several(
        Attribute(sys, "excepthook", main, key=1),
        Attribute(threading, "excepthook", thread, key=0),
        Attribute(sys, "unraisablehook", unraisable, key=0),
        Inside("asyncio.base_events:BaseEventLoop.call_exception_handler", loop),
    )


@wired(_plug, first=True, errors="isolate")
def uncaught_exception(error: BaseException, origin: Origin, source: object) -> None:
    """An exception that nobody has caught is about to be reported.

    Told where Python itself would report it: the main thread's, as the program ends of it; a thread's, but for
    `SystemExit`; one that an asyncio task or callback has left behind; and the unraisable, such as one raised by
    ``__del__``. The report (a traceback on stderr, a line in asyncio's log, or what another hook makes of it) follows,
    unless a subscriber answers something that is not None: handled. That hides the report; the program or the thread
    ends all the same. A subscriber that fails is logged, and passed over; one that raises `SystemExit` or the like ends
    the telling, and the report follows before that goes on.

    Args:
        error: The exception.
        origin: ``"main"``, ``"thread"``, ``"asyncio"`` or ``"unraisable"``.
        source: The thread; the context dict of asyncio's exception handlers; the object that an unraisable exception
            came from, or Python's message where it gives none (since 3.14 for a ``__del__``, which the message names);
            or None.

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
