"""Tracebacks of a traced program look as they do without us: the frames of hooks are left out where they are shown.

The exceptions themselves are not touched. Their tracebacks are cleaned where they become text: in
`traceback.TracebackException`, which `logging` uses too, and from Python 3.13 on the interpreter itself. Up to Python
3.12 the exception hooks make their text in C, and are replaced by ones that use `traceback`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import update_wrapper
from types import CodeType, TracebackType

from aspecthook import Args, weave
from aspecthook._errors import is_inner_frame
from aspecthook._hints import Any

# The code of the functions that `before` puts in the place of C functions, which have no frames.
_in_place_of_c: set[CodeType] = set()


def hide_frames() -> object:
    """Leave the frames of hooks out of tracebacks from now on. Return what must be kept for as long."""
    if sys.version_info < (3, 13):
        sys.excepthook, threading.excepthook = _excepthook, _in_thread
    return weave("traceback:TracebackException.__init__", pre=_clean)  # as soon as the program needs it


def before(name: str, act: Callable[[], object]) -> None:
    """Call something before a C function of `os`.

    This is no weaving: to hook a C function takes wrapt, which imports asyncio, for longer than all that we import.
    """
    function = getattr(os, name)

    def acting(*args: Any, **kwargs: Any) -> Any:
        act()
        return function(*args, **kwargs)

    _in_place_of_c.add(acting.__code__)
    setattr(os, name, update_wrapper(acting, function))


def _clean(exc_traceback: TracebackType | None) -> Args:
    return Args(exc_traceback=_cleaned(exc_traceback))


def _cleaned(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without our frames; the last one stays, as the exception was raised there."""
    kept: list[TracebackType] = []
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code not in _in_place_of_c and (trace.tb_next is None or not is_inner_frame(frame)):
            kept.append(trace)
        trace = trace.tb_next
    for one in reversed(kept):
        trace = TracebackType(trace, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return trace


def _excepthook(kind: type[BaseException], exc: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        # What `traceback` loads evaluates text, after which Python forgets that the signal has to end the process.
        trace = _cleaned(trace)
        sys.__excepthook__(kind, exc.with_traceback(trace), trace)
        return
    import traceback

    if sys.stderr is not None:  # a program may have closed it
        traceback.print_exception(kind, exc, trace)


def _in_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_type is not SystemExit and arguments.exc_value is not None and sys.stderr is not None:
        name = arguments.thread.name if arguments.thread is not None else threading.get_ident()
        print(f"Exception in thread {name}:", file=sys.stderr)
        _excepthook(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
