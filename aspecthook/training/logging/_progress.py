"""The hook that shows the progress of a run: a bar of rich below all other lines, or lines alone."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from math import inf
from time import perf_counter
from typing import Any, TextIO, cast

from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number, whole_number
from aspecthook.training.backends._state import is_any
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._checks import length_of
from aspecthook.training.loop._run import Run

from ._loggers import LoggerHook
from ._numbers import duration_text, number_text, one_line, rates_of
from ._row import TIMES, Row
from ._timers import eta_of

_REDRAW = 0.1  # seconds; more often than that nobody can read it
_BAR, _LEAST = 24, 6  # the width of the bar, and what it shrinks to where the terminal is narrow


@HOOKS.register
class ProgressHook(LoggerHook):
    """Show the progress of the run: on a terminal a bar with the newest numbers, elsewhere a line now and then.

    Each epoch prints a line with its means and the time since the line before, and so does each validation. A run by
    iterations prints lines at each validation and at its end. With an `IterTimerHook` the bar has an estimate of the
    remaining time. Files, pipes and simple terminals get plain lines without control characters. Only rank 0 shows
    anything. If the terminal is closed, the run continues. Needs rich.

    Args:
        interval: Without a bar: print a line every so many iterations; None to go by time alone.
        seconds: Without a bar: print a line after so many seconds without one.
        file: The file to write to; stdout if not given.

    Example:
        >>> ProgressHook(interval=100).priority
        'VERY_LOW'
    """

    def __init__(self, interval: int | None = None, *, seconds: float = 30.0, file: TextIO | None = None) -> None:
        super().__init__(None, 0, ignore_last=False)
        self.every: int | None = None if interval is None else whole_number("ProgressHook", "interval", interval, 1)
        self.seconds: float = seconds if seconds == inf else finite_number("ProgressHook", "seconds", seconds, above=0)
        self.file = file
        if find_spec("rich") is None:
            raise TrainingError("ProgressHook needs rich; pip install rich")
        self._running = False
        self._closed = False  # whether the terminal was closed
        self._bar: Any = None  # rich is imported when something is shown
        self._moved: list[tuple[logging.StreamHandler[Any], Any]] = []  # handlers that write above the bar
        self._since = 0.0  # when the validation, test or prediction under way began
        # When the last results were printed, when the last line was, and when the bar was drawn.
        self._result_at = self._printed_at = self._drawn_at = 0.0

    # When

    def _begin(self, runner: Run, *, rerun: bool) -> None:  # noqa: ARG002
        self.by_epoch: bool = runner.by_epoch
        self._running, self._closed = True, False
        self._result_at = self._printed_at = perf_counter()

    def before_train_epoch(self, runner: Run) -> None:
        """Show that an epoch begins."""
        if self._running:  # registered in the middle of a run, it waits for the next one
            self._draw(runner, runner.progress.inner_iter if runner.by_epoch else runner.progress.iter)

    def before_val_epoch(self, runner: Run) -> None:
        """Print the training before a validation, and show that it begins."""
        super().before_val_epoch(runner)
        if self._running and not runner.by_epoch and runner.mode == "val":
            self._write_training(runner)
        self._begin_pass(runner)

    before_test_epoch = before_val_epoch

    def before_predict_epoch(self, runner: Run) -> None:
        """Show that a prediction begins."""
        super().before_predict_epoch(runner)
        self._begin_pass(runner)

    def _begin_pass(self, runner: Run) -> None:
        self._since = perf_counter()
        if not self._running:
            self._result_at = self._printed_at = self._since
            self._closed = False
        self._draw(runner, 0)

    def after_iter(self, runner: Run) -> None:
        """Show how far the training, or a validation, a test or a prediction has come."""
        if runner.mode == "train":
            if not self._running:
                return
            super().after_train_iter(runner)
        bar, now = self._open(runner), perf_counter()
        if bar is None:
            return
        done = (runner.iter if runner.mode == "train" and not runner.by_epoch else runner.inner_iter) + 1
        if not bar.disable:
            if now - self._drawn_at >= _REDRAW:
                self._draw(runner, done)
        elif now - self._printed_at >= self.seconds or (self.every is not None and done % self.every == 0):
            label, total = self._shown(runner)
            if done != total:  # else a line of results follows
                self._printed_at = now
                self._print(runner, [_head(label, done, total), *self._numbers(runner, done, total)])

    after_train_iter = after_iter

    def always_epoch(self) -> None:
        """Leave the terminal as it was, after a validation, a test or a prediction that no run makes."""
        if not self._running:
            self._stop()

    def always_run(self, runner: Run, exc: BaseException | None) -> None:
        """Leave the terminal as it was."""
        super().always_run(runner, exc)
        self._running = False
        self._stop()

    # What is shown

    def _write(self, runner: Run, row: Row) -> None:
        """Print a row of results."""
        title = _place(runner, row.epoch, row.iter) if self._running else ""
        rates = rates_of(runner.optimizer)
        numbers = {name: value for name, value in row.numbers.items() if name not in rates}
        if row.mode == "train" and "lr" in rates:
            numbers["lr"] = rates["lr"]
        now = perf_counter()
        head = " ".join(filter(None, (title, row.mode if row.mode != "train" else "")))
        self._print(runner, [head, *_texts(numbers.items()), duration_text(now - self._result_at)])
        self._result_at = self._printed_at = now

    def _shown(self, runner: Run) -> tuple[str, int | None]:
        """Return the name of the pass over the data that is under way, and its length, if that is known."""
        trains, done = runner.mode == "train", runner.progress
        if trains and not runner.by_epoch:  # all passes of the training are one
            return "iter", runner.max_iters
        label = runner.mode
        if self._running:  # an epoch, or a validation after one or within it
            place = _place(runner, done.epoch + bool(trains or done.inner_iter), done.iter)
            label = place if trains else f"{place} {runner.mode}"
        return label, length_of(runner.data_loader)

    def _numbers(self, runner: Run, done: int, total: int | None) -> list[str]:
        """Return the newest numbers, the most important first."""
        if runner.mode != "train":
            if not done or total is None:
                return []
            return [f"eta {duration_text((perf_counter() - self._since) / done * (total - done))}"]
        first, *rest = _texts(self._means(runner).items()) or [""]
        eta = eta_of(runner)
        left = "" if eta is None else f"eta {duration_text(eta)}"
        return [text for text in (first, left, *_texts(rates_of(runner.optimizer).items())[:1], *rest) if text]

    def _print(self, runner: Run, parts: list[str]) -> None:
        """Print a line; a terminal folds it between words."""
        bar = self._open(runner)
        if bar is not None:
            from rich.text import Text

            text = one_line("  ".join(filter(None, parts)), bar.console.encoding)
            with self._tolerating(runner):
                bar.console.print(Text(text), soft_wrap=bar.disable)

    def _draw(self, runner: Run, done: int) -> None:
        """Draw the bar of the pass over the data that is under way."""
        bar = self._open(runner)
        if bar is None or bar.disable:
            return
        self._drawn_at = perf_counter()
        label, total = self._shown(runner)
        from rich.cells import cell_len, set_cell_size

        width, encoding = bar.console.width, bar.console.encoding
        head = one_line(_head(label, done, total), encoding)
        numbers = one_line("  ".join(self._numbers(runner, done, total)), encoding)
        room = max(0, width - cell_len(head) - _LEAST - 2)
        numbers = set_cell_size(numbers, room) if cell_len(numbers) > room else numbers
        bar.columns[1].bar_width = max(_LEAST, min(_BAR, width - cell_len(head) - cell_len(numbers) - 2))
        with self._tolerating(runner):
            (task,) = bar.task_ids
            bar.update(task, description=head, numbers=numbers, completed=done, total=total)
            if not bar.live.is_started:
                self._start(bar)
            bar.refresh()

    # The terminal

    def _open(self, runner: Run) -> Any:
        """Return the bar, which does not show where there is no terminal; None if the terminal was closed."""
        if self._bar is None and not self._closed and runner.rank == 0:
            self._bar = _bar_on(self.file)
        return self._bar

    def _start(self, bar: Any) -> None:
        """Show the bar; what the program prints, and what it logs, appears above it from now on."""
        streams = sys.stdout, sys.stderr
        bar.start()
        # A logging handler keeps the stream that it was made with, and would write into the bar.
        for logger in [logging.root, *logging.root.manager.loggerDict.values()]:
            for handler in cast("list[Any]", logger.handlers) if isinstance(logger, logging.Logger) else ():
                for old, new in zip(streams, (sys.stdout, sys.stderr), strict=True):
                    if is_any(handler, logging.StreamHandler) and handler.stream is old and new is not old:
                        self._moved.append((handler, old))
                        handler.setStream(new)

    def _stop(self) -> None:
        """Remove the bar, and leave the terminal as it was."""
        bar, self._bar = self._bar, None
        with suppress(OSError, ValueError):  # the terminal was closed
            if bar is not None:
                bar.stop()
        while self._moved:
            handler, stream = self._moved.pop()
            handler.setStream(stream)

    @contextmanager
    def _tolerating(self, runner: Run) -> Generator[None]:
        """Show something in this block. If the terminal was closed, warn and continue the run."""
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: the file is closed
            self._closed = True
            self._stop()
            runner.logger.warning("the progress cannot be shown any more: %s; the run continues", error)


def _bar_on(file: TextIO | None) -> Any:
    """Return a bar for a file, or for stdout; it is disabled where there is no terminal that can show it."""
    # Rich draws a random number as it is imported, and the next numbers are those of the run.
    state = random.getstate()
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    random.setstate(state)

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  # re-raise what rich handles here: it would end the program

    # Rich alone would take FORCE_COLOR for a terminal. Markup is off, since names may have brackets. No thread draws: a
    # step draws what it has changed. A stream that goes to a file is left alone.
    console = Ours(
        file=file, force_terminal=_is_terminal(file if file is not None else sys.stdout), force_jupyter=False
    )
    bar = Progress(
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(_BAR),
        TextColumn("{task.fields[numbers]}", markup=False),
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=_is_terminal(sys.stdout),
        redirect_stderr=_is_terminal(sys.stderr),
        disable=not console.is_interactive or console.is_dumb_terminal,
    )
    bar.add_task("", total=None, numbers="")
    return bar


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # None, or closed
        return False


def _head(label: str, done: int, total: int | None) -> str:
    return f"{label} {done}{'' if total is None else f'/{total}'}"


def _place(runner: Run, epoch: int, done: int) -> str:
    word, count, total = ("epoch", epoch, runner.max_epochs) if runner.by_epoch else ("iter", done, runner.max_iters)
    return f"{word} {count}" if total is None else f"{word} {count:>{len(str(total))}}/{total}"


def _texts(values: Iterable[tuple[str, float | str]]) -> list[str]:
    return [f"{name} {number_text(value)}" for name, value in values if name not in TIMES]
