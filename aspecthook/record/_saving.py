"""Files of recorded calls: JSON lines, the page, and Chrome's trace format, which Perfetto and speedscope open.

Each is made of JSON lines, one after the other, in memory that does not grow with the calls.

The page is one HTML file with a call tree, a timeline, a flame graph and a table. It loads nothing from elsewhere and
runs no script but its own, whatever names and values were recorded: it shows them as text only, and its
Content-Security-Policy allows the one script and the one style sheet by their hashes.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from importlib.resources import files
from json.encoder import encode_basestring as quoted
from os import PathLike
from typing import Any

from aspecthook._errors import HookOptionError

# A line of a call, as `_json_lines` puts it together. It takes a third of the time that a parser of JSON takes.
CALL = re.compile(
    r'\{"call":\d+,"parent":[^"]+,"of":(?P<of>\d+),"begin":(?P<begin>-?\d+),"duration":(?P<duration>null|\d+),'
    r'"own":(?P<own>-?\d+)(?P<recursive>,"recursive":true)?,"thread":(?P<thread>"[^"\\]*(?:\\.[^"\\]*)*")'
    r'(?:,"task":"[^"\\]*(?:\\.[^"\\]*)*")?(?:,"turns":(?P<turns>\[\[[^"]+\]\]))?,?(?P<values>.*)\}\n'
)


def save(lines: Iterable[str], path: str | PathLike[str]) -> None:
    """Write JSON lines, those after a header being of its process, in the format that the suffix of the path names."""
    name = os.fspath(path)
    formats = [of for suffix, of in ((".jsonl", iter), (".html", _page), (".json", _trace)) if name.endswith(suffix)]
    if not formats:
        raise HookOptionError(f"{name}: the format is chosen by the suffix; give one of .jsonl, .html, .json")
    # The hashes in the policy of a page are those of lines that end with "\n"; a test tells which ones are right.
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.writelines(formats[0](lines))


def _page(lines: Iterable[str]) -> Iterator[str]:
    """Yield a page. Its lines are compressed, in base64: a browser reads a tenth of the text, and unpacks it faster."""
    before, _, after = (files("aspecthook.record") / "page.html").read_text("utf-8").partition("{{rows}}")
    yield before
    compressor, waiting = zlib.compressobj(), b""
    for line in lines:
        waiting += compressor.compress(f"{line.rstrip()}\n".encode("utf-8", "backslashreplace"))
        whole = len(waiting) - len(waiting) % 3
        yield b64encode(waiting[:whole]).decode()
        waiting = waiting[whole:]
    yield b64encode(waiting + compressor.flush()).decode()
    yield after


def _trace(lines: Iterable[str]) -> Iterator[str]:
    between = '{"displayTimeUnit": "ns", "traceEvents": [\n'
    for event in _events(lines):
        yield f"{between}{event}\n"
        between = ","
    yield f"{between if between != ',' else ''}]}}\n"


def _events(lines: Iterable[str]) -> Iterator[str]:
    """Yield the events of Chrome's trace format: a slice for each call, and for each turn of one that has turns."""
    first: float | None = None
    process, shift = 0, 0
    names: dict[str, str] = {}
    threads: dict[tuple[int, str], int] = {}
    for line in lines:
        call = CALL.match(line)
        if call is not None:
            of, begin, duration, thread, turns, values = call.group(*_FIELDS)
            lane = process, thread
            if lane not in threads:
                threads[lane] = len(threads) + 1
                yield _named("thread_name", process, threads[lane], json.loads(thread))
            common = f'{names[of]},"pid":{process},"tid":{threads[lane]},"args":{{{values}}}}}'
            slices = [(int(begin), duration)] if turns is None else json.loads(turns)
            for at, length in slices:
                # Whole nanoseconds, so that what is inside another slice is so here too. One without an end is open.
                end = '"ph":"B"' if length == "null" else f'"ph":"X","dur":{int(length) / 1e3}'
                yield f'{{{end},"ts":{(shift + at) / 1e3},{common}'
            continue
        entry: dict[str, Any] = json.loads(line)
        if "function" in entry:
            module, _, name = entry["name"].rpartition(":")
            names[str(entry["function"])] = f'"name":{quoted(name)},"cat":{quoted(module or "calls")}'
        elif "aspecthook" in entry:
            process, names = entry["process"], {}
            first = entry["started"] if first is None else first
            shift = round((entry["started"] - first) * 1e9)
            yield _named("process_name", process, 0, f"process {process}")


_FIELDS = ("of", "begin", "duration", "thread", "turns", "values")


def _named(what: str, process: int, thread: int, name: str) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}})
