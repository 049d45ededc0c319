"""Files that a run writes line by line, and continues after it was killed.

The invariant: a file consists of whole lines at any moment, except for the last line of a process that was killed while
writing it. A full disk does not fail the run: what cannot be written is kept, and written when there is room.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, final
from zlib import crc32

from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._files import check_regular, put, unused_path

from ._numbers import one_line
from ._rows import LogRow


@final
class Tolerance:
    """Lets a run continue while its log cannot be written: warns once, and once more when it can be written again."""

    def __init__(self, path: Path, logger: Any) -> None:  # Any: a logger, or an object with its methods
        self._path, self._logger = path, logger
        self._failed = False

    @contextmanager
    def __call__(self) -> Generator[None]:
        """Write in this block."""
        failed = self._failed
        try:
            yield
        except OSError as error:
            self._failed = True
            if not failed:
                self._logger.warning(
                    "the log %s cannot be written: %s; the run continues, and what is missing is written when there is "
                    "room",
                    self._path,
                    error.strerror,
                )
        else:
            self._failed = False
            if failed:
                self._logger.warning("the log %s is written again, with all that was missing", self._path)


class LineFile:
    """A file with a line for each row."""

    head = 0  # the number of lines before the rows

    def __init__(self, path: Path, logger: Any) -> None:  # Any: a logger, or an object with its methods
        self.path = path
        self.logger = logger
        self._tolerating = Tolerance(path, logger)
        self.pending: list[tuple[LogRow, str]] = []  # rows that could not be written yet
        self._count, self._sum = 0, 0  # of the rows in the file

    # Beginning

    def begin(self) -> None:
        """Begin the file of a new run, and keep an older file under another name."""
        with self._usable():
            self._whole_lines()
            self._clear()

    def reopen(self) -> None:
        """Continue after the lines in the file, without an unfinished one."""
        with self._usable():
            lines = self._whole_lines()
            self._keep(lines, len(lines))

    def resume(self, mark: Mapping[str, Any]) -> None:
        """Continue at the `mark` of a checkpoint: remove the lines after it, since the run will write them again."""
        with self._usable():
            lines = self._whole_lines()
            count = self.head + mark["rows"]
            if len(lines) >= count and not self._belongs(lines[:count], mark):
                self.logger.warning("%s does not belong to the resumed run; a new file is begun", self.path)
                self._clear()
            else:
                self._keep(lines, count)

    @property
    def mark(self) -> dict[str, Any]:
        """The position in the file, for a checkpoint."""
        return {"rows": self._count, "sum": self._sum}

    @contextmanager
    def _usable(self) -> Generator[None]:
        """Raise an error before the run begins if the file cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            check_regular(self.path)
            yield
        except OSError as error:
            raise TrainingError(
                f"the log {self.path} cannot be written: {error.strerror}; free disk space, change its permissions, or "
                "use another path"
            ) from error

    def _whole_lines(self) -> list[bytes]:
        with open(self.path, "ab"):  # creates the file, and checks that it can be written
            pass
        return self.path.read_bytes().split(b"\n")[:-1]

    def _clear(self) -> None:
        if self.path.stat().st_size:
            old = unused_path(self.path)
            self.path.rename(old)
            self.logger.info("%s existed already, and was renamed to %s", self.path, old.name)
        self._count = self._sum = 0

    def _belongs(self, known: Sequence[bytes], mark: Mapping[str, Any]) -> bool:
        return self._checksum(known[self.head :]) == int(mark["sum"])

    def _keep(self, lines: Sequence[bytes], count: int) -> None:
        """Remove all but the first `count` lines."""
        os.truncate(self.path, sum(len(line) + 1 for line in lines[:count]))
        self._note(lines[:count])

    def _note(self, lines: Sequence[bytes]) -> None:
        rows = lines[self.head :]
        self._count, self._sum = len(rows), self._checksum(rows)

    def _checksum(self, lines: Sequence[bytes], start: int = 0) -> int:
        for line in lines:
            start = crc32(self._stable_part(line), start)
        return start

    def _stable_part(self, line: bytes) -> bytes:
        """Return the part of a line that never changes."""
        return line

    # Writing

    def write(self, row: LogRow, line: str) -> None:
        """Write a row, and those that could not be written before; if it fails, keep them."""
        self.pending.append((row, line))
        with self._tolerating():
            self._write_pending()
            self.pending.clear()

    def _write_pending(self) -> None:
        lines = [line.encode(errors="replace") for _, line in self.pending]
        append(self.path, b"".join(line + b"\n" for line in lines))
        self._add(lines)

    def _add(self, lines: Sequence[bytes]) -> None:
        self._count, self._sum = self._count + len(lines), self._checksum(lines, self._sum)


class TableFile(LineFile):
    """A CSV file: a header, and a line for each row, each with a cell for every column.

    A new number, such as the first one of a validation, adds a column. The header is at the beginning of the file, so a
    new file is written beside the old one then, and replaces it in one step: readers find a valid table at any time,
    even after a kill.
    """

    head = 1

    def __init__(self, path: Path, logger: Any) -> None:
        super().__init__(path, logger)
        self.columns: list[str] = []

    @property
    def mark(self) -> dict[str, Any]:
        """The position in the file, for a checkpoint."""
        return {**super().mark, "columns": list(self.columns)}

    def _clear(self) -> None:
        super()._clear()
        self.columns = []

    def _belongs(self, known: Sequence[bytes], mark: Mapping[str, Any]) -> bool:
        before: list[str] = mark["columns"]
        return _cells(known[0])[: len(before)] == before and super()._belongs(known, mark)

    def _keep(self, lines: Sequence[bytes], count: int) -> None:
        """Remove lines, and the columns that are empty without them."""
        kept = lines[:count]
        columns = _cells(lines[0]) if lines else []
        used = max((len(_cells(self._stable_part(line))) for line in kept[1:]), default=0)
        self.columns = columns[:used]
        if not self.columns:
            os.truncate(self.path, 0)
        elif len(self.columns) < len(columns):
            spare = len(columns) - used
            _replace(self.path, [_line(self.columns), *(line[:-spare] for line in kept[1:])])
        else:
            os.truncate(self.path, sum(len(line) + 1 for line in kept))
        self._note(kept)

    def _stable_part(self, line: bytes) -> bytes:
        return line.rstrip(b",")  # the empty cells of later columns

    def _write_pending(self) -> None:
        names = dict.fromkeys(name for row, _ in self.pending for name in row)
        columns = [*self.columns, *(name for name in names if name not in self.columns)]
        lines = [_line([row.get(name) for name in columns]) for row, _ in self.pending]
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
    """Append to a file, all or nothing."""
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


_FORMULA = re.compile("'*[=+@\\-\t\r]")


def as_text(cell: str) -> str:
    """Return a string as a cell that spreadsheets show and do not compute: after an apostrophe, if it is a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _line(cells: Sequence[float | str | None]) -> bytes:
    text = StringIO()
    shown = (as_text(one_line(cell)) if isinstance(cell, str) else cell for cell in cells)
    csv.writer(text, lineterminator="").writerow(["" if cell is None else cell for cell in shown])
    return text.getvalue().encode()


def _cells(line: bytes) -> list[str]:
    rows = [*csv.reader([line.decode(errors="replace")])]
    return [cell[1:] if _FORMULA.match(cell[1:]) and cell[0] == "'" else cell for cell in rows[0]] if rows else []
