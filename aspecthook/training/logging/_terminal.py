"""Where progress is shown: on a terminal, one line that moves below all others; elsewhere, plain lines.

Nothing of rich runs in the background: the line is drawn by whoever has something new to show.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, final

from ._numbers import one_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_BAR = 8  # the least width at which a bar says something
_WIDEST = 40


class Look(NamedTuple):
    """What is to be seen of a loop: first what must be, then what may be left out, the least important last."""

    label: str
    done: int
    total: int | None
    numbers: Sequence[str]

    @property
    def head(self) -> str:
        """Say which loop it is, and how far it has come."""
        return f"{self.label} {self.done}{'' if self.total is None else f'/{self.total}'}"

    @property
    def line(self) -> str:
        """Show all of it on a line."""
        return "  ".join([self.head, *self.numbers])


@final
class Plain:
    """Shows lines, and nothing that moves: for files, pipes, and terminals that can do no more."""

    live = False

    def __init__(self, file: TextIO | None) -> None:
        self._file = file

    def say(self, parts: Sequence[str]) -> None:
        """Show a line."""
        file: TextIO | None = self._file if self._file is not None else sys.stdout
        if file is not None:  # a program without a console has none
            file.write(one_line("  ".join(parts), getattr(file, "encoding", None)) + "\n")
            file.flush()

    def start(self, look: Callable[[], Look]) -> None:
        """Show nothing."""

    def draw(self) -> None:
        """Show nothing."""

    def stop(self) -> None:
        """Take nothing away."""


@final
class Terminal:
    """Shows lines, and below them one that moves, as wide as the terminal is at the time."""

    live = True

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Any = None  # rich's Live
        self._moved: list[tuple[logging.StreamHandler[Any], Any]] = []

    def say(self, parts: Sequence[str]) -> None:
        """Show a line, folded between its parts if it is too long."""
        from rich.text import Text

        shown = [one_line(part, self._console.encoding) for part in parts]
        for line in _folded(shown, self._console.width):
            self._console.print(Text(line))

    def start(self, look: Callable[[], Look]) -> None:
        """Begin to show the line that moves; what others print meanwhile goes above it."""
        from rich.live import Live

        if self._live is not None:
            return
        streams = sys.stdout, sys.stderr
        # What goes into a file stays there.
        redirected = [_is_terminal(stream) for stream in streams]
        self._live = Live(
            get_renderable=lambda: _Line(look()),
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=redirected[0],
            redirect_stderr=redirected[1],
        )
        self._live.start(refresh=True)
        # A handler keeps the stream that it was given, and would write into the line.
        for handler in _stream_handlers():
            for old, new in zip(streams, (sys.stdout, sys.stderr), strict=True):
                if handler.stream is old and new is not old:
                    self._moved.append((handler, old))
                    handler.setStream(new)

    def draw(self) -> None:
        """Show the line as it is now."""
        if self._live is not None:
            self._live.refresh()

    def stop(self) -> None:
        """Take the line away, and leave the terminal as it was."""
        live, self._live = self._live, None
        moved, self._moved = self._moved, []
        try:
            if live is not None:
                live.stop()
        finally:
            for handler, stream in moved:
                handler.setStream(stream)


@final
class _Line:
    """The line that moves: as much of a look as there is room for, and a bar."""

    def __init__(self, look: Look) -> None:
        self.look = look

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.cells import cell_len, set_cell_size
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        look, room = self.look, options.max_width
        head = one_line(look.head, console.encoding)
        if cell_len(head) > room:
            yield Text(set_cell_size(head, room), end="")
            return
        room -= cell_len(head)
        with_bar = look.total is not None and room > _BAR
        room -= (_BAR + 1) * with_bar
        numbers = ""
        for text in look.numbers:
            shown = f"  {one_line(text, console.encoding)}"
            if cell_len(shown) <= room:
                room -= cell_len(shown)
                numbers += shown
        yield Text(head, style="bold", end=" " if with_bar else "")
        if with_bar:
            yield ProgressBar(look.total or 1, look.done, width=min(_WIDEST, _BAR + room))
        yield Text(numbers, end="")


def screen_for(file: TextIO | None) -> Plain | Terminal:
    """Give what suits the file, or the standard output: plain lines where it is no terminal, or rich is missing."""
    stream: Any = file if file is not None else sys.stdout
    if not _is_terminal(stream) or find_spec("rich") is None:  # rich itself goes by FORCE_COLOR too
        return Plain(file)
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  # rich calls it where it handles the error, and would end the program

    console = Ours(file=file)
    return Terminal(console) if console.is_interactive and not console.is_dumb_terminal else Plain(file)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _stream_handlers() -> list[logging.StreamHandler[Any]]:
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    handlers = [handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers]
    return [handler for handler in dict.fromkeys(handlers) if isinstance(handler, logging.StreamHandler)]


def _folded(parts: Sequence[str], width: int) -> list[str]:
    """Put parts on as many lines as they need; those after the first are set in."""
    lines = [""]
    for part in parts:
        lead = "  " if lines[-1] else ""
        if lead and len(lines[-1]) + len(lead) + len(part) > width:
            lines.append(f"    {part}")
        else:
            lines[-1] += lead + part
    return lines
