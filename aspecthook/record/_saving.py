"""Files of recorded calls: JSON lines, the page, and Chrome's trace format, which Perfetto and speedscope open."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any, TypeAlias

from aspecthook._errors import HookOptionError

from ._calls import RecordedCall
from ._json_lines import write_lines
from ._page import write_page
from ._timeline import slices

Path: TypeAlias = "str | PathLike[str]"


def save(calls: list[RecordedCall], entries: Iterable[dict[str, Any]], path: Path) -> None:
    """Write calls in the format that the suffix of the path names; ``entries`` are those of their JSON lines."""
    name = os.fspath(path)
    if name.endswith(".jsonl"):
        write_lines(entries, path)
    elif name.endswith(".html"):
        write_page(entries, path)
    elif name.endswith(".json"):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"displayTimeUnit": "ns", "traceEvents": list(_events(calls))}, file)
    else:
        raise HookOptionError(f"{name}: the format is chosen by the suffix; give one of .jsonl, .html, .json")


def _events(calls: list[RecordedCall]) -> Iterator[dict[str, Any]]:
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
