"""Streams as the oracle drives them: resumed, closed, dropped, or a coroutine run to its end without a loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from aspecthook.testing._streams import CLOSE, THROW, Resumption, is_astream, is_stream

DROP, CANCEL = "drop", "cancel"


def is_iterator(made: object) -> bool:
    """Whether this is an iterator of any other sort."""
    known = is_stream(made) or is_astream(made)
    return not known and (hasattr(type(made), "__next__") or hasattr(type(made), "__aiter__"))


def is_own(event: object) -> bool:
    """Whether this was asked of the stream itself."""
    return isinstance(event, Resumption) and event.source is None


def resume(stream: Any, how: str, value: Any) -> Any:
    """Resume a stream, and return its next item, or an awaitable of it."""
    a = "a" if is_astream(stream) else ""
    if how in (CLOSE, DROP):
        return getattr(stream, f"{a}close")()
    return getattr(stream, f"{a}throw" if how == THROW else f"{a}send")(value)


# Any: a coroutine of anything.
def finish(running: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end without an event loop."""
    try:
        while True:
            running.send(None)
    except StopIteration as stop:
        return stop.value
