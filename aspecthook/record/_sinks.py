"""Sinks: where calls go as they begin, run and end, instead of being kept.

The invariant: a sink that raises gets no more calls, with one warning; neither the program nor another sink notices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aspecthook._errors import WarningsTo, listener, warn
from aspecthook._hints import Any, Protocol, final

from ._calls import RecordedCall


class RecordWarning(UserWarning):
    """A sink has failed, and gets no more calls. The program was not disturbed.

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
    """Where recorded calls go: an object with these two methods, and optionally some more.

    ``begin(call)`` takes a call that begins. ``enter(call)`` and ``leave(call)``, both or none, are called in the
    thread and the context of a call when it begins to run and when it ceases to: once for a function, at each turn for
    a coroutine or a generator. ``forked()`` is called in the child of a fork.

    They may be called from several threads at once. A sink that raises is dropped, with one warning.

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
        """Take no more calls. Those that have not ended are written before."""
        ...


@final
class Sinks:
    """The sinks of one recorder."""

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self.all = [*sinks]
        # Those with `enter` and `leave`; what they have entered they have to leave, even when they are closed.
        self.entering: list[Any] = [sink for sink in self.all if hasattr(sink, "enter")]
        self._listener = listener()  # of warnings
        # The calls that have begun, and have not ended.
        self._open: dict[int, RecordedCall] = {}

    def begin(self, call: RecordedCall) -> None:
        """Pass a call on that begins."""
        if self.all:
            self.send("begin", call)
            self._open[call.number] = call

    def write(self, call: RecordedCall) -> None:
        """Pass a call on that has ended."""
        if self.all:
            self.send("write", call)
            self._open.pop(call.number, None)

    def send(self, what: str, *call: RecordedCall) -> None:
        """Call this method of the sinks that have it."""
        # A copy: one that fails is dropped from the list.
        for sink in (self.entering if what in ("enter", "leave") else self.all).copy():
            method = getattr(sink, what, None)
            if method is not None:
                try:
                    method(*call)
                except Exception as error:
                    if isinstance(error, RecursionError) and not _has_room(_ROOM):
                        raise  # the program's recursion: the recorder tries again when there is room
                    self._drop(sink, error)

    def _drop(self, sink: Sink, error: Exception) -> None:
        if sink in self.all:
            self.all.remove(sink)
            self.complain(f"the recording of calls has stopped: {type(sink).__name__} raised {error!r:.200}")
            try:
                sink.close()
            except Exception:  # that it does not work any more has been said
                pass

    def close(self, left_out: Mapping[str, int]) -> None:
        """Write what has not ended, and how many calls were left out, and close the sinks."""
        for call in list(self._open.values()):
            self.write(call)
        sinks, self.all = self.all, []
        for sink in sinks:
            try:
                leave_out = getattr(sink, "leave_out", None)
                for why, number in left_out.items():
                    if leave_out is not None:
                        leave_out(number, why)
                sink.close()
            except Exception as error:
                name = type(sink).__name__
                self.complain(f"the recording of calls could not be finished: {name} raised {error!r:.200}")

    def forked(self) -> None:
        """Go on in the child of a fork: what had begun before is for the parent to write."""
        self._open.clear()
        self.send("forked")

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
