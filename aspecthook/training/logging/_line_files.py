"""Files that a run writes line by line, and continues after it was killed.

The invariant: a file consists of whole lines at any moment, except for the last line of a process that was killed while
writing it. A file that cannot be written does not fail the run: what is missing is kept, and written when it can be.
A checkpoint has the size of each file, and `cut_back` is how a resumed run returns to it.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any, final
from zlib import crc32

from aspecthook.training.checkpoint._files import check_regular, put, unused_path

from ._numbers import one_line
from ._row import Row


class FileSink:
    """The base of sinks that write files: a run continues while its log cannot be written."""

    def __init__(self, path: Path, logger: Any) -> None:  # Any: a logger, or an object with its methods
        self.path: Path = path
        self.logger: Any = logger
        self._failed = False

    @contextmanager
    def _tolerating(self) -> Generator[None]:
        """Write in this block: if it fails, warn once; and once more when the log can be written again."""
        failed = self._failed
        try:
            yield
        except OSError as error:
            self._failed = True
            if not failed:
                self.logger.warning(
                    "the log %s cannot be written: %s; the run continues, and what is missing is written as soon as "
                    "that works",
                    self.path,
                    error.strerror,
                )
        else:
            self._failed = False
            if failed:
                self.logger.warning("the log %s is written again, with all that was missing", self.path)


def cut_back(path: Path, size: int | None, logger: Any) -> int:
    """Cut a log back to the size that it had at a checkpoint, and return its size.

    If it is shorter, a warning says so, and it is cut back to its last whole line; without a size that happens without
    a warning.
    """
    with open(path, "ab") as file:  # creates the file, and checks that it can be written
        found = file.seek(0, os.SEEK_END)
    if size is None or found < size:
        whole = path.read_bytes().rfind(b"\n") + 1
        if size is not None:
            logger.warning(
                "the log %s is cut short: it has %d of the %d bytes that it had at the checkpoint. The rows that are "
                "missing are lost, and the run continues after byte %d, the end of the last whole line",
                path,
                found,
                size,
                whole,
            )
        size = whole
    os.truncate(path, size)
    return size


class LineFile(FileSink):
    """A sink that writes a line for each row."""

    def __init__(self, path: Path, logger: Any) -> None:  # Any: a logger, or an object with its methods
        super().__init__(path, logger)
        self._start: Callable[[], None] | None = None  # what is still to be done before the first row is written
        self._pending: list[Any] = []  # entries that could not be written yet
        self._size, self._sum = 0, 0  # of the file

    def begin(self, mark: Mapping[str, Any] | None, *, is_new: bool) -> None:
        """Begin the file of a new run, and keep an older file under another name; or continue at a `mark`.

        What came after the mark is removed, since the run will write it again. A resumed run without a mark continues
        after the lines in the file, without an unfinished one.
        """
        if mark is not None:
            self._size, self._sum = int(mark["size"]), int(mark["sum"])
        check_regular(self.path)
        self._start = self._clear if is_new and mark is None else lambda: self._continue(mark)
        with self._tolerating():
            self._open()

    def mark(self) -> dict[str, Any]:
        """Return the position in the file, for a checkpoint."""
        return {"size": self._size, "sum": self._sum}

    @classmethod
    def check(cls, mark: Mapping[str, Any]) -> None:
        """Raise if a mark is none that `mark` returns."""
        list(mark.get("columns", ()))
        if int(mark["size"]) < 0 or int(mark["sum"]) < 0:
            raise ValueError("the state has a position that is none")

    def _open(self) -> None:
        if self._start is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._start()
            self._start = None

    def _clear(self) -> None:
        with open(self.path, "ab") as file:  # creates the file, and checks that it can be written
            found = file.seek(0, os.SEEK_END)
        if found:
            old = unused_path(self.path)
            self.path.rename(old)
            self.logger.info("%s existed already, and was renamed to %s", self.path, old.name)
        self._size = self._sum = 0

    def _continue(self, mark: Mapping[str, Any] | None) -> None:
        size = None if mark is None else int(mark["size"])
        found = self.path.read_bytes() if self.path.exists() else b""
        data = self._as_of(mark, found)
        if mark is not None and size is not None and len(data) >= size and crc32(data[:size]) != int(mark["sum"]):
            self.logger.warning("%s does not belong to the resumed run; a new file is begun", self.path)
            self._clear()
            return
        if data is not found:
            put(self.path, data)
        self._size = cut_back(self.path, size, self.logger)
        self._sum = crc32(data[: self._size])

    def _as_of(self, mark: Mapping[str, Any] | None, data: bytes) -> bytes:  # noqa: ARG002
        """Return what a file had at a checkpoint, and what was written after that."""
        return data

    def write(self, row: Row) -> None:
        """Write a row, and what could not be written before; if it fails, keep them."""
        self.add(self._entry(row))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet, nor is there anything to write."""
        return not self._size and not self._pending

    def add(self, entry: Any) -> None:
        """Write what `_entry` returns of a row."""
        self._pending.append(entry)
        with self._tolerating():
            self._open()
            self._write_pending()
            self._pending.clear()

    def close(self) -> None:
        """Do nothing: the file is open only while a row is written."""

    def _entry(self, row: Row) -> Any:
        """Return what is written of a row: a line, for most files."""
        raise NotImplementedError

    def _write_pending(self) -> None:
        self._append(b"".join(one_line(line).encode(errors="replace") + b"\n" for line in self._pending))

    def _append(self, data: bytes) -> None:
        append(self.path, data)
        self._size, self._sum = self._size + len(data), crc32(data, self._sum)


