"""Files that a run writes line by line, and goes on with after it was killed.

The invariant: at any moment a file is whole lines, but for the last one of a process that was killed in the middle of
it. A disk that is full costs the run nothing: what could not be written is kept, and written when there is room.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any
from zlib import crc32

from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._files import put

from ._numbers import one_line
from ._rows import Row


class LineFile:
    """A file with a line for each row.

    Args:
        path: The file.
        logger: A `logging.Logger`, for what becomes of it.
    """

    head = 0  # how many lines before those of rows

    # Any: a logger, or what has its methods.
    def __init__(self, path: Path, logger: Any) -> None:
        self.path, self.logger = path, logger
        self.held: list[tuple[Row, str]] = []  # what could not be written yet
        self._count, self._sum = 0, 0  # of what is written: how many rows, and their checksum

    # Beginning

    def begin(self) -> None:
        """Begin a file of a new run; one that is there is kept, under another name.

        Raises:
            TrainingError: It cannot be written; `go_on` and `resume` say so too.
        """
        with self._usable():
            self._whole_lines()
            self._clear()

    def go_on(self) -> None:
        """Go on behind what is there, without a line that was not finished."""
        with self._usable():
            lines = self._whole_lines()
            self._keep(lines, len(lines))

    def resume(self, mark: Mapping[str, Any], more: int) -> int:
        """Go on where a checkpoint was taken: what was written after it is cut off, since it will be written again.

        Args:
            mark: What `mark` was then.
            more: How many rows that come next are known already; if they are there, they stay.

        Returns:
            How many of them are there.
        """
        with self._usable():
            lines = self._whole_lines()
            known = lines[: self.head + mark["rows"]]
            if len(known) == self.head + mark["rows"] and not self._is_ours(known, mark):
                self.logger.warning("%s is not of the run that goes on; a new one is begun", self.path)
                self._clear()
                return 0
            kept = min(len(lines), len(known) + more)
            self._keep(lines, kept)
            return kept - len(known)

    @property
    def mark(self) -> dict[str, Any]:
        """What a checkpoint must keep to find this place in the file again."""
        return {"rows": self._count, "sum": self._sum}

    @contextmanager
    def _usable(self) -> Generator[None]:
        """Say what is amiss with the file now, and not in the middle of the run."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise TrainingError(
                f"the log {self.path} cannot be written: {error.strerror}; make room, set its permissions, or give "
                "another path"
            ) from error

    def _whole_lines(self) -> list[bytes]:
        with open(self.path, "ab"):  # now there is one, and it can be written
            pass
        return self.path.read_bytes().split(b"\n")[:-1]

    def _clear(self) -> None:
        if self.path.stat().st_size:
            old = _free(self.path)
            self.path.rename(old)
            self.logger.info("%s was there already, and is called %s now", self.path, old.name)
        self._count = self._sum = 0

    def _is_ours(self, known: Sequence[bytes], mark: Mapping[str, Any]) -> bool:
        return self._checksum(known[self.head :]) == int(mark["sum"])

    def _keep(self, lines: Sequence[bytes], count: int) -> None:
        """Cut off all but so many lines."""
        os.truncate(self.path, sum(len(line) + 1 for line in lines[:count]))
        self._note(lines[:count])

    def _note(self, lines: Sequence[bytes]) -> None:
        rows = lines[self.head :]
        self._count, self._sum = len(rows), self._checksum(rows)

    def _checksum(self, lines: Sequence[bytes], start: int = 0) -> int:
        for line in lines:
            start = crc32(self._essence(line), start)
        return start

    def _essence(self, line: bytes) -> bytes:
        """Give what of a line never changes."""
        return line

    # Writing

    def write(self, row: Row, line: str) -> None:
        """Write a row, and those that could not be written before; where the disk is full, say so once and go on."""
        self.held.append((row, line))
        told = len(self.held) > 1
        try:
            self._write_held()
        except OSError as error:
            if not told:
                self.logger.warning(
                    "the log %s cannot be written: %s; the run goes on, and what is missing there is kept until there "
                    "is room",
                    self.path,
                    error.strerror,
                )
            return
        if told:
            self.logger.warning(
                "the log %s is written again, and %d lines that were missing", self.path, len(self.held)
            )
        self.held.clear()

    def _write_held(self) -> None:
        lines = [line.encode(errors="replace") for _, line in self.held]
        append(self.path, b"".join(line + b"\n" for line in lines))
        self._add(lines)

    def _add(self, lines: Sequence[bytes]) -> None:
        self._count, self._sum = self._count + len(lines), self._checksum(lines, self._sum)


