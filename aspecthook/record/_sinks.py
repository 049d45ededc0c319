"""Sinks: where calls go as they end, instead of being kept.

The invariant: a sink that raises gets no more calls, with one warning; the program does not notice.
"""

from __future__ import annotations

from os import PathLike

from aspecthook._errors import HookOptionError, WarningsTo, brief, listener, warn
from aspecthook._hints import Any, Protocol, TypeAlias, final

from ._calls import RecordedCall


class RecordWarning(UserWarning):
    """A sink has failed, and gets no more calls. The program continues.

    Example:
        >>> import shlex, warnings
        >>> from aspecthook.record import record
        >>> class Full:
        ...     def write(self, call):
        ...         raise OSError("no space left")
        ...
        ...     def close(self): ...
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     with record("shlex:quote", to=Full()):
        ...         word = shlex.quote("my file")
        >>> [warning.category.__name__ for warning in caught]
        ['RecordWarning']
    """


RecordWarning.__module__ = "aspecthook.record"  # where users import it, and what filters name


class Sink(Protocol):
    """A destination of recorded calls: an object with these two methods.

    They may be called from several threads at once. If it has a method ``forked()``, that is called in the child of a
    fork. A sink that raises is dropped, with one warning.

    Example:
        >>> import shlex
        >>> from aspecthook.record import record
        >>> class Names:
        ...     def __init__(self):
        ...         self.names = []
        ...
        ...     def write(self, call):
        ...         self.names.append(call.name)
        ...
        ...     def close(self): ...
        >>> names = Names()
        >>> with record("shlex:quote", to=names):
        ...     word = shlex.quote("my file")
        >>> names.names
        ['quote']
    """

    def write(self, call: RecordedCall, /) -> object:
        """Take a call that has ended."""
        ...

    def close(self) -> object:
        """Take no more calls. Before this, calls that have not ended are written."""
        ...


To: TypeAlias = "str | PathLike[str] | Sink | None"


@final
class Outlet:
    """The sink of one recorder, and the calls that have begun and are not written yet.

    Args:
        to: A sink, or the path of a file or a folder for JSON lines; None if the calls are kept.
        started: When the recording began.
        last: As for JSON lines.
    """

    def __init__(self, to: To, started: float, last: int | None = None) -> None:
        self.sink: Any = to
        if isinstance(to, (str, PathLike)):
            from ._json_lines import JsonLines

            self.sink = JsonLines(to, started, last)
        elif last is not None:
            raise HookOptionError(f"last={last} needs a recording on disk; give its path, as in to='calls.jsonl'")
        elif to is not None and not all(callable(getattr(to, name, None)) for name in ("write", "close")):
            raise HookOptionError(f"to={brief(to)}; give a path, or an object with write(call) and close()")
        self._listener = listener()  # of warnings
        self._open: dict[int, RecordedCall] = {}

    def begin(self, call: RecordedCall) -> None:
        """Take note of a call that has begun."""
        if self.sink is not None:
            self._open[call.number] = call

    def write(self, call: RecordedCall) -> None:
        """Pass a call on that has ended."""
        if self.sink is not None:
            self._send("write", call)
            self._open.pop(call.number, None)

    def _send(self, what: str, *given: object) -> None:
        """Call this method of the sink, if it has it."""
        try:
            method = getattr(self.sink, what, None)
            if method is not None:
                method(*given)
        except Exception as error:
            if isinstance(error, RecursionError) and not _has_room(_ROOM):
                raise  # the program's recursion: the recorder tries again when there is room
            sink, self.sink = self.sink, None
            if sink is not None:  # otherwise another thread has dropped it meanwhile
                self.complain(f"the recording of calls has stopped: {type(sink).__name__} raised {error!r:.200}")
                if what != "close":
                    try:
                        sink.close()
                    except Exception:  # that it does not work any more has been said
                        pass

    def close(self) -> None:
        """Write what has not ended, and close the sink."""
        for call in list(self._open.values()):
            self.write(call)
        self._send("close")
        self.sink = None

    def forked(self) -> None:
        """Go on in the child of a fork: what had begun before is for the parent to write."""
        self._open.clear()
        self._send("forked")

    def complain(self, message: str) -> None:
        """Warn; where warnings are errors, which must not reach the program, log."""
        try:
            with WarningsTo(self._listener):
                warn(message, RecordWarning)
        except RecordWarning:
            import logging

            logging.getLogger("aspecthook").warning(message)


# How many frames a sink may need. One that needs more fails by a recursion of its own.
_ROOM = 100


def _has_room(frames: int) -> bool:
    """Whether so many more calls may be made inside this one."""
    try:
        return frames == 0 or _has_room(frames - 1)
    except RecursionError:
        return False
