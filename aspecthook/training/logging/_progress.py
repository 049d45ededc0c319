"""The hook that shows on the terminal how far a run has come."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, TextIO

from aspecthook.training._options import finite_number, whole_number
from aspecthook.training.hooks._hook import HOOKS, Hook

from ._numbers import duration_text, number_text
from ._rows import PLACE, TIMES, Row, Rows, length_of, rates_row
from ._terminal import Look, Plain, Terminal, screen_for
from ._timers import eta_of

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

_REDRAW = 0.1  # seconds; more often than that nobody can read it


@dataclass(slots=True)
class _Loop:
    """A pass over data that is shown."""

    mode: str
    label: str
    since: float
    done: int
    total: int | None


@HOOKS.register
class ProgressHook(Hook):
    """Show how far the run has come: on a terminal by a bar with the newest numbers, elsewhere by lines now and then.

    Each epoch leaves a line, with the means over it, the numbers of the validation after it, and the time since the
    line before; a run that counts iterations alone leaves one at each validation and at its end. How long the rest will
    take is shown if there is an `IterTimerHook`. What is no terminal is given plain lines, without control characters;
    so is a terminal that can do no more, and one without the package rich. Rank 0 alone shows anything. If nothing can
    be shown any more, since the terminal was closed, the run goes on.

    Args:
        interval: Where there is no bar: every how many iterations to show a line; None to go by time alone.
        seconds: Where there is no bar: after how many seconds without a line to show one.
        file: Where to; the standard output unless given.

    Raises:
        HookOptionError: An option has a value that it cannot have.
        HookTypeError: An option is of another type.

    Example:
        >>> ProgressHook(interval=100).priority
        'VERY_LOW'
    """

    priority: int | str = "VERY_LOW"

    def __init__(self, interval: int | None = None, *, seconds: float = 30.0, file: TextIO | None = None) -> None:
        self.interval = None if interval is None else whole_number("ProgressHook", "interval", interval, 1)
        self.seconds = seconds if seconds == inf else finite_number("ProgressHook", "seconds", seconds, above=0)
        self.file = file
        self._rows = Rows(0, by_epoch=True, ignore_last=False)
        self._runner: weakref.ref[Runner] | None = None
        self._running = False
        self._loaded: Mapping[str, Any] | None = None
        self._screen: Plain | Terminal | None = None
        self._gone = False  # nothing can be shown any more
        self._loops: list[_Loop] = []  # a validation may be made inside a training epoch
        self._last: _Loop | None = None
        self._trained: Row | None = None  # what the next line begins with
        self._said = self._told = self._drawn = 0.0  # when: a line that lasts, any line, the bar

    # Stages

    def before_run(self, runner: Runner) -> None:
        """Begin to gather, or go on where a run that is resumed was."""
        self._running, self._gone, self._screen = True, False, None
        self._runner = weakref.ref(runner)
        self._rows.by_epoch, self._trained = runner.by_epoch, None
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            self._rows.load(loaded["rows"])
            self._trained = loaded["trained"]
        self._rows.begin(runner)
        self._said = self._told = perf_counter()

    def before_epoch(self, runner: Runner) -> None:
        """Begin to show a pass over the data."""
        if runner.mode == "train":
            if not self._running:  # registered in the middle of a run, it would not hear of the end of that
                return
            self._say_trained(runner)
        else:
            if self._running:
                self._take(self._rows.advance(runner))
                self._take([] if runner.by_epoch or runner.mode != "val" else self._rows.close(runner))
            self._rows.begin_validation(runner)
        self._begin(runner)

    def after_iter(self, runner: Runner) -> None:
        """Show how far it has come."""
        if runner.mode == "train" and self._running:
            self._take(self._rows.advance(runner, runner.iter + 1))
        if self._loops:
            loop = self._loops[-1]
            loop.done = _done(runner) if loop.mode == "train" else loop.done + 1
            self._move(runner, loop)

    def after_epoch(self, runner: Runner) -> None:
        """Say what came out of it; what came out of a training epoch is said with the validation after it."""
        loop = self._end(runner)
        if runner.mode == "train" and self._running:
            self._take(self._rows.advance(runner))
        elif loop is not None:
            self._say_made(runner, loop, self._rows.end_validation(runner))

    def always_epoch(self, runner: Runner) -> None:
        """End to show it, also if it has failed."""
        self._end(runner)
        if not self._running and not self._loops:
            self._stop(runner)

    def always_run(self, runner: Runner) -> None:
        """Say what came out of the last epoch, and leave the terminal as it was."""
        self._say_trained(runner)
        self._running = False
        self._loops.clear()
        self._stop(runner)

    def _begin(self, runner: Runner) -> None:
        now = perf_counter()
        if not self._running and not self._loops:
            self._screen, self._said, self._told = None, now, now
        done = _done(runner) if runner.mode == "train" else 0
        self._last = _Loop(runner.mode, self._label(runner), now, done, _total(runner))
        self._loops.append(self._last)
        self._try(runner, lambda screen: screen.start(lambda: self._look(runner)))
        if runner.by_epoch or runner.mode != "train":  # else nothing is new: the passes of such a run are one
            self._try(runner, lambda screen: screen.draw())

    def _end(self, runner: Runner) -> _Loop | None:
        """Take off the pass that has ended; it is none of ours if a hook before this one has failed or skipped it."""
        return self._loops.pop() if self._loops and self._loops[-1].mode == runner.mode else None

    # Lines that last

    def _take(self, rows: list[Row]) -> None:
        self._trained = rows[-1] if rows else self._trained

    def _say_trained(self, runner: Runner) -> None:
        row, self._trained = self._trained, None
        if row is not None:
            self._say(runner, _place(runner, row), row, row)

    def _say_made(self, runner: Runner, loop: _Loop, made: list[Row]) -> None:
        """Say what a validation or a test has made, with what the training before it has made."""
        row = made[0] if made else {}
        trained: Row = {}
        if self._running and loop.mode == "val":
            trained, self._trained = self._trained or {}, None
        place = trained or (row if self._running and loop.mode == "val" else {})
        title = _place(runner, place) if place else _of(loop.mode, loop.done, loop.total)
        self._say(runner, title, {**row, **trained}, trained)

    def _say(self, runner: Runner, title: str, row: Row, trained: Row) -> None:
        rates = rates_row(runner.optimizer)
        shown = _numbers((name, row[name]) for name in sorted(row, key=_is_made) if name not in rates)
        rate = _numbers((name, trained[name]) for name in ("lr",) if name in trained)
        now = perf_counter()
        parts = [title, *shown, *rate, duration_text(now - self._said)]
        self._said = self._told = now
        self._try(runner, lambda screen: screen.say(parts))

    # What is shown meanwhile

    def _move(self, runner: Runner, loop: _Loop) -> None:
        if self._screen is None:
            return
        now = perf_counter()
        if self._screen.live:
            if now - self._drawn >= _REDRAW:
                self._drawn = now
                self._try(runner, lambda screen: screen.draw())
        elif loop.done != loop.total and (now - self._told >= self.seconds or self._is_due(loop)):
            self._told = now
            self._try(runner, lambda screen: screen.say([self._look(runner).line]))

    def _is_due(self, loop: _Loop) -> bool:
        return self.interval is not None and loop.done % self.interval == 0

    def _look(self, runner: Runner) -> Look:
        loop = self._loops[-1] if self._loops else self._last
        assert loop is not None
        return Look(loop.label, loop.done, loop.total, self._newest(runner, loop))

    def _label(self, runner: Runner) -> str:
        """Say which pass begins: an epoch, or a validation after one or inside it."""
        if not self._running:
            return runner.mode
        trains, progress = runner.mode == "train", runner.progress
        if trains and not runner.by_epoch:
            return "iter"
        epoch = progress["epoch"] + bool(trains or progress["inner_iter"])
        place = _place(runner, {"epoch": epoch, "iter": progress["iter"]})
        return place if trains else f"{place} {runner.mode}"

    def _newest(self, runner: Runner, loop: _Loop) -> list[str]:
        """Give the newest numbers, the most important first."""
        means = self._rows.means(runner.logs) if loop.mode == "train" else {}
        first, *rest = _numbers(means.items()) or [""]
        eta = eta_of(runner) if loop.mode == "train" else _rest(loop)
        left = "" if eta is None else f"eta {duration_text(eta)}"
        rates = _numbers(rates_row(runner.optimizer).items()) if loop.mode == "train" else []
        return [text for text in (first, left, *rates[:1], *rest) if text]

    # How

    def _stop(self, runner: Runner) -> None:
        if self._screen is not None:
            self._try(runner, lambda screen: screen.stop())

    def _try(self, runner: Runner, act: Callable[[Plain | Terminal], object]) -> None:
        """Show something; a terminal that is gone must not take the run with it."""
        if self._gone or runner.rank != 0:
            return
        try:
            if self._screen is None:
                self._screen = screen_for(self.file)
            act(self._screen)
        except (OSError, ValueError) as error:  # ValueError: the file is closed
            self._gone = True
            self._give_up()
            runner.logger.warning("the progress cannot be shown any more: %s; the run goes on", error)

    def _give_up(self) -> None:
        screen, self._screen = self._screen, None
        try:
            if screen is not None:
                screen.stop()  # others print to where they did before
        except (OSError, ValueError):
            pass

    def state_dict(self) -> dict[str, Any]:
        """Give what was gathered for the next line."""
        if self._loaded is not None:
            return dict(self._loaded)
        rows, due = self._rows.state(self._runner() if self._runner is not None else None)
        trained = [row for row in due if row["mode"] == "train"]
        return {"rows": rows, "trained": trained[-1] if trained else self._trained}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given, when the run begins."""
        self._loaded = state


def _done(runner: Runner) -> int:
    return runner.progress["inner_iter" if runner.by_epoch else "iter"]


def _total(runner: Runner) -> int | None:
    counts_iters = runner.mode == "train" and not runner.by_epoch
    return runner.max_iters if counts_iters else length_of(runner.data_loader)


def _place(runner: Runner, row: Row) -> str:
    word, end = ("epoch", runner.max_epochs) if runner.by_epoch else ("iter", runner.max_iters)
    return _of(word, row[word], end)


def _of(word: str, done: float | str, total: int | None) -> str:
    return f"{word} {done}" if total is None else f"{word} {done:>{len(str(total))}}/{total}"


def _is_made(name: str) -> bool:
    """Put what a validation has made behind the rest."""
    return name.startswith("val_")


def _numbers(values: Iterable[tuple[str, float | str]]) -> list[str]:
    hidden = (*PLACE, *TIMES)
    return [f"{name} {number_text(value)}" for name, value in values if name not in hidden]


def _rest(loop: _Loop) -> float | None:
    if not loop.done or loop.total is None:
        return None
    return (perf_counter() - loop.since) / loop.done * (loop.total - loop.done)
