"""Where progress is shown: on a terminal as rich's bar below all other lines, elsewhere as plain lines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO, final

from ._numbers import one_line

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod

_BAR = 24  # the width of the bar


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

    def draw(self, *_: object, **__: object) -> None:
        """Do nothing: there is no bar."""

    begin = stop = draw


@final
class Bar:
    """Shows lines, and a bar below them; what the program prints meanwhile appears above it."""

    live = True

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, Task, TextColumn
        from rich.table import Column
        from rich.text import Text

        class Numbers(TextColumn):
            """Shrinks with the bar where the terminal is narrow, and stays on its line."""

            def render(self, task: Task) -> Text:
                text = super().render(task)
                text.no_wrap = True
                return text

        # Encodings other than those of Unicode may lack the sign. Markup is off, since names may have brackets.
        cut: OverflowMethod = "ellipsis" if console.encoding.startswith("utf") else "crop"
        # No thread draws: a step draws what it has changed. A stream that goes to a file is left alone.
        self._progress = Progress(
            TextColumn(
                "{task.description}", style="bold", markup=False, table_column=Column(no_wrap=True, overflow=cut)
            ),
            BarColumn(_BAR),
            Numbers("{task.fields[numbers]}", markup=False, table_column=Column(overflow=cut)),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=_is_terminal(sys.stdout),
            redirect_stderr=_is_terminal(sys.stderr),
        )
        self._console = console
        self._moved: list[tuple[logging.StreamHandler[Any], Any]] = []

    def print(self, parts: Sequence[str]) -> None:
        """Print a line, wrapped between its parts if it is too long."""
        from rich.text import Text

        lines, width = [""], self._console.width
        for part in (one_line(part, self._console.encoding) for part in parts):
            lead = "  " if lines[-1] else ""
            if lead and len(lines[-1]) + len(lead) + len(part) > width:
                lines.append(f"    {part}")
            else:
                lines[-1] += lead + part
        for line in lines:
            self._console.print(Text(line))

    def begin(self, head: str, done: int, total: int | None) -> None:
        """Begin a bar in place of the one before."""
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._progress.add_task(one_line(head, self._console.encoding), completed=done, total=total, numbers="")
        if not self._progress.live.is_started:
            self._start()

    def _start(self) -> None:
        streams = sys.stdout, sys.stderr
        self._progress.start()
        # A logging handler keeps the stream that it was made with, and would write into the bar.
        for handler in _stream_handlers():
            for old, new in zip(streams, (sys.stdout, sys.stderr), strict=True):
                if handler.stream is old and new is not old:
                    self._moved.append((handler, old))
                    handler.setStream(new)

    def draw(self, head: str, done: int, numbers: str) -> None:
        """Draw the bar anew."""
        encoding = self._console.encoding
        for task in self._progress.task_ids:
            title, text = one_line(head, encoding), one_line(numbers, encoding)
            self._progress.update(task, description=title, numbers=text, completed=done, refresh=True)

    def stop(self) -> None:
        """Remove the bar, and leave the terminal as it was."""
        moved, self._moved = self._moved, []
        try:
            self._progress.stop()
        finally:
            for handler, stream in moved:
                handler.setStream(stream)


def screen_for(file: TextIO | None) -> Plain | Bar:
    """Return the screen for a file, or for stdout: plain lines if it is no terminal, or rich is missing."""
    stream: Any = file if file is not None else sys.stdout
    if not _is_terminal(stream) or find_spec("rich") is None:  # rich alone would take FORCE_COLOR for a terminal
        return Plain(file)
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  # re-raise what rich handles here: it would end the program

    console = Ours(file=file)
    return Bar(console) if console.is_interactive and not console.is_dumb_terminal else Plain(file)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # None, or closed
        return False


def _stream_handlers() -> list[logging.StreamHandler[Any]]:
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    handlers = [handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers]
    return [handler for handler in dict.fromkeys(handlers) if isinstance(handler, logging.StreamHandler)]
