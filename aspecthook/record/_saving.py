"""Files of recorded calls: JSON lines, the page, and Chrome's trace format, which Perfetto and speedscope open.

The page is one HTML file with a call tree, a timeline, a flame graph and a table. It loads nothing from elsewhere and
runs no script but its own, whatever names and values were recorded: it shows them as text only, and its
Content-Security-Policy allows the one script and the one style sheet by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

from aspecthook._errors import HookOptionError

from ._calls import RecordedCall
from ._json_lines import line_of

Path: TypeAlias = "str | PathLike[str]"


def save(calls: list[RecordedCall], entries: Iterable[dict[str, Any]], path: Path) -> None:
    """Write calls in the format that the suffix of the path names; ``entries`` are those of their JSON lines."""
    name = os.fspath(path)
    if name.endswith(".jsonl"):
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(map(line_of, entries))
    elif name.endswith(".html"):
        write_page(entries, path)
    elif name.endswith(".json"):
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
            # One by one: of a document as a whole, `json.dump` makes the text in Python, and `dumps` in memory.
            file.writelines(
                f"{',' if number else ''}{json.dumps(event)}\n" for number, event in enumerate(_events(calls))
            )
            file.write("]}\n")
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


class Slice(NamedTuple):
    """A time in which a call ran: the whole call, or one turn of a coroutine or a generator."""

    begin: float
    end: float
    call: RecordedCall


def slices(calls: Iterable[RecordedCall]) -> dict[tuple[int, str], list[Slice]]:
    """Return the slices of each thread of each process, outer ones first; none overlaps another partly."""
    lanes: defaultdict[tuple[int, str], list[Slice]] = defaultdict(list)
    calls = list(calls)
    last = max([call.begin + (call.duration or 0.0) for call in calls], default=0.0)
    for call in calls:
        times = call.turns or [(call.begin, last - call.begin if call.duration is None else call.duration)]
        for begin, length in times:
            lanes[call.process, call.thread].append(Slice(begin, begin + length, call))
    return {lane: _nested(rows) for lane, rows in lanes.items()}


def _nested(rows: list[Slice]) -> list[Slice]:
    """Sort slices, and cut what ends after the slice around it: clocks and rounding are not that exact."""
    rows.sort(key=lambda row: (row.begin, -row.end, row.call.number))
    open_: list[Slice] = []
    cut: list[Slice] = []
    for row in rows:
        while open_ and open_[-1].end <= row.begin:
            open_.pop()
        one = row if not open_ or row.end <= open_[-1].end else row._replace(end=open_[-1].end)
        open_.append(one)
        cut.append(one)
    return cut


def write_page(rows: Iterable[Mapping[str, object]], path: Path) -> None:
    """Write recorded calls as a page for the browser.

    Args:
        rows: The objects of the JSON lines; the rows after a header are those of its process.
        path: The file to write.
    """
    before, after = _template()
    with open(path, "w", encoding="utf-8", newline="\n") as page:  # the hashes are those of lines that end with "\n"
        page.write(before)
        separator = ""
        for row in rows:
            # Nothing but "<" could end the element that the data is in; in JSON it occurs only inside strings.
            page.write(separator + json.dumps(row, separators=(",", ":")).replace("<", "\\u003c"))
            separator = ",\n"
        page.write(after)


def _template() -> tuple[str, str]:
    """Return the page before and after the rows."""
    text = (files("aspecthook.record") / "page.html").read_text("utf-8")
    for name in ("script", "style"):
        content = text.partition(f"<{name}>")[2].partition(f"</{name}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        text = text.replace(f"{{{{{name}}}}}", digest)
    before, _, after = text.partition("{{rows}}")
    return before, after
