"""The hook that shows the progress of a run on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import TextIO

from aspecthook.training._options import finite_number, whole_number
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._checks import length_of
from aspecthook.training.loop._run import Run

from ._loggers import LoggerHook
from ._numbers import duration_text, number_text
from ._row import TIMES, Row, rates_row
from ._screen import Bar, Plain, screen_for
from ._timers import eta_of

_REDRAW = 0.1  # seconds; more often than that nobody can read it


@dataclass(slots=True)
class _Pass:
    """A pass over the data whose progress is shown; in a run by iterations, all passes of the training."""

    mode: str
    label: str
    since: float
    done: int
    total: int | None


@HOOKS.register
class ProgressHook(LoggerHook):
    """Show the progress of the run: on a terminal a bar with the newest numbers, elsewhere a line now and then.

    Each epoch prints a line with its means and the time since the line before, and so does each validation. A run by
    iterations prints lines at each validation and at its end. With an `IterTimerHook` the bar has an estimate of the
    remaining time. Files, pipes and simple terminals get plain lines without control characters, and so does any
    terminal if the package rich is missing. Only rank 0 shows anything. If the terminal is closed, the run continues.

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
        self._running = False
        self._closed = False  # whether the terminal was closed
        self._screen: Plain | Bar | None = None
        self._passes: list[_Pass] = []  # a hook may validate within a training epoch
        # When the last results were printed, when the last line was, and when the bar was drawn.
        self._result_at = self._printed_at = self._drawn_at = 0.0

    # Passes

    def _begin(self, runner: Run, *, rerun: bool) -> None:  # noqa: ARG002
        self.by_epoch: bool = runner.by_epoch
        self._running, self._closed = True, False
        self._result_at = self._printed_at = perf_counter()

    def before_train_epoch(self, runner: Run) -> None:
        """Begin to show a pass over the data."""
        if self._running and not self._passes:  # registered in the middle of a run, it waits for the next one
            self._begin_pass(runner)

    def before_val_epoch(self, runner: Run) -> None:
        """Print the training before a validation, and begin to show it."""
        super().before_val_epoch(runner)
        if self._running and not runner.by_epoch and runner.mode == "val":
            self._write_training(runner)
        self._begin_pass(runner)

    before_test_epoch = before_val_epoch

    def before_predict_epoch(self, runner: Run) -> None:
        """Begin to show a prediction."""
        super().before_predict_epoch(runner)
        self._begin_pass(runner)

    def after_train_iter(self, runner: Run) -> None:
        """Show how far the training has come."""
        if self._running:
            super().after_train_iter(runner)
            self._move(runner, runner.inner_iter + 1 if runner.by_epoch else runner.iter + 1)

    def after_iter(self, runner: Run) -> None:
        """Show how far a validation, a test or a prediction has come."""
        if self._passes:
            self._move(runner, self._passes[-1].done + 1)

    def always_epoch(self, runner: Run) -> None:
        """Stop showing the pass, even if it failed; not if a hook has skipped it before it was shown."""
        is_one_of_many = runner.mode == "train" and not runner.by_epoch
        if self._passes and self._passes[-1].mode == runner.mode and not is_one_of_many:
            self._passes.pop()
            if self._passes:
                self._show_pass(runner, self._passes[-1])
        if not self._running and not self._passes:
            self._stop(runner)

    def always_run(self, runner: Run, exc: BaseException | None) -> None:
        """Leave the terminal as it was."""
        super().always_run(runner, exc)
        self._running = False
        self._passes.clear()
        self._stop(runner)

    def _begin_pass(self, runner: Run) -> None:
        now, trains = perf_counter(), runner.mode == "train"
        if not self._running and not self._passes:
            self._result_at = self._printed_at = now
            self._closed = False
        total = runner.max_iters if trains and not runner.by_epoch else length_of(runner.data_loader)
        done = (runner.done.inner_iter if runner.by_epoch else runner.done.iter) if trains else 0
        self._passes.append(_Pass(runner.mode, self._label(runner), now, done, total))
        self._show_pass(runner, self._passes[-1])
        self._draw(runner)

    def _show_pass(self, runner: Run, shown: _Pass) -> None:
        self._show(runner, lambda screen: screen.begin(_head(shown), shown.done, shown.total))

    def _label(self, runner: Run) -> str:
        """Return the name of the pass that begins: an epoch, or a validation after one or within it."""
        if not self._running:
            return runner.mode
        now, trains = runner.done, runner.mode == "train"
        if trains and not runner.by_epoch:
            return "iter"
        place = _place(runner, now.epoch + bool(trains or now.inner_iter), now.iter)
        return place if trains else f"{place} {runner.mode}"

    # Lines with results

    def _write(self, runner: Run, row: Row) -> None:
        title = _place(runner, row.epoch, row.iter) if self._running else ""
        rates = rates_row(runner.optimizer)
        numbers = {name: value for name, value in row.numbers.items() if name not in rates}
        if row.mode == "train" and "lr" in rates:
            numbers["lr"] = rates["lr"]
        now = perf_counter()
        parts = [" ".join(filter(None, (title, row.mode if row.mode != "train" else ""))), *_texts(numbers.items())]
        parts.append(duration_text(now - self._result_at))
        self._result_at = self._printed_at = now
        self._show(runner, lambda screen: screen.print(parts))

    # The bar, or lines in its place

    def _move(self, runner: Run, done: int) -> None:
        if not self._passes or self._screen is None:
            return
        shown, now = self._passes[-1], perf_counter()
        shown.done = done
        if self._screen.live:
            if now - self._drawn_at >= _REDRAW:
                self._draw(runner)
        elif done != shown.total and (
            now - self._printed_at >= self.seconds or (self.every is not None and done % self.every == 0)
        ):
            self._printed_at = now
            self._show(runner, lambda screen: screen.print([_head(shown), *self._numbers(runner, shown)]))

    def _draw(self, runner: Run) -> None:
        shown, self._drawn_at = self._passes[-1], perf_counter()
        self._show(
            runner, lambda screen: screen.draw(_head(shown), shown.done, "  ".join(self._numbers(runner, shown)))
        )

    def _numbers(self, runner: Run, shown: _Pass) -> list[str]:
        """Return the newest numbers, the most important first."""
        if shown.mode != "train":
            left = shown.total - shown.done if shown.done and shown.total is not None else None
            each = (perf_counter() - shown.since) / (shown.done or 1)
            return [] if left is None else [f"eta {duration_text(each * left)}"]
        first, *rest = _texts(self._means(runner).items()) or [""]
        eta = eta_of(runner)
        left_text = "" if eta is None else f"eta {duration_text(eta)}"
        return [text for text in (first, left_text, *_texts(rates_row(runner.optimizer).items())[:1], *rest) if text]

    # The screen

    def _stop(self, runner: Run) -> None:
        if self._screen is not None:
            self._show(runner, lambda screen: screen.stop())
            self._screen = None

    def _show(self, runner: Run, act: Callable[[Plain | Bar], object]) -> None:
        """Use the screen. If the terminal was closed, warn and continue the run."""
        if self._closed or runner.rank != 0:
            return
        try:
            if self._screen is None:
                self._screen = screen_for(self.file)
            act(self._screen)
        except (OSError, ValueError) as error:  # ValueError: the file is closed
            self._closed = True
            screen, self._screen = self._screen, None
            try:
                if screen is not None:
                    screen.stop()  # restores stdout and stderr
            except (OSError, ValueError):
                pass
            runner.logger.warning("the progress cannot be shown any more: %s; the run continues", error)


def _head(shown: _Pass) -> str:
    return f"{shown.label} {shown.done}{'' if shown.total is None else f'/{shown.total}'}"


def _place(runner: Run, epoch: int, done: int) -> str:
    word, count, total = ("epoch", epoch, runner.max_epochs) if runner.by_epoch else ("iter", done, runner.max_iters)
    return f"{word} {count}" if total is None else f"{word} {count:>{len(str(total))}}/{total}"


def _texts(values: Iterable[tuple[str, float | str]]) -> list[str]:
    return [f"{name} {number_text(value)}" for name, value in values if name not in TIMES]
