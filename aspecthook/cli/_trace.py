"""`aspecthook trace`: run a program, show what it calls, and save it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, final

from aspecthook._errors import plural

from ._live import Line, LiveTree
from ._program import Program

if TYPE_CHECKING:
    from aspecthook.record import Tape

# A page of so many calls opens in about a second.
_MOST_ON_PAGE = 100_000


def trace(
    program: Program, options: Mapping[str, Any], *, lines: int, outputs: Iterable[Path], otlp: str | None
) -> int:
    """Trace a program. Return its exit status, below zero for the signal that ended it.

    Args:
        program: What to run.
        options: Those of `record`, and the ``targets``.
        lines: How many lines of the tree are shown while it runs.
        outputs: The files to write, each in the format that its suffix names.
        otlp: The address of a collector of OpenTelemetry.
    """
    with TemporaryDirectory(prefix="aspecthook-") as folder:
        view = View(LiveTree(Path(folder)), lines)

        def look() -> None:
            import_module("aspecthook.record._reading")  # `report` needs it, and the program need not wait for that
            view.look()

        status = program.watch({"trace": {**options, "to": folder}}, look)
        if any(Path(folder).glob("*.jsonl")):  # there is none if the program did not start
            report(Path(folder), view, options["targets"], outputs=outputs, otlp=otlp, service=program.name)
    return status


def report(
    folder: Path, view: View, targets: Iterable[str], *, outputs: Iterable[Path], otlp: str | None, service: str
) -> None:
    """Show the rest of the tree and the table, and save the calls; ``service`` is what a collector knows them by."""
    view.look(final=True)
    from aspecthook.record._reading import join, read, summary

    table, left_out = summary(folder)
    if table:
        view.say(f"\n{table}")
    else:
        notes = {line for path in folder.glob("*.notes") for line in path.read_text(encoding="utf-8").splitlines()}
        for why in sorted(notes) or [
            f"no call of {', '.join(targets)}; 'aspecthook match' shows what a pointcut takes"
        ]:
            view.say(f"aspecthook: {why}")
    for why, count in left_out.items():
        view.say(f"{plural(count, 'call')} left out: {why}")

    @cache
    def tape(most: int | None) -> Tape:
        return read(folder, max_calls=most)

    total = sum([row.calls for row in table])
    for path in outputs:
        most = _MOST_ON_PAGE if path.suffix == ".html" and total > _MOST_ON_PAGE else None
        if path.suffix == ".jsonl":
            join(folder, path)
        else:
            tape(most).save(path)
        view.say(f"written: {path}" + (f", the first {most:,} of {total:,} calls" if most else ""))
    if otlp is not None:
        _send(tape(None), view, otlp, service)


def _send(tape: Tape, view: View, url: str, service: str) -> None:
    from ._otlp import send

    taken = send(tape, url, service)
    view.say(f"sent to {url}: {plural(len(tape), 'span')}" if taken else f"{url} has not taken the spans; is it up?")


@final
class View:
    """What is shown on standard error, which the program has too; it may be closed at any time."""

    def __init__(self, tree: LiveTree, most: int) -> None:
        self._tree = tree
        self._left = most
        self._open = True
        self._show: Callable[[Line], None] = self._show_plain
        if sys.stderr.isatty():
            self._show = self._show_rich

    def look(self, *, final: bool = False) -> None:
        """Show what is new."""
        if self._left <= 0 or not self._open:
            return
        for line in self._tree.read(final=final):
            if self._left == 0:
                self.say("... the calls that follow are only counted")
                return
            self._left -= 1
            self._show(line)

    def say(self, text: str) -> None:
        """Show a line of our own."""
        if not self._open:
            return
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:  # the terminal is gone; the program may go on
            self._open = False

    def _show_plain(self, line: Line) -> None:
        self.say("  " * line.depth + line.text)

    def _show_rich(self, line: Line) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True, highlighter=None)
        name, mark, rest = line.text.partition("(")
        text = Text.assemble("  " * line.depth, (name, "bold"), mark, rest, style="red" if line.failed else "")
        try:
            console.print(text, overflow="ellipsis", no_wrap=True, soft_wrap=False)
        except OSError:
            self._open = False
