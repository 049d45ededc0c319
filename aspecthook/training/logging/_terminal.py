"""Showing progress: on a terminal as a live line below all others, elsewhere as plain lines.

The live line is redrawn by the thread that has something new to show; rich runs no thread in the background.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, final

from ._numbers import one_line

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod
    from rich.table import Table

_BAR = 24  # the width of the bar


class Status(NamedTuple):
    """The progress of a loop: its position, and numbers, the most important first."""

    label: str
    done: int
    total: int | None
    numbers: Sequence[str]

    @property
    def head(self) -> str:
        """The loop, and how far it has come."""
        return f"{self.label} {self.done}{'' if self.total is None else f'/{self.total}'}"

    @property
    def line(self) -> str:
        """Everything on one line."""
        return "  ".join([self.head, *self.numbers])


@final
class Plain:
    """Shows lines only: for files, pipes and simple terminals."""

    live = False

    def __init__(self, file: TextIO | None) -> None:
        self._file = file

    def print(self, parts: Sequence[str]) -> None:
        """Print a line."""
        file: TextIO | None = self._file if self._file is not None else sys.stdout
        if file is not None:  # it is None in a program without a console
            file.write(one_line("  ".join(parts), getattr(file, "encoding", None)) + "\n")
            file.flush()

    def start(self, *_: object) -> None:
        """Do nothing: there is no live line."""

    draw = stop = start


@final
class Terminal:
    """Shows lines, and a live line below them that is as wide as the terminal."""

    live = True

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Any = None  # rich's Live
        self._moved: list[tuple[logging.StreamHandler[Any], Any]] = []

    def print(self, parts: Sequence[str]) -> None:
        """Print a line, wrapped between its parts if it is too long."""
        from rich.text import Text

        shown = [one_line(part, self._console.encoding) for part in parts]
        for line in _wrapped(shown, self._console.width):
            self._console.print(Text(line))

    def start(self, status: Callable[[], Status]) -> None:
        """Start the live line; what the program prints while it is shown appears above it."""
        from rich.live import Live

        if self._live is not None:
            return
        streams = sys.stdout, sys.stderr
        # A stream that goes to a file is left alone.
        redirected = [_is_terminal(stream) for stream in streams]
        self._live = Live(
            get_renderable=lambda: _live_line(status(), self._console.encoding),
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=redirected[0],
            redirect_stderr=redirected[1],
        )
        self._live.start(refresh=True)
        # A logging handler keeps the stream that it was made with, and would write into the live line.
        for handler in _stream_handlers():
            for old, new in zip(streams, (sys.stdout, sys.stderr), strict=True):
                if handler.stream is old and new is not old:
                    self._moved.append((handler, old))
                    handler.setStream(new)

    def draw(self) -> None:
        """Redraw the live line."""
        if self._live is not None:
            self._live.refresh()

    def stop(self) -> None:
        """Remove the live line, and leave the terminal as it was."""
        live, self._live = self._live, None
        moved, self._moved = self._moved, []
        try:
            if live is not None:
                live.stop()
        finally:
            for handler, stream in moved:
                handler.setStream(stream)


def _live_line(status: Status, encoding: str) -> Table:
    """Return a status as one line; on a narrow terminal the bar and the numbers are cut, the longer of them first."""
    from rich.progress_bar import ProgressBar
    from rich.table import Column, Table
    from rich.text import Text

    cut: OverflowMethod = "ellipsis" if encoding.startswith("utf") else "crop"  # other encodings may lack the sign
    line = Table.grid(Column(style="bold", no_wrap=True, overflow=cut), Column(), Column(overflow=cut), padding=(0, 1))
    bar = ProgressBar(status.total or 1, status.done, width=_BAR) if status.total is not None else ""
    numbers = Text("  ".join(one_line(text, encoding) for text in status.numbers), no_wrap=True)
    line.add_row(Text(one_line(status.head, encoding)), bar, numbers)
    return line


def screen_for(file: TextIO | None) -> Plain | Terminal:
    """Return the screen for a file, or for stdout: plain lines if it is no terminal, or rich is missing."""
    stream: Any = file if file is not None else sys.stdout
    if not _is_terminal(stream) or find_spec("rich") is None:  # rich alone would take FORCE_COLOR for a terminal
        return Plain(file)
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  # re-raise what rich handles here: it would end the program

    console = Ours(file=file)
    return Terminal(console) if console.is_interactive and not console.is_dumb_terminal else Plain(file)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # None, or closed
        return False


def _stream_handlers() -> list[logging.StreamHandler[Any]]:
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    handlers = [handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers]
    return [handler for handler in dict.fromkeys(handlers) if isinstance(handler, logging.StreamHandler)]


def _wrapped(parts: Sequence[str], width: int) -> list[str]:
    """Wrap parts into as many lines as they need, and indent all but the first."""
    lines = [""]
    for part in parts:
        lead = "  " if lines[-1] else ""
        if lead and len(lines[-1]) + len(lead) + len(part) > width:
            lines.append(f"    {part}")
        else:
            lines[-1] += lead + part
    return lines