class TableFile(LineFile):
    """A CSV file: a header, and a line for each row, each with a cell for every column.

    A number that is new, as the first of a validation, makes a column. The header is at the beginning of the file, and
    a line with more cells than it is no table; so the file is written anew then, beside, and takes the place of the old
    one in one step: whoever reads it, and after a kill, finds a whole table.
    """

    head = 1

    def __init__(self, path: Path, logger: Any) -> None:
        super().__init__(path, logger)
        self.columns: list[str] = []

    @property
    def mark(self) -> dict[str, Any]:
        """What a checkpoint must keep to find this place in the file again."""
        return {**super().mark, "columns": list(self.columns)}

    def _clear(self) -> None:
        super()._clear()
        self.columns = []

    def _is_ours(self, known: Sequence[bytes], mark: Mapping[str, Any]) -> bool:
        before: list[str] = mark["columns"]
        return _cells(known[0])[: len(before)] == before and super()._is_ours(known, mark)

    def _keep(self, lines: Sequence[bytes], count: int) -> None:
        """Cut off lines, and the columns that are empty without them."""
        kept = lines[:count]
        columns = _cells(lines[0]) if lines else []
        used = max((len(_cells(self._essence(line))) for line in kept[1:]), default=0)
        self.columns = columns[:used]
        if not self.columns:
            os.truncate(self.path, 0)
        elif len(self.columns) < len(columns):
            spare = len(columns) - used
            _replace(self.path, [_line(self.columns), *(line[:-spare] for line in kept[1:])])
        else:
            os.truncate(self.path, sum(len(line) + 1 for line in kept))
        self._note(kept)

    def _essence(self, line: bytes) -> bytes:
        return line.rstrip(b",")  # columns that came later

    def _write_held(self) -> None:
        names = dict.fromkeys(name for row, _ in self.held for name in row)
        columns = [*self.columns, *(name for name in names if name not in self.columns)]
        lines = [_line([row.get(name) for name in columns]) for row, _ in self.held]
        size = self.path.stat().st_size if self.path.exists() else 0
        if size and columns == self.columns:
            append(self.path, b"".join(line + b"\n" for line in lines))
        else:
            spare = b"," * (len(columns) - len(self.columns))
            old = self.path.read_bytes().split(b"\n")[1:-1] if size else []
            _replace(self.path, [_line(columns), *(line + spare for line in old), *lines])
        self.columns = columns
        self._add(lines)


def append(path: Path, data: bytes) -> None:
    """Write at the end of a file, all or nothing."""
    with open(path, "ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            while data:
                data = data[file.write(data) :]
        except OSError:
            file.truncate(size)
            raise


def _replace(path: Path, lines: Sequence[bytes]) -> None:
    put(path, b"".join(line + b"\n" for line in lines))


def _line(cells: Sequence[float | str | None]) -> bytes:
    text = StringIO()
    shown = (one_line(cell) if isinstance(cell, str) else cell for cell in cells)
    csv.writer(text, lineterminator="").writerow(["" if cell is None else cell for cell in shown])
    return text.getvalue().encode()


def _cells(line: bytes) -> list[str]:
    rows = [*csv.reader([line.decode(errors="replace")])]
    return rows[0] if rows else []


def _free(path: Path) -> Path:
    """Give a name like this one that no file has."""
    number = 1
    while (found := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    return found
