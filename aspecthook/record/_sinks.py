"""Sinks: where calls go as they end, instead of being kept."""

from __future__ import annotations

from os import PathLike

from aspecthook._errors import HookOptionError, brief
from aspecthook._hints import Any, Protocol, TypeAlias

from ._calls import RecordedCall


class RecordWarning(UserWarning):
    """A sink has failed, and gets no more calls. The program continues.

    Example:
        >>> import shlex, types, warnings
        >>> from aspecthook.record import record
        >>> full = types.SimpleNamespace(write=lambda call: 1 / 0, close=lambda: None)
        >>> with warnings.catch_warnings(record=True, action="always") as caught:
        ...     with record("shlex:quote", to=full):
        ...         word = shlex.quote("my file")
        >>> [warning.category.__name__ for warning in caught]
        ['RecordWarning']
    """


RecordWarning.__module__ = "aspecthook.record"  # where users import it, and what filters name


class Sink(Protocol):
    """A destination of recorded calls: an object with these two methods.

    They may be called from several threads at once. If the object has a method ``forked()`` too, that is called in the
    child of a fork. A sink that raises gets no more calls, and there is one warning.

    Example:
        >>> import shlex
        >>> from aspecthook.record import record
        >>> class Names(list):
        ...     def write(self, call):
        ...         self.append(call.name)
        ...
        ...     def close(self): ...
        >>> with record("shlex:quote", to=(names := Names())):
        ...     word = shlex.quote("my file")
        >>> names
        ['quote']
    """

    def write(self, call: RecordedCall, /) -> object:
        """Take a call that has ended."""
        ...

    def close(self) -> object:
        """Take no more calls. Those that have not ended are written before."""
        ...


To: TypeAlias = "str | PathLike[str] | Sink | None"


def sink_of(to: To, started: float) -> Any:
    """Return a sink, that of a path being JSON lines; None if calls are kept instead."""
    if isinstance(to, (str, PathLike)):
        from ._json_lines import JsonLines

        return JsonLines(to, started)
    if to is not None and not all(callable(getattr(to, name, None)) for name in ("write", "close")):
        raise HookOptionError(f"to={brief(to)}; give a path, or an object with write(call) and close()")
    return to
