"""What `trace` and `attach` show of the calls that a program records, and the files that they write."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, final

from aspecthook._errors import plural
from aspecthook.record import Tape
from aspecthook.record._reading import join, read, summary

from ._live import Line, LiveTree

# A page of so many calls opens in about a second.
_MOST_ON_PAGE = 100_000


@final
class View:
    """What is shown on standard error, which the program has too; it may be closed at any time.

    Args:
        folder: Where the processes of the program write their recordings.
        most: How many lines of the tree are shown.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._tree = LiveTree(folder)
        self._left = most
        self._open = True

    def look(self, *, final: bool = False) -> None:
        """Show what is new."""
        if self._left <= 0 or not self._open:
            return
        for line in self._tree.read(final=final):
            if self._left == 0:
                self._say("... the calls that follow are only counted")
                return
            self._left -= 1
            if sys.stderr.isatty():
                self._show_rich(line)
            else:
                self._say("  " * line.depth + line.text)

    def report(self, targets: Iterable[str], *, outputs: Iterable[Path], otlp: str | None, service: str) -> None:
        """Show the rest of the tree and the table, and save the calls.

        Args:
            targets: What was to be recorded.
            outputs: The files to write, each in the format that its suffix names.
            otlp: The address of a collector of OpenTelemetry.
            service: What the collector knows the calls by.
        """
        self.look(final=True)
        table, left_out = summary(self._folder)
        notes = self._lines_of("*.notes")
        if table:
            self._say(f"\n{table}")
        elif not notes:
            notes = [
                f"no call of {', '.join(targets)}; 'aspecthook match --all' shows what a pointcut takes and leaves; "
                f"calls that a module makes while it is imported are not recorded"
            ]
        for why in notes:
            self._say(f"aspecthook: {why}")
        self._say_left()
        for why, count in left_out.items():
            self._say(f"{plural(count, 'call')} left out: {why}")

        @cache
        def tape(most: int | None) -> Tape:
            return read(self._folder, max_calls=most)

        total = sum([row.calls for row in table])
        for path in outputs:
            most = _MOST_ON_PAGE if path.suffix == ".html" and total > _MOST_ON_PAGE else None
            if path.suffix == ".jsonl":
                join(self._folder, path)
            else:
                tape(most).save(path)
            self._say(f"written: {path}" + (f", the first {most:,} of {total:,} calls" if most else ""))
        if otlp is not None:
            from ._otlp import send

            taken = send(tape(None), otlp, service)
            spans = plural(len(tape(None)), "span")
            self._say(f"sent to {otlp}: {spans}" if taken else f"{otlp} has not taken the spans; is it up?")

    def _say_left(self) -> None:
        """Print which functions are not recorded though one would expect it, and how to name them."""
        left: dict[str, set[str]] = {}
        for line in self._lines_of("*.left"):
            for hint, labels in json.loads(line).items():
                left.setdefault(hint, set()).update(labels)
        for hint, labels in left.items():
            more = "" if len(labels) == 1 else f" and {len(labels) - 1} more ('aspecthook match --all' lists them)"
            self._say(f"aspecthook: not recorded are {hint}: {min(labels)}{more}")

    def _lines_of(self, pattern: str) -> list[str]:
        """Return what the processes have noted in files of such names."""
        texts = [path.read_text(encoding="utf-8") for path in self._folder.glob(pattern)]
        return sorted({line for text in texts for line in text.splitlines()})

    def _say(self, text: str) -> None:
        if not self._open:
            return
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:  # the terminal is gone; the program may go on
            self._open = False

    # Any: rich need not be installed where there is no terminal.
    @cached_property
    def _console(self) -> Any:
        from rich.console import Console

        return Console(stderr=True, highlighter=None)

    def _show_rich(self, line: Line) -> None:
        from rich.text import Text

        name, mark, rest = line.text.partition("(")
        text = Text.assemble("  " * line.depth, (name, "bold"), mark, rest, style="red" if line.failed else "")
        try:
            self._console.print(text, overflow="ellipsis", no_wrap=True, soft_wrap=False)
        except OSError:
            self._open = False
