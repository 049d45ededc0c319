"""Tracebacks of a traced program look as they do without us: the frames of hooks are left out where they are shown.

The exceptions themselves are not touched as they are raised. They are cleaned where a traceback becomes text: in
`traceback.TracebackException`, which `logging` uses too, and up to Python 3.12 in the exception hooks, whose text is
made in C.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from aspecthook import Args, weave
from aspecthook._errors import is_inner_frame
from aspecthook._hints import Any, cast


def hide_frames() -> object:
    """Leave the frames of hooks out of tracebacks from now on. Return what must be kept for as long."""
    if sys.version_info < (3, 13):
        _clean_in_hooks()
    return weave("traceback:TracebackException.__init__", pre=_clean_shown)  # as soon as the program needs it


def _clean_shown(exc_traceback: TracebackType | None) -> Args:
    return Args(exc_traceback=_cleaned(exc_traceback))


def _cleaned(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without our frames; the last one stays, as the exception was raised there."""
    kept: list[TracebackType] = []
    while trace is not None:
        if trace.tb_next is None or not is_inner_frame(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    for one, after in zip(kept, [*kept[1:], None], strict=False):
        if one.tb_next is not after:
            one.tb_next = after
    return kept[0] if kept else None


def _clean_in_hooks() -> None:
    of_process, of_thread = sys.excepthook, threading.excepthook

    def excepthook(kind: type[BaseException], exc: BaseException, trace: TracebackType | None) -> None:
        _clean_chain(exc)
        of_process(kind, exc, _cleaned(trace))

    def in_thread(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            _clean_chain(arguments.exc_value)
        of_thread(arguments)

    sys.excepthook, threading.excepthook = excepthook, in_thread


def _clean_chain(exc: BaseException) -> None:
    """Clean the tracebacks of an exception and of those that it came from."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [exc]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _cleaned(one.__traceback__)
            group = cast("Any", one).exceptions if isinstance(one, BaseExceptionGroup) else ()
            waiting += [one.__cause__, one.__context__, *group]
