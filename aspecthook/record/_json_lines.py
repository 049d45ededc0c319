"""JSON lines: calls in a file, one a line, as they end.

The invariant: each line is written by one system call, at the end of the file. So a process that is killed leaves a
file that can be read, threads do not mix their lines, and no lock is held when the process forks. And nothing is
written to a file of the program: a daemon closes descriptors by their numbers, ours among them, and what it opens next
gets the same numbers.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from os import PathLike

from aspecthook._hints import Any, final

from ._calls import Function, RecordedCall

VERSION = 1

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


@final
class JsonLines:
    """A sink that writes JSON lines.

    Args:
        path: The file. A child of a fork writes to a file of its own beside it, which has the number of the process.
        started: What the times of calls are counted from, in seconds since 1970.
        last: If given, so many calls are written, those that ended last, when the file is closed.
    """

    def __init__(self, path: str | PathLike[str], started: float, last: int | None = None) -> None:
        # `os.path`, and not `pathlib`, which a traced program would load as it starts.
        self._first = os.path.join(os.getcwd(), os.fspath(path))
        self._started = started
        self._last: deque[str] | None = None if last is None else deque(maxlen=last)
        self._file: _File | None = None
        self._open(self._first, None)

    def _open(self, path: str, parent: int | None) -> None:
        self.path = path
        self._file = _File(path, os.O_CREAT | os.O_TRUNC)
        self._functions: dict[Function, int] = {}
        self._numbers = count()
        self._write(line_of(_header(os.getpid(), parent, self._started)))

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        file = self._file
        if file is not None and not file.is_ours():
            file.number = -1  # which is nobody's: the file that is opened now may get the number again
            file = self._file = _File(self.path, 0)  # with what was written before; if it is gone, this raises
        while file is not None and data:  # a full disk raises at the next attempt
            data = data[os.write(file.number, data) :]

    def write(self, call: RecordedCall) -> None:
        """Write one call."""
        number = self._functions.get(call.function)
        head = ""
        if number is None:
            number = next(self._numbers)
            head = line_of(function_entry(call.function, number))
        line = line_of(call_entry(call, number))
        if self._last is None:
            self._write(head + line)
        else:
            self._last.append(line)
            self._write(head)
        self._functions[call.function] = number  # after its line: two threads may write one each, but none too late

    def forked(self) -> None:
        """Go on in a file of its own, in the child of a fork."""
        if self._file is not None:
            if self._last is not None:
                self._last.clear()  # they are for the parent to write
            stem, suffix = os.path.splitext(self._first)
            self._open(f"{stem}.{os.getpid()}{suffix}", os.getppid())

    def close(self) -> None:
        """Close the file."""
        self._write("".join(self._last or ()))
        self._file = None


# Programs that close a range of descriptors, such as `os.closerange(3, 256)`, seldom reach so far.
_HIGH = 512


@final
class _File:
    """A file that is open for appending, closed when no thread writes to it any more.

    It knows which file its number was for: the program may have closed it, and opened another one that got the number.
    """

    __slots__ = ("_which", "number")

    def __init__(self, path: str, flags: int) -> None:
        number = os.open(path, os.O_WRONLY | os.O_APPEND | flags | getattr(os, "O_BINARY", 0), 0o600)
        self.number = _moved_up(number)
        which = os.fstat(self.number)
        self._which = which.st_dev, which.st_ino

    # The functions are defaults, since a file may be closed as the interpreter ends, when modules are empty.
    def is_ours(self, fstat: Callable[[int], os.stat_result] = os.fstat) -> bool:
        """Whether its number is still that of its file."""
        try:
            now = fstat(self.number)
        except OSError:  # it is closed
            return False
        return self._which == (now.st_dev, now.st_ino)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if hasattr(self, "_which") and self.is_ours():  # otherwise it could not be opened, or is another file by now
            close(self.number)


def _moved_up(number: int) -> int:
    """Return a high descriptor of the same file, if the process may have one; the low one is closed then."""
    try:
        import fcntl
    except ImportError:  # on Windows
        return number
    try:
        high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except OSError:  # the process may open fewer files
        return number
    os.close(number)
    return high


def _header(process: int, parent: int | None, started: float) -> dict[str, Any]:
    return {
        "aspecthook": "calls",
        "version": VERSION,
        "process": process,
        "parent": parent,
        "command": [sys.executable, *sys.orig_argv[1:]],
        "started": started,
    }


def function_entry(function: Function, number: int) -> dict[str, Any]:
    """Return the entry of a function."""
    return {"function": number, "name": function.label, "file": function.file, "line": function.line}


def call_entry(call: RecordedCall, number: int) -> dict[str, Any]:
    """Return the entry of a call, of the function with this number."""
    parent: int | list[int] | None = None
    if call.parent is not None:
        parent = call.parent.number
        if call.parent.process != call.process:
            parent = [call.parent.process, parent]
    entry: dict[str, Any] = {
        "call": call.number,
        "parent": parent,
        "of": number,
        "begin": _nanoseconds(call.begin),
        "duration": None if call.duration is None else _length(call.begin, call.duration),
        "own": _nanoseconds(call.own),
    }
    if call.recursive:
        entry["recursive"] = True
    arguments = call.shown_arguments()
    if arguments:
        entry["arguments"] = arguments
    error = call.shown_error()
    if error is not None:
        entry["error"] = {"type": error[0], "message": error[1]}
    elif call.ended and call.has_values:
        entry["result"] = call.shown_result()
    entry["thread"] = call.thread
    if call.task is not None:
        entry["task"] = call.task
    if call.turns:
        entry["turns"] = [[_nanoseconds(begin), _length(begin, length)] for begin, length in call.turns]
    return entry


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _length(begin: float, length: float) -> int:
    """Return a length so that what is inside something else does not end after it by having been rounded."""
    return _nanoseconds(begin + length) - _nanoseconds(begin)


def line_of(entry: dict[str, Any]) -> str:
    """Return an entry as a line."""
    return _encode(entry) + "\n"


def entries(
    calls: Iterable[RecordedCall], started: float, headers: Mapping[int, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the entries of the lines: for each process a header and its calls."""
    by_process: dict[int, list[RecordedCall]] = {}
    for call in calls:
        by_process.setdefault(call.process, []).append(call)
    for process, own in (by_process or {os.getpid(): []}).items():
        yield headers.get(process, _header(process, None, started)) | {"started": started}
        numbers: dict[Function, int] = {}
        for call in own:
            if call.function not in numbers:
                numbers[call.function] = len(numbers)
                yield function_entry(call.function, numbers[call.function])
            yield call_entry(call, numbers[call.function])
