"""The live tree: the recordings that the processes of a program write are read as they grow."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from math import inf
from operator import attrgetter
from os import SEEK_END
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, final

from aspecthook._errors import printable
from aspecthook.record._calls import Function, RecordedCall
from aspecthook.record._reading import call_of
from aspecthook.record._tape import line_of

# A call whose parent has not ended is shown without it after so many seconds.
_PATIENCE = 0.5


class Line(NamedTuple):
    """A call of the tree as a line."""

    depth: int
    text: str
    failed: bool


@final
class LiveTree:
    """Reads the recordings in a folder, and returns what is new as lines of a tree.

    A call is written when it ends, so those inside it come first. They are held until it ends too, and then shown below
    it; or, if it takes longer, by themselves, and the call itself when it has ended.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: defaultdict[Path, _File] = defaultdict(_File)
        self._shown: Path | None = None  # the file of the last line

    def read(self, *, final: bool = False) -> Iterator[Line]:
        """Yield the lines of what has been written since the last time; finally, all that is left."""
        for path in sorted(self._folder.glob("*.jsonl")):
            for line in self._files[path].read(path, final=final):
                if path != self._shown and (self._shown is not None or len(self._files) > 1):
                    yield Line(0, f"process {self._files[path].process}", failed=False)
                self._shown = path
                yield line


@final
class _File:
    """What is known of one file: how far it is read, and the calls that are held."""

    def __init__(self) -> None:
        self.process = 0
        self._offset = 0
        self._functions: dict[int, Function] = {}
        # What is held, by the number of the call around it: since when, and the calls.
        self._held: dict[int, tuple[float, list[RecordedCall]]] = {}

    def read(self, path: Path, *, final: bool) -> Iterator[Line]:
        with open(path, "rb") as file:
            end = file.seek(0, SEEK_END)  # what the program writes meanwhile is read the next time: it may be faster
            file.seek(self._offset)
            for line in file:
                if self._offset >= end or not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                yield from self._take(json.loads(line))
        yield from self._let_go(inf if final else monotonic() - _PATIENCE)

    def _take(self, entry: dict[str, Any]) -> Iterator[Line]:
        if "aspecthook" in entry:
            self.process = entry["process"]
        elif "function" in entry:
            self._functions[entry["function"]] = Function(printable(entry["name"]))  # a process may write what it likes
        elif "call" in entry:
            call, _ = call_of(entry, self._functions[entry["of"]], self.process)
            call.children = self._held.pop(call.number, (0, ()))[1]
            parent = entry["parent"]
            if isinstance(parent, int):
                self._held.setdefault(parent, (monotonic(), []))[1].append(call)
            else:
                yield from self._lines(0, call)

    def _let_go(self, until: float) -> Iterator[Line]:
        """Yield what has been held since then, or longer, without its parents."""
        for parent in [one for one, (since, _) in self._held.items() if since < until]:
            for call in self._held.pop(parent)[1]:
                yield from self._lines(1, call)

    def _lines(self, depth: int, call: RecordedCall) -> Iterator[Line]:
        waiting = [(depth, call)]
        while waiting:
            depth, call = waiting.pop()
            yield Line(depth, line_of(call), call.exc is not None)
            waiting += [(depth + 1, one) for one in sorted(call.children, key=attrgetter("begin"), reverse=True)]
