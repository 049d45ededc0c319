"""The live tree: the recordings that the processes of a program write are read as they grow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, final

from aspecthook._errors import printable
from aspecthook.record._calls import Function, RecordedCall
from aspecthook.record._reading import call_of
from aspecthook.record._tape import line_of

# A call whose parent has not ended is shown without it after so long, or when so many are held.
_PATIENCE = 0.5
_MOST_HELD = 10_000


class Line(NamedTuple):
    """A call of the tree as a line."""

    depth: int
    text: str
    failed: bool


@final
class LiveTree:
    """Reads the recordings in a folder, and returns what is new as lines of a tree.

    A call is written when it ends, so those inside it come first. They are held until it ends too, and then shown below
    it; or, if it takes longer or they are too many, by themselves, and the call itself when it has ended.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, _File] = {}
        self._shown: Path | None = None  # the file of the last line

    def read(self, *, final: bool = False) -> Iterator[Line]:
        """Yield the lines of what has been written since the last time; finally, all that is left."""
        for path in sorted(self._folder.glob("*.jsonl")):
            for line in self._files.setdefault(path, _File(path)).read(final=final):
                if path != self._shown and (self._shown is not None or len(self._files) > 1):
                    yield Line(0, f"process {self._files[path].process}", failed=False)
                self._shown = path
                yield line


@final
class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.process = 0
        self._offset = 0
        self._functions: dict[int, Function] = {}
        # The calls that have ended in ones that have not, below the number of these; and since when.
        self._held: dict[int, list[RecordedCall]] = {}
        self._since: dict[int, float] = {}
        self._count = 0

    def read(self, *, final: bool) -> Iterator[Line]:
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                yield from self._take(json.loads(line))
                if self._count > _MOST_HELD:
                    yield from self._let_go(monotonic())
        yield from self._let_go(inf if final else monotonic() - _PATIENCE)

    def _let_go(self, until: float) -> Iterator[Line]:
        """Yield what has been held since then, or longer, without its parents."""
        for parent in [one for one, since in self._since.items() if since < until]:
            for call in self._release(parent):
                yield from self._lines(call, 1)

    def _release(self, parent: int) -> list[RecordedCall]:
        self._since.pop(parent, None)
        return self._held.pop(parent, [])

    def _take(self, entry: dict[str, Any]) -> Iterator[Line]:
        if "aspecthook" in entry:
            self.process = entry["process"]
        elif "function" in entry:
            self._functions[entry["function"]] = Function(printable(entry["name"]))  # a process may write what it likes
        elif "call" in entry:
            call, _ = call_of(entry, self._functions[entry["of"]], self.process)
            call.children = self._release(call.number)
            parent = entry["parent"]
            self._count += 1
            if isinstance(parent, int):
                self._held.setdefault(parent, []).append(call)
                self._since.setdefault(parent, monotonic())
            else:
                yield from self._lines(call, 0)

    def _lines(self, call: RecordedCall, depth: int) -> Iterator[Line]:
        waiting = [(depth, call)]
        while waiting:
            depth, call = waiting.pop()
            self._count -= 1
            yield Line(depth, line_of(call), call.exc is not None)
            waiting += [(depth + 1, one) for one in sorted(call.children, key=_begin, reverse=True)]


def _begin(call: RecordedCall) -> float:
    return call.begin
