"""JSON lines: calls in a file, one a line, as they end.

The invariant: lines are written by one system call for a block of them, at the end of the file. So a process that is
killed leaves a file that can be read, threads do not mix their lines, and no lock that is waited for is held when the
process forks. And nothing is written to a file of the program: a daemon closes descriptors by their numbers, ours among
them, and what it opens next gets the same numbers.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from json.encoder import encode_basestring as quoted
from math import inf
from os import PathLike
from threading import Lock

from aspecthook._hints import Any

from ._calls import Function, RecordedCall
from ._functions import Total

VERSION = 1

# A line waits at most for so many others, or until the next call that ends so much later, or until the outermost call
# of the process ends. A system call for each line took a quarter of the time of a trace.
_MOST_WAITING = 500
_SECONDS = 0.01

_ENCODING = ("utf-8", "backslashreplace")


class JsonLines:
    """A sink that writes JSON lines.

    Args:
        path: The file. A child of a fork writes to a file of its own beside it, which has the number of the process.
        started: What the times of calls are counted from, in seconds since 1970.
        last: If given, so many calls are written, those that ended last, when the file is closed.
        whole: How many calls are written whole, about; the recorder counts those that follow, and `summary` adds them.
    """

    def __init__(self, path: str | PathLike[str], started: float, last: int | None = None, whole: float = inf) -> None:
        # `os.path`, and not `pathlib`, which a traced program would load as it starts.
        self._first = os.path.join(os.getcwd(), os.fspath(path))
        self._started = started
        self._last = last
        self.whole = whole
        self._begin(self._first, None)

    def _begin(self, path: str, parent: int | None) -> None:
        self.path = path
        self._is_closed = False
        self._open(os.O_CREAT | os.O_TRUNC)
        self._functions: dict[Function, int] = {}
        self._numbers = count()
        # The lines that wait, and the block of them that is being written.
        self._lines: deque[str] = deque(maxlen=self._last)
        self._block = _line(_header(os.getpid(), parent, self._started)).encode(*_ENCODING)
        self._writing = Lock()
        self._due = 0.0
        self._write()

    def _open(self, flags: int) -> None:
        number = os.open(self.path, os.O_WRONLY | os.O_APPEND | flags | getattr(os, "O_BINARY", 0), 0o600)
        self.number = _moved_up(number)
        self._which = _which(self.number)

    def write(self, call: RecordedCall) -> None:
        """Write one call, now or with later ones."""
        self._lines.append(_call_line(call, self._number(call.function)))
        end, around = call._end or call.begin, call.parent
        outermost = around is None or around.process != call.process
        if outermost or end >= self._due or len(self._lines) > _MOST_WAITING:
            self._due = end + _SECONDS
            try:
                self.flush()
            except RecursionError:  # there is no room here, and the line waits; a second attempt would write it twice
                pass

    def count(self, totals: Mapping[Function, Total]) -> None:
        """Write what has been counted."""
        for function, total in totals.items():
            self._lines.append(_line({"counted": self._number(function), **total.entry()}))
        self.flush()

    def _number(self, function: Function) -> int:
        number = self._functions.get(function)
        if number is None:
            number = next(self._numbers)
            if self._last is None:  # otherwise the functions are written when the file is closed
                self._lines.append(_function_line(function, number))
            self._functions[function] = number  # after its line: two threads may write one each, but none too late
        return number

    def flush(self, wait: float = -1) -> None:
        """Write the lines that wait, unless another thread does, or what is interrupted in this thread."""
        if self._is_closed or (self._last is not None and wait < 0):  # the last calls are known at the end
            return
        while (self._lines or self._block) and self._writing.acquire(wait > 0, wait):
            try:
                # Once a line is taken, no call of ours comes in between, for which there may be no room.
                self._block += "".join([self._lines.popleft() for _ in range(len(self._lines))]).encode(*_ENCODING)
                self._write()
            finally:
                self._writing.release()

    def _write(self) -> None:
        if _which(self.number) != self._which:
            self._open(0)  # with what was written before; if it is gone, this raises
        while self._block:  # a full disk raises at the next attempt
            self._block = self._block[os.write(self.number, self._block) :]

    def forked(self) -> None:
        """Go on in a file of its own, in the child of a fork; the lines that wait are for the parent to write."""
        if not self._is_closed:
            if _which(self.number) == self._which:
                os.close(self.number)
            stem, suffix = os.path.splitext(self._first)
            self._begin(f"{stem}.{os.getpid()}{suffix}", os.getppid())

    def close(self) -> None:
        """Close the file."""
        if self._last is not None:
            self._block += "".join([_function_line(*row) for row in self._functions.copy().items()]).encode(*_ENCODING)
        self.flush(wait=1)
        self._is_closed = True
        # It stays open where a thread writes to it right now: what the program opens may get its number.
        if self._writing.acquire(blocking=False) and _which(self.number) == self._which:
            os.close(self.number)


# Programs that close a range of descriptors, such as `os.closerange(3, 256)`, seldom reach so far.
_HIGH = 512


def _which(number: int) -> tuple[int, int] | None:
    """Return which file a descriptor is for: the program may have closed ours, and its next file gets the number."""
    try:
        now = os.fstat(number)
    except OSError:  # it is closed
        return None
    return now.st_dev, now.st_ino


def _moved_up(number: int) -> int:
    """Return a high descriptor of the same file, if the process may have one; the low one is closed then."""
    try:
        import fcntl

        high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except (ImportError, OSError):  # on Windows; or the process may open fewer files
        return number
    os.close(number)
    return high


def _header(process: int, parent: int | None, started: float) -> dict[str, object]:
    command = [sys.executable, *sys.orig_argv[1:]]
    first: dict[str, object] = {"aspecthook": "calls", "version": VERSION}
    return first | {"process": process, "parent": parent, "command": command, "started": started}


def _function_line(function: Function, number: int) -> str:
    return _line({"function": number, "name": function.label, "file": function.file, "line": function.line})


def _line(entry: Mapping[str, object]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def _call_line(call: RecordedCall, number: int) -> str:
    """Return the line of a call, of the function with this number; put together here, which is three times as quick."""
    parent: object = "null"
    if call.parent is not None:
        parent = call.parent.number
        if call.parent.process != call.process:
            parent = f"[{call.parent.process},{parent}]"
    # Ends are rounded, and not lengths, so that what is inside a call does not end later than the call.
    begin, end = round(call.begin * 1e9), call._end
    duration = "null" if end is None else max(0, round(end * 1e9) - begin)
    more = ',"recursive":true' if call.recursive else ""
    more += f',"thread":{quoted(call.thread)}'
    if call.task is not None:
        more += f',"task":{quoted(call.task)}'
    if call.turns:
        turns = [[round(at * 1e9), round((at + length) * 1e9) - round(at * 1e9)] for at, length in call.turns]
        more += f',"turns":{json.dumps(turns)}'
    texts: list[str] = []
    if call.has_values:
        texts = [f"{quoted(name)}:{quoted(text)}" for name, text in call.shown_arguments().items()]
    if texts:
        more += f',"arguments":{{{",".join(texts)}}}'
    error = call.shown_error()
    if error is not None:
        more += f',"error":{{"type":{quoted(error[0])},"message":{quoted(error[1])}}}'
    elif call.ended and call.has_values:
        more += f',"result":{quoted(call.shown_result())}'
    return (
        f'{{"call":{call.number},"parent":{parent},"of":{number},"begin":{begin},"duration":{duration},'
        f'"own":{round(call.own * 1e9)}{more}}}\n'
    )


def lines(calls: Iterable[RecordedCall], started: float, headers: Mapping[int, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of some calls: for each process a header and its calls."""
    by_process: dict[int, list[RecordedCall]] = {}
    for call in calls:
        by_process.setdefault(call.process, []).append(call)
    for process, own in (by_process or {os.getpid(): []}).items():
        yield _line((headers.get(process) or _header(process, None, started)) | {"started": started})
        numbers: dict[Function, int] = {}
        for call in own:
            if call.function not in numbers:
                numbers[call.function] = len(numbers)
                yield _function_line(call.function, numbers[call.function])
            yield _call_line(call, numbers[call.function])
