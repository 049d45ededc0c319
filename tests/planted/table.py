"""The tables of planted bugs: small mistakes in the package, of the sort that a change might make.

There is one text file a room, which reads like a patch without line numbers:

    [weave] tests/weave                                 the room, and the tests of all its bugs
    [pointcuts] tests/weave/test_pointcuts.py           a section, and the tests that are likely to find its bugs

    weave/_pointcut.py: a pointcut matches nested names     the file, and what breaks
    - the text that is replaced; it occurs once in the file, and need not be a whole line
    + what replaces it; without such a line the text is taken away

No bug is equivalent to the code that it replaces: a user can see each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLES = sorted(Path(__file__).parent.glob("*.txt"))


@dataclass(frozen=True)
class Bug:
    """One mistake in one file of the package.

    Attributes:
        name: What breaks, in words that are joined by dashes.
        room: The table that it is in.
        section: The part of the table that it is in.
        file: The file, relative to the package.
        old: The text that is replaced.
        new: What replaces it.
        tests: Test files and folders: those that are likely to find it first, then those of the room.
    """

    name: str
    room: str
    section: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


class PlantingError(Exception):
    """A bug that cannot be planted, or a child process that could not do its work."""


def planted(bug: Bug, source: str) -> str:
    """Return the source with the bug in it.

    Raises:
        PlantingError: The text to be replaced does not occur exactly once.
    """
    count = source.count(bug.old)
    if count != 1:
        raise PlantingError(f"{bug.name}: the old text occurs {count} times in aspecthook/{bug.file}, not once")
    return source.replace(bug.old, bug.new)


def read(text: str) -> list[Bug]:
    """Return the bugs of a table."""
    room, *entries = text.strip().split("\n\n")
    name, everywhere = _heading(room)
    section, likely = name, everywhere
    bugs = []
    for entry in entries:
        head, *lines = entry.strip("\n").split("\n")
        if head.startswith("["):
            section, likely = _heading(head)
            continue
        file, _, breaks = head.partition(": ")
        old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        if not old or any(line[0] not in "-+" for line in lines):
            raise PlantingError(f"{name}: {head!r} is followed by lines that begin with '- ', then '+ '")
        tests = tuple(dict.fromkeys((*likely, *everywhere)))
        bugs.append(Bug(breaks.replace(" ", "-"), name, section, file, old, new, tests))
    return bugs


def _heading(line: str) -> tuple[str, tuple[str, ...]]:
    name, _, tests = line.removeprefix("[").partition("]")
    return name, tuple(tests.split())


BUGS = [bug for table in TABLES for bug in read(table.read_text())]
