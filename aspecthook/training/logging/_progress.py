"""The hook that shows the progress of a run on the terminal."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Any, TextIO

from aspecthook.training._options import finite_number, whole_number
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._checks import length_of
from aspecthook.training.loop._run import Run

from ._numbers import duration_text, number_text
from ._rows import PLACE, TIMES, LogRow, LogRows, loaded_rows, rates_row
from ._terminal import Plain, Status, Terminal, screen_for
from ._timers import eta_of

_REDRAW = 0.1  # seconds; more often than that nobody can read it


@dataclass(slots=True)
class _Loop:
    """A pass over the data whose progress is shown."""

    mode: str
    label: str
    since: float
    done: int
    total: int | None


@HOOKS.register
class ProgressHook(Hook):
    """Show the progress of the run: on a terminal a bar with the newest numbers, elsewhere a line now and then.

    Each epoch prints a line: the means over the epoch, the numbers of the validation after it, and the time since the
    previous line. A run by iterations prints one at each validation and at its end. With an `IterTimerHook` the bar has
    an estimate of the remaining time. Files, pipes and simple terminals get plain lines without control characters, and
    so does any terminal if the package rich is missing. Only rank 0 shows anything. If the terminal is closed, the run
    continues.

    Args:
        interval: Without a bar: print a line every so many iterations; None to go by time alone.
        seconds: Without a bar: print a line after so many seconds without one.
        file: The file to write to; stdout if not given.

    Example:
        >>> ProgressHook(interval=100).priority
        'VERY_LOW'
    """

    priority: int | str = "VERY_LOW"

    def __init__(self, interval: int | None = None, *, seconds: float = 30.0, file: TextIO | None = None) -> None:
        self.interval: int | None = None if interval is None else whole_number("ProgressHook", "interval", interval, 1)
        self.seconds: float = seconds if seconds == inf else finite_number("ProgressHook", "seconds", seconds, above=0)
        self.file = file
        self._rows = LogRows(0, by_epoch=True, ignore_last=False)
        self._runner: weakref.ref[Run] | None = None
        self._running = False
        self._loaded: Mapping[str, Any] | None = None
        self._screen: Plain | Terminal | None = None
        self._closed = False  # whether the terminal was closed
        self._loops: list[_Loop] = []  # a hook may validate within a training epoch
        self._last: _Loop | None = None
        self._trained: LogRow | None = None  # the training row that the next line begins with
        # When the last results were printed, when the last line was, and when the bar was drawn.
        self._result_at = self._printed_at = self._drawn_at = 0.0

    # Stages

    def before_run(self, runner: Run) -> None:
        """Begin, or continue where a resumed run was."""
        self._running, self._closed, self._screen = True, False, None
        self._runner = weakref.ref(runner)
        self._rows.by_epoch, self._trained = runner.by_epoch, None
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            self._rows.load(loaded["rows"])
            self._trained = loaded["trained"]
        self._rows.begin(runner)
        self._result_at = self._printed_at = perf_counter()

    def before_epoch(self, runner: Run) -> None:
        """Start to show a pass over the data."""
        if runner.mode == "train":
            if not self._running:  # registered in the middle of a run, whose end would not call this hook
                return
            self._print_trained(runner)
        else:
            if self._running:
                self._keep_last(self._rows.advance(runner))
                self._keep_last([] if runner.by_epoch or runner.mode != "val" else self._rows.close(runner))
            self._rows.begin_validation(runner)
        self._begin(runner)

    def after_iter(self, runner: Run) -> None:
        """Show how far the pass has come."""
        if runner.mode == "train" and self._running:
            self._keep_last(self._rows.advance(runner, runner.iter + 1))
        if self._loops:
            loop = self._loops[-1]
            loop.done = _done(runner) if loop.mode == "train" else loop.done + 1
            self._move(runner, loop)

    def after_epoch(self, runner: Run) -> None:
        """Print the results; those of a training epoch are printed with the validation after it."""
        loop = self._end(runner)
        if runner.mode == "train" and self._running:
            self._keep_last(self._rows.advance(runner))
        elif loop is not None:
            self._print_results(runner, loop, self._rows.end_validation(runner))

    def always_epoch(self, runner: Run) -> None:
        """Stop showing the pass, even if it failed."""
        self._end(runner)
        if not self._running and not self._loops:
            self._stop(runner)

    def always_run(self, runner: Run) -> None:
        """Print the results of the last epoch, and leave the terminal as it was."""
        self._print_trained(runner)
        self._running = False
        self._loops.clear()
        self._stop(runner)

    def _begin(self, runner: Run) -> None:
        now = perf_counter()
        if not self._running and not self._loops:
            self._screen, self._result_at, self._printed_at = None, now, now
        done = _done(runner) if runner.mode == "train" else 0
        self._last = _Loop(runner.mode, self._label(runner), now, done, _total(runner))
        self._loops.append(self._last)
        self._try(runner, lambda screen: screen.start(lambda: self._status(runner)))
        if runner.by_epoch or runner.mode != "train":  # the passes of a run by iterations are shown as one
            self._try(runner, lambda screen: screen.draw())

    def _end(self, runner: Run) -> _Loop | None:
        """Return the pass that has ended; None if a hook before this one failed or skipped it before it was shown."""
        return self._loops.pop() if self._loops and self._loops[-1].mode == runner.mode else None

    # Lines with results

    def _keep_last(self, rows: list[LogRow]) -> None:
        self._trained = rows[-1] if rows else self._trained

    def _print_trained(self, runner: Run) -> None:
        row, self._trained = self._trained, None
        if row is not None:
            self._print(runner, _place(runner, row), row, row)

    def _print_results(self, runner: Run, loop: _Loop, rows: list[LogRow]) -> None:
        """Print the numbers of a validation or a test, with those of the training before it."""
        row = rows[0] if rows else {}
        trained: LogRow = {}
        if self._running and loop.mode == "val":
            trained, self._trained = self._trained or {}, None
        place = trained or (row if self._running and loop.mode == "val" else {})
        title = _place(runner, place) if place else _count_text(loop.mode, loop.done, loop.total)
        self._print(runner, title, {**row, **trained}, trained)

    def _print(self, runner: Run, title: str, row: LogRow, trained: LogRow) -> None:
        rates = rates_row(runner.optimizer)
        names = sorted(row, key=lambda name: name.startswith("val_"))  # those of a validation last
        shown = _numbers((name, row[name]) for name in names if name not in rates)
        rate = _numbers((name, trained[name]) for name in ("lr",) if name in trained)
        now = perf_counter()
        parts = [title, *shown, *rate, duration_text(now - self._result_at)]
        self._result_at = self._printed_at = now
        self._try(runner, lambda screen: screen.print(parts))

    # The bar, or lines in its place

    def _move(self, runner: Run, loop: _Loop) -> None:
        if self._screen is None:
            return
        now = perf_counter()
        if self._screen.live:
            if now - self._drawn_at >= _REDRAW:
                self._drawn_at = now
                self._try(runner, lambda screen: screen.draw())
        elif loop.done != loop.total and (now - self._printed_at >= self.seconds or self._is_due(loop)):
            self._printed_at = now
            self._try(runner, lambda screen: screen.print([self._status(runner).line]))

    def _is_due(self, loop: _Loop) -> bool:
        return self.interval is not None and loop.done % self.interval == 0

    def _status(self, runner: Run) -> Status:
        loop = self._loops[-1] if self._loops else self._last
        assert loop is not None
        return Status(loop.label, loop.done, loop.total, self._newest(runner, loop))

    def _label(self, runner: Run) -> str:
        """Return the name of the pass that begins: an epoch, or a validation after one or within it."""
        if not self._running:
            return runner.mode
        trains, done = runner.mode == "train", runner.done
        if trains and not runner.by_epoch:
            return "iter"
        epoch = done.epoch + bool(trains or done.inner_iter)
        place = _place(runner, {"epoch": epoch, "iter": done.iter})
        return place if trains else f"{place} {runner.mode}"

    def _newest(self, runner: Run, loop: _Loop) -> list[str]:
        """Return the newest numbers, the most important first."""
        means = self._rows.means(runner.logs) if loop.mode == "train" else {}
        first, *rest = _numbers(means.items()) or [""]
        eta = eta_of(runner) if loop.mode == "train" else _seconds_left(loop)
        left = "" if eta is None else f"eta {duration_text(eta)}"
        rates = _numbers(rates_row(runner.optimizer).items()) if loop.mode == "train" else []
        return [text for text in (first, left, *rates[:1], *rest) if text]

    # The screen

    def _stop(self, runner: Run) -> None:
        if self._screen is not None:
            self._try(runner, lambda screen: screen.stop())

    def _try(self, runner: Run, act: Callable[[Plain | Terminal], object]) -> None:
        """Use the screen. If the terminal was closed, warn and continue the run."""
        if self._closed or runner.rank != 0:
            return
        try:
            if self._screen is None:
                self._screen = screen_for(self.file)
            act(self._screen)
        except (OSError, ValueError) as error:  # ValueError: the file is closed
            self._closed = True
            self._abandon_screen()
            runner.logger.warning("the progress cannot be shown any more: %s; the run continues", error)

    def _abandon_screen(self) -> None:
        screen, self._screen = self._screen, None
        try:
            if screen is not None:
                screen.stop()  # restores stdout and stderr
        except (OSError, ValueError):
            pass

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the next line."""
        if self._loaded is not None:
            return dict(self._loaded)
        rows, due = self._rows.state(self._runner() if self._runner is not None else None)
        trained = [row for row in due if row["mode"] == "train"]
        return {"rows": rows, "trained": trained[-1] if trained else self._trained}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state when the run begins."""
        self._rows.check(state["rows"])
        trained = state["trained"]
        self._loaded = {**state, "trained": loaded_rows([trained])[0] if trained else None}


def _done(runner: Run) -> int:
    return runner.done.inner_iter if runner.by_epoch else runner.done.iter


def _total(runner: Run) -> int | None:
    counts_iters = runner.mode == "train" and not runner.by_epoch
    return runner.max_iters if counts_iters else length_of(runner.data_loader)


def _place(runner: Run, row: LogRow) -> str:
    word, end = ("epoch", runner.max_epochs) if runner.by_epoch else ("iter", runner.max_iters)
    return _count_text(word, row[word], end)


def _count_text(word: str, done: float | str, total: int | None) -> str:
    return f"{word} {done}" if total is None else f"{word} {done:>{len(str(total))}}/{total}"


def _numbers(values: Iterable[tuple[str, float | str]]) -> list[str]:
    hidden = (*PLACE, *TIMES)
    return [f"{name} {number_text(value)}" for name, value in values if name not in hidden]


def _seconds_left(loop: _Loop) -> float | None:
    if not loop.done or loop.total is None:
        return None
    return (perf_counter() - loop.since) / loop.done * (loop.total - loop.done)
