"""What `trace` and `attach` show of the calls that a program records, and the files that they write."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import final

import click

from aspecthook.record._reading import lines_of, summary
from aspecthook.record._saving import save

from ._live import LiveTree

# A page of so many calls opens in about a second.
_MOST_ON_PAGE = 100_000
_COUNTED = "... the calls that follow are only counted"


@final
class View:
    """What is shown on standard error, which the program has too; it may be closed at any time.

    Args:
        folder: Where the processes of the program write their recordings.
        most: How many lines of the tree are shown.
    """

    def __init__(self, folder: str, most: int) -> None:
        self._folder = Path(folder)
        self._tree = LiveTree(self._folder)
        self._most = self._left = most or -1  # below zero: no more lines are shown

    def look(self, *, final: bool = False) -> None:
        """Show what is new."""
        if self._left < 0:
            return
        for line in self._tree.read(final=final):
            self._left -= 1
            if self._left < 0:
                _say(_COUNTED)
                return
            text = "  " * line.depth + line.text
            if sys.stderr.isatty():
                width = shutil.get_terminal_size().columns
                text = text if len(text) <= width else f"{text[: width - 1]}…"
                name, mark, rest = text.partition("(")
                colour = "red" if line.failed else None
                text = click.style(name, bold=True, fg=colour) + click.style(mark + rest, fg=colour)
            _say(text)

    def report(self, targets: Iterable[str], outputs: Iterable[str]) -> None:
        """Show the rest of the tree and the table, and save the calls.

        Args:
            targets: What was to be recorded.
            outputs: The files to write, each in the format that its suffix names.
        """
        self.look(final=True)
        table = summary(self._folder)
        total = sum([row.calls for row in table])
        if self._left >= 0 and total > self._most - self._left:
            _say(_COUNTED)
        texts = [path.read_text(encoding="utf-8") for path in self._folder.glob("*.notes")]
        notes = sorted({line for text in texts for line in text.splitlines()})
        if table:
            _say(f"\n{table}")
        elif not notes:
            notes = [
                f"no call of {', '.join(targets)}; 'aspecthook match --all' shows what a pointcut leaves out; "
                f"calls that a module makes while it is imported are not recorded"
            ]
        for why in notes:
            _say(f"aspecthook: {why}")

        for path in outputs:
            cut = path.endswith(".html") and total > _MOST_ON_PAGE
            save(lines_of(self._folder, _MOST_ON_PAGE if cut else None), path)
            _say(f"written: {path}" + (f", the last {_MOST_ON_PAGE:,} of {total:,} calls" if cut else ""))


def _say(text: str) -> None:
    with suppress(OSError):  # the terminal is gone; the program may go on
        print(text, file=sys.stderr, flush=True)
