"""Other formats: Chrome's trace format (Perfetto), speedscope, collapsed stacks."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import Any, TypeAlias

from aspecthook._errors import HookOptionError

from ._calls import RecordedCall
from ._json_lines import write_lines
from ._page import write_page
from ._timeline import slices, walk

Path: TypeAlias = "str | PathLike[str]"
Calls: TypeAlias = list[RecordedCall]
Entries: TypeAlias = Iterable[dict[str, Any]]


def save(calls: Calls, entries: Entries, path: Path) -> None:
    """Write calls in the format that the suffix of the path names; ``entries`` are those of their JSON lines."""
    name = os.fspath(path)
    for suffix, write_entries in _OF_ENTRIES.items():
        if name.endswith(suffix):
            write_entries(entries, path)
            return
    for suffix, write_calls in _OF_CALLS.items():
        if name.endswith(suffix):
            write_calls(calls, path)
            return
    known = ", ".join([*_OF_ENTRIES, *_OF_CALLS])
    raise HookOptionError(f"{name}: the format is chosen by the suffix; give one of {known}")


def _chrome(calls: Calls, path: Path) -> None:
    _dump({"displayTimeUnit": "ns", "traceEvents": list(_events(calls))}, path)


def _events(calls: Calls) -> Iterator[dict[str, Any]]:
    """Yield the events of Chrome's trace format: slices of threads, and for coroutines and generators async slices."""
    lanes = slices(calls)
    threads = {lane: number for number, lane in enumerate(lanes, 1)}
    for process in dict.fromkeys(process for process, _ in lanes):
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": f"process {process}"}}
    for (process, name), number in threads.items():
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": name}}
    for lane, rows in lanes.items():
        where = {"pid": lane[0], "tid": threads[lane]}
        for row in rows:
            time, length = row.begin * 1e6, (row.end - row.begin) * 1e6
            common = {"name": row.call.name, "cat": row.call.function.module or "calls", "ts": time, **where}
            yield {"ph": "X", "dur": length, "args": _values(row.call), **common}
    end = max([row.end for rows in lanes.values() for row in rows], default=0.0)
    for call in calls:
        if call.turns:
            where = {"pid": call.process, "tid": threads[call.process, call.thread]}
            common = {"name": call.name, "cat": call.task or "generators", "id": call.number, **where}
            last = end if call.duration is None else call.begin + call.duration
            yield {"ph": "b", "ts": call.begin * 1e6, "args": _values(call), **common}
            yield {"ph": "e", "ts": last * 1e6, **common}


def _values(call: RecordedCall) -> dict[str, str]:
    shown = call.shown_arguments()
    error = call.shown_error()
    if error is not None:
        shown["(raised)"] = f"{error[0]}: {error[1]}"
    elif call.ended and call.has_values:
        shown["(returned)"] = call.shown_result()
    return shown


def _speedscope(calls: Calls, path: Path) -> None:
    frames: dict[Any, int] = {}
    profiles: list[dict[str, Any]] = []
    for (process, thread), rows in slices(calls).items():
        events: list[dict[str, Any]] = []
        for begins, time, row in walk(rows):
            frame = frames.setdefault(row.call.function, len(frames))
            events.append({"type": "O" if begins else "C", "frame": frame, "at": time})
        first, last = events[0]["at"], events[-1]["at"]
        profile = {"type": "evented", "name": f"{thread} ({process})", "unit": "seconds"}
        profiles.append({**profile, "startValue": first, "endValue": last, "events": events})
    shown = [{"name": one.label, "file": one.file, "line": one.line} for one in frames]
    _dump(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "aspecthook",
            "name": os.path.basename(path),
            "shared": {"frames": [{key: value for key, value in one.items() if value is not None} for one in shown]},
            "profiles": profiles,
        },
        path,
    )


def _folded(calls: Calls, path: Path) -> None:
    """Write one line for each path of functions, with its own time in microseconds."""
    stacks: Counter[str] = Counter()
    paths: dict[int, str] = {}
    for call in calls:  # parents first
        name = call.label.replace(";", ",")
        above = None if call.parent is None else paths.get(id(call.parent))
        paths[id(call)] = name if above is None else f"{above};{name}"
        stacks[paths[id(call)]] += round(call.own * 1e6)
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines([f"{stack} {time}\n" for stack, time in stacks.items()])


def _dump(data: object, path: Path) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file)


_OF_ENTRIES: dict[str, Callable[[Entries, Path], None]] = {".jsonl": write_lines, ".html": write_page}
_OF_CALLS: dict[str, Callable[[Calls, Path], None]] = {
    ".speedscope.json": _speedscope,
    ".json": _chrome,
    ".folded": _folded,
}
