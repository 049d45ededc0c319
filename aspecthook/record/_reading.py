"""Reading recordings: JSON lines of one process or of several, also where a process was killed while it wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, cast

from aspecthook._core.law.callables import type_of
from aspecthook._errors import AspecthookError, brief, printable
from aspecthook._values import Shown

from ._calls import Function, RecordedCall, RecordedError
from ._functions import Table, Totals
from ._json_lines import VERSION
from ._saving import CALL
from ._tape import Tape


class RecordingError(AspecthookError, ValueError):
    """A file is not a recording of calls, or has a version that cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w+", suffix=".jsonl") as file:
        ...     print("tea, 2.0", file=file, flush=True)
        ...     read(file.name)
        Traceback (most recent call last):
          ...
        aspecthook.record.RecordingError: ....jsonl:1 is not JSON: ...
    """


RecordingError.__module__ = "aspecthook.record"  # where users import it, and what tracebacks name


def read(*paths: str | PathLike[str]) -> Tape:
    """Read recordings from files of JSON lines, or from folders of them; several processes become one tape.

    Values are texts. If a killed process left an unfinished line, it is skipped. You can read recordings that you do
    not trust: they are checked, and their names and values contain no control characters.

    Args:
        paths: The files, or the folders.

    Raises:
        RecordingError: A file is not a recording.
        OSError: A file cannot be read.

    Example:
        >>> import shlex, tempfile
        >>> from aspecthook.record import read, record
        >>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        ...     with record("shlex:quote", to=file.name):
        ...         word = shlex.quote("my file")
        ...     tape = read(file.name)
        >>> print(tape.find("quote").shown_result())
        "'my file'"
    """
    files = [file for path in paths for file in _files(path)]
    if not files:
        shown = ", ".join(map(str, paths)) or "no path"
        raise RecordingError(f"{shown}: there are no recordings here; give a file of JSON lines, or a folder of them")
    tape = Tape()
    recorder = tape._recorder
    found: _Found = {}
    recorder.started = min([start for file in files for start in _read(file, found, recorder.headers)])
    recorder.calls = _tree(found, recorder.started)
    return tape


# For the command, which reads what it has recorded itself, in memory that does not grow with the calls.


def summary(path: str | PathLike[str]) -> Table:
    """Return the table of a recording."""
    totals = Totals()
    labels: dict[str, str] = {}
    for line in lines_of(path):
        call = CALL.match(line)
        if call is not None:
            of, duration, own, recursive, values = call.group("of", "duration", "own", "recursive", "values")
            took = None if duration == "null" else int(duration) / 1e9
            failed = '"error":{"' in values  # no text in it has a quotation mark without a backslash
            totals[labels[of]].add(took, int(own) / 1e9, failed=failed, recursive=recursive is not None)
            continue
        entry: dict[str, Any] = json.loads(line)
        if "function" in entry:
            labels[str(entry["function"])] = printable(entry["name"])
        elif "counted" in entry:
            totals[labels[str(entry["counted"])]].add_entry(entry)
    return totals.table()


def lines_of(path: str | PathLike[str], most: int | None = None) -> Iterator[str]:
    """Yield the lines of a recording; of the calls, if there are more, only so many, those that ended last."""
    files, skipped = _files(path), dict[Path, int]()
    if most is not None:
        counts = {one: sum([line.startswith('{"call":') for line in _whole_lines(one)]) for one in files}
        for place, one in enumerate(sorted(files, key=counts.__getitem__)):  # a process that has fewer leaves more
            skipped[one] = max(0, counts[one] - most // (len(files) - place))
            most -= counts[one] - skipped[one]
    for one in files:
        left = skipped.get(one, 0)
        for line in _whole_lines(one):
            if left and line.startswith('{"call":'):
                left -= 1
            else:
                yield line
    if any(skipped.values()):
        yield f'{{"left_out":{sum(skipped.values())},"why":"they ended earlier"}}\n'


def _whole_lines(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:
        yield from (line for line in file if line.endswith("\n"))


def _files(path: str | PathLike[str]) -> list[Path]:
    return sorted(Path(path).glob("*.jsonl")) if Path(path).is_dir() else [Path(path)]


_LONGEST = 1e12  # seconds
# By process, start and number, with the key of the call around it: a process that replaces itself keeps its number and
# counts its calls anew, and the child of a fork writes the start of its parent.
_Key = tuple[int, float, int]
_Found = dict[_Key, tuple[RecordedCall, _Key | None]]


def _tree(found: _Found, first: float) -> list[RecordedCall]:
    """Return all calls, each below its parent; times are from when the first process began to record."""
    for (_, started, _), (call, _) in found.items():
        call.shift(started - first)
    calls: dict[RecordedCall, None] = {}
    for call, parent in sorted(found.values(), key=lambda row: (row[0].begin, row[0].number)):
        # What says that it is inside a later call, or inside itself, is taken for an outermost one.
        if parent in found and found[parent][0] in calls:
            call.parent = found[parent][0]
            call.parent.add_child(call)
        calls[call] = None
        call.number = len(calls)  # a tape is saved with one header for each process
    return [*calls]


def _read(path: Path, found: _Found, headers: dict[int, dict[str, Any]]) -> Iterator[float]:
    """Read one file; yield when each process in it began to record."""
    process, started = -1, 0.0
    functions: dict[int, Function] = {}
    for number, entry in enumerate(_entries(path), 1):
        try:
            if "aspecthook" in entry:
                if entry["aspecthook"] != "calls" or entry.get("version") != VERSION:
                    version = brief(entry.get("version"))
                    raise RecordingError(
                        f"{path} has the version {version}, and this aspecthook reads version {VERSION}"
                    )
                process, started = int(entry["process"]), _seconds(entry["started"])
                headers[process] = entry
                functions = {}
                yield started
            elif process < 0:
                raise RecordingError(f"{path} is not a recording of calls: it does not begin with a header")
            elif "function" in entry:
                name, line = printable(str(entry["name"])), entry.get("line")
                line = None if line is None else int(line)
                functions[entry["function"]] = Function(name, _text(entry.get("file")), line)
            elif "call" in entry:
                call, parent = call_of(entry, functions[entry["of"]], process)
                above = None if parent is None else (parent[0], started, parent[1])
                found[process, started, call.number] = (call, above)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, RecordingError):
                raise
            raise RecordingError(f"{path}:{number} is not an entry of a recording: {error!r}") from error
    if process < 0:
        raise RecordingError(f"{path} is not a recording of calls: it is empty")


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what is in each line of a file."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                entry: object = json.loads(line.decode())
            except (ValueError, RecursionError) as error:  # the latter for lists within lists
                if line.endswith(b"\n"):
                    raise RecordingError(f"{path}:{number} is not JSON: {brief(line)}") from error
                continue  # the process was killed, or the disk was full, while it was written
            if type(entry) is not dict:
                raise RecordingError(f"{path}:{number} is not an entry of a recording: {brief(line)}")
            yield cast("dict[str, Any]", entry)


def call_of(entry: dict[str, Any], function: Function, process: int) -> tuple[RecordedCall, tuple[int, int] | None]:
    """Return the call of an entry, and the process and the number of the call around it."""
    call = RecordedCall(function, _seconds(entry["begin"] / 1e9))
    call.number, call.process = int(entry["call"]), process
    call.own, call.recursive = _seconds(entry["own"] / 1e9), "recursive" in entry
    call.thread, call.task = _text(entry.get("thread")) or "", _text(entry.get("task"))
    call.turns = [(_seconds(begin / 1e9), _seconds(length / 1e9)) for begin, length in entry.get("turns", ())]
    error = entry.get("error")
    exc = None if error is None else RecordedError(printable(str(error["type"])), printable(str(error["message"])))
    if entry["duration"] is not None:
        call.end(call.begin + _seconds(entry["duration"] / 1e9), exc)
    if "arguments" in entry or "result" in entry:
        arguments = entry.get("arguments", {}).items()
        result = _text(entry.get("result"))
        call._arguments = {printable(name): Shown(printable(str(text))) for name, text in arguments}
        call._result, call.has_values = None if result is None else Shown(result), True
    parent: Any = entry["parent"]
    if parent is None:
        return call, None
    of_process, number = parent if type_of(parent) is list else (process, parent)
    return call, (int(of_process), int(number))


def _seconds(given: float) -> float:
    """Return a time, unless it is so long, or not a number, that sums of times would not be numbers."""
    if not abs(given) < _LONGEST:
        raise ValueError(f"{given} is not a time in seconds")
    return float(given)


def _text(given: object) -> str | None:
    return None if given is None else printable(str(given))