@final
class JsonFile(LineFile):
    """Lines of JSON; NaN and infinity are null, since JSON has neither."""

    def _entry(self, row: Row) -> str:
        flat = row.flat()
        return json.dumps({k: None if isinstance(v, float) and not isfinite(v) else v for k, v in flat.items()})


@final
class TextFile(LineFile):
    """Lines for readers, each after its time; `text` returns the line of a row."""

    text: Callable[[Row], str] = staticmethod(str)

    def _entry(self, row: Row) -> str:
        return f"{datetime.now():%Y-%m-%d %H:%M:%S}  {self.text(row)}"


@final
class TableFile(LineFile):
    """A CSV file: a header, and a line for each row, each with a cell for every column.

    A new number, such as the first one of a validation, adds a column. The header is at the beginning of the file, so a
    new file is written beside the old one then, and replaces it in one step: readers find a valid table at any time,
    even after a kill.
    """

    def __init__(self, path: Path, logger: Any) -> None:
        super().__init__(path, logger)
        self.columns: list[str] = []

    def mark(self) -> dict[str, Any]:
        """Return the position in the file, and the columns, for a checkpoint."""
        return {**super().mark(), "columns": list(self.columns)}

    def _clear(self) -> None:
        super()._clear()
        self.columns = []

    def _as_of(self, mark: Mapping[str, Any] | None, data: bytes) -> bytes:
        """Leave out the columns that were added after a checkpoint."""
        lines = data.split(b"\n")[:-1]
        # Names are compared as they were before `as_text`.
        columns = [cell[1:] if _FORMULA.match(cell[1:]) and cell[0] == "'" else cell for cell in _cells(lines[:1])]
        before: list[str] = columns if mark is None else [*map(str, mark["columns"])]
        self.columns = columns[: len(before)]
        if self.columns == columns or self.columns != before:
            return data
        return b"".join(_line(_cells([line])[: len(before)]) for line in lines)

    def _entry(self, row: Row) -> dict[str, float | str]:
        return row.flat()

    def _write_pending(self) -> None:
        names = dict.fromkeys(name for row in self._pending for name in row)
        columns = [*self.columns, *(name for name in names if name not in self.columns)]
        new = b"".join(_line([_shown(row.get(name, "")) for name in columns]) for row in self._pending)
        old = self.path.read_bytes() if self.path.exists() and columns != self.columns else b""
        if self._size and columns == self.columns and self.path.exists():
            self._append(new)
        else:
            spare = b"," * (len(columns) - len(self.columns)) + b"\n"
            data = _line([_shown(name) for name in columns]) + b"".join(line + spare for line in old.split(b"\n")[1:-1])
            put(self.path, data + new)
            self._size, self._sum = len(data + new), crc32(data + new)
        self.columns = columns


def append(path: Path, data: bytes) -> None:
    """Append to a file, all or nothing."""
    with open(path, "ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            while data:
                data = data[file.write(data) :]
        except OSError:
            file.truncate(size)
            raise


_FORMULA = re.compile("'*[=+@\\-\t\r]")


def as_text(cell: str) -> str:
    """Return a string as a cell that spreadsheets show and do not compute: after an apostrophe, if it is a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _shown(value: float | str) -> float | str:
    return as_text(one_line(value)) if isinstance(value, str) else value


def _line(cells: Sequence[float | str]) -> bytes:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _cells(lines: Sequence[bytes]) -> list[str]:
    """Return the cells of a line; none if there is no line."""
    return [cell for row in csv.reader(line.decode(errors="replace") for line in lines) for cell in row]
