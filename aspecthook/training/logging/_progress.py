"""The hook that shows the progress of a run: lines, and a bar of rich below them."""

from __future__ import annotations

import logging
import os
import random
import sys
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._reading import length_of
from aspecthook.training.loop._runner import Runner

from ._loggers import RATES, TIMES, LoggerHook, Row, duration_text, eta_of, number_text, one_line

if TYPE_CHECKING:
    from rich.progress import Progress

_REDRAW = 0.1  # seconds; nobody could read a bar that changes more often


class Bar:
    """A bar below all other lines of stdout."""

    def __init__(self) -> None:
        # Rich draws a random number as it is imported, and the next numbers are those of the run.
        state = random.getstate()
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        random.setstate(state)

        class BarConsole(Console):
            def on_broken_pipe(self) -> None:  # rich would end the program
                raise  # noqa: PLE0704  # the error that rich handles when it calls this

        console = BarConsole(force_terminal=True, force_jupyter=False, highlight=False)
        rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        # Markup is off, since names may have brackets. Each step draws the bar itself, without a thread. If stderr
        # goes to a file, it is left alone.
        self._progress: Progress = Progress(
            TextColumn("{task.description}", style="bold", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(max(6, min(24, console.width // 5))),
            TextColumn("{task.fields[numbers]}", markup=False, table_column=rest),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stderr=_is_terminal(sys.stderr),
            expand=True,
        )
        self._task = self._progress.add_task("", total=None, numbers="")
        # Any: a handler of logging, and its stream. These handlers write above the bar.
        self._moved: list[tuple[Any, Any]] = []

    def draw(self, head: str, numbers: str, done: int, total: int | None) -> None:
        """Draw the bar. From now on, the program's prints and logs appear above it."""
        self._progress.update(self._task, description=_fit(head), numbers=_fit(numbers), completed=done, total=total)
        if not self._progress.live.is_started:
            streams = sys.stdout, sys.stderr
            self._progress.start()
            self._move_handlers(*streams)
        self._progress.refresh()

    def _move_handlers(self, *streams: object) -> None:
        """Make logging handlers write above the bar; the streams that they were created with would write into it."""
        for logger in [logging.root, *logging.root.manager.loggerDict.values()]:
            handlers: list[Any] = logger.handlers if isinstance(logger, logging.Logger) else []
            for handler in handlers:
                for old, new in zip(streams, (sys.stdout, sys.stderr), strict=True):
                    if new is not old and getattr(handler, "stream", None) is old:
                        self._moved.append((handler, old))
                        handler.setStream(new)

    def stop(self) -> None:
        """Remove the bar, and leave the terminal as it was."""
        with suppress(OSError, ValueError):  # the terminal was closed
            self._progress.stop()
        while self._moved:
            handler, stream = self._moved.pop()
            handler.setStream(stream)


def _fit(text: str) -> str:
    """Return a text as a line that stdout can show; while there is a bar, sys.stdout is a proxy by rich."""
    return one_line(text, getattr(getattr(sys.stdout, "rich_proxied_file", sys.stdout), "encoding", None))


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that can show a bar."""
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    except ValueError:  # closed
        return False


@HOOKS.register
class ProgressHook(LoggerHook):
    """Show the progress of the run: a line for each epoch, and on a terminal a bar with the newest numbers.

    The line of an epoch has its means and the time since the line before. Each validation has a line too, and so has a
    test after the run. A run by iterations prints lines at each validation and at its end. With an `IterTimerHook` the
    bar has an estimate of the remaining time. Files, pipes and simple terminals get the lines, without control
    characters. Only rank 0 shows anything. If the terminal is closed, the run continues. Needs rich.

    Example:
        >>> ProgressHook().priority
        'VERY_LOW'
    """

    needs: ClassVar[tuple[str, ...]] = ("rich",)

    def __init__(self) -> None:
        super().__init__(None, 0, ignore_last=False)
        self._sink, self._sink_name = partial(print, flush=True), "the progress"
        self._running = False
        self._bar: Bar | None = None
        self._printed_at = self._drawn_at = 0.0

    # When

    def before_run(self, runner: Runner) -> None:
        """Begin to show the training."""
        self.by_epoch: bool = runner.by_epoch
        self._running = True
        self._printed_at = perf_counter()
        super().before_run(runner)

    def before_epoch(self, runner: Runner) -> None:
        """Show that a pass over the data begins; print the training before a validation."""
        super().before_epoch(runner)
        if runner.mode == "val" and not runner.by_epoch:
            self._write_training(runner)
        self._draw(runner, 0 if runner.mode != "train" else runner.progress.inner_iter)

    def after_iter(self, runner: Runner) -> None:
        """Show how far the training, or a validation, a test or a prediction has come."""
        if runner.mode == "train" and self._running:
            super().after_train_iter(runner)
        if perf_counter() - self._drawn_at >= _REDRAW:
            self._draw(runner, runner.inner_iter + 1)

    after_train_iter = after_iter

    def always_run(self, runner: Runner, exc: BaseException | None) -> None:
        """Leave the terminal as it was."""
        self._running = False
        self._stop()
        super().always_run(runner, exc)

    # What is shown

    def _write(self, runner: Runner, row: Row) -> None:
        """Print a row of results."""
        now = perf_counter()
        head = _place(runner, row.epoch, row.iter) if self._running else ""
        head = head if row.mode == "train" else f"{head} {row.mode}".lstrip()
        duration = [duration_text(now - self._printed_at)] if self._running else []
        text = "  ".join([head, *_texts(row), *duration])
        self._send(runner, _fit(text))
        self._printed_at = now

    def _draw(self, runner: Runner, done: int) -> None:
        """Draw the bar of the pass over the data that is under way."""
        if not self._running or runner.rank != 0 or not _is_terminal(sys.stdout):
            return
        now, total = runner.progress, length_of(runner.data_loader)
        counts = f"{done}" if total is None else f"{done}/{total}"
        numbers: list[str] = []
        if runner.mode != "train":
            head = f"{_place(runner, now.epoch + bool(now.inner_iter), now.iter)} {runner.mode} {counts}"
        else:
            head = f"{_place(runner, now.epoch + 1, now.iter)} {counts}"
            if not runner.by_epoch:  # one bar for all passes over the data
                done, total = done + now.iter - now.inner_iter, runner.max_iters
                head = _place(runner, 0, done)
            eta = eta_of(runner)
            numbers = [] if eta is None else [f"eta {duration_text(eta)}"]
            numbers += _texts(self._row(runner, "train", self._means(runner)))
        self._bar = self._bar or Bar()
        try:
            self._bar.draw(head, "  ".join(numbers), done, total)
        except (OSError, ValueError):  # the terminal was closed; the next line of text raises, and is warned of
            self._stop()
        self._drawn_at = perf_counter()

    def _stop(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()


def _place(runner: Runner, epoch: int, done: int) -> str:
    word, count, total = ("epoch", epoch, runner.max_epochs) if runner.by_epoch else ("iter", done, runner.max_iters)
    return f"{word} {count}" if total is None else f"{word} {count:>{len(str(total))}}/{total}"


def _texts(row: Row) -> list[str]:
    """Return the numbers of a row as texts, without times and momenta, and of the training with its rate last."""
    names = [name for name in row.numbers if name not in (*RATES, *TIMES)]
    names += ["lr"] if row.mode == "train" and "lr" in row.numbers else []
    return [f"{name} {number_text(row.numbers[name])}" for name in names]
