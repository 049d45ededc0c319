"""The base of the hooks that draw the numbers of a run; the first one of a run keeps the record for all of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal, TypeAlias

from aspecthook.training import _options
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._files import folder_of, own_path, path_of, put
from aspecthook.training.hooks._hook import Hook
from aspecthook.training.hooks._monitor import Monitor
from aspecthook.training.logging._numbers import numbers_of, rates_of
from aspecthook.training.logging._rows import samples_of
from aspecthook.training.loop._interrupts import INTERRUPTS
from aspecthook.training.loop._run import Run

from ._record import Curves

End: TypeAlias = Literal["running", "done", "stopped", "interrupted", "failed"]


class CurvesHook(Hook):
    """Keeps the numbers of a run, and writes a file of them now and then. Subclasses override `content`."""

    # The hook is called after those that put numbers into the logs.
    priority: int | str = "LOWEST"
    # Packages that this hook needs, and a run without it does not.
    needs: ClassVar[Sequence[str]] = ()
    # An estimate of the seconds that the first writing takes, which imports matplotlib.
    _cost = 1.0

    def __init__(self, interval: int, *, by_epoch: bool, share: float, path: str | os.PathLike[str]) -> None:
        who = type(self).__name__
        self.interval: int = _options.whole_number(who, "interval", interval, 0)
        self.by_epoch: bool = _options.flag(who, "by_epoch", by_epoch)
        self.share: float = _options.share(who, "share", share)
        self.path: Path = path_of(who, path)
        missing = [name for name in self.needs if find_spec(name) is None]
        if missing:
            raise TrainingError(f"{who} needs {' and '.join(missing)}; pip install 'aspecthook[train]'")
        self.curves: Curves = Curves()
        self.end: End = "running"
        self.error: BaseException | None = None
        # The file; None before a run, and on ranks that write nothing.
        self.target: Path | None = None
        self._runner: Run | None = None
        self._keeps = True  # whether this hook keeps the numbers, or has those of another one
        self._due = False
        self._began = 0.0
        self._earlier = 0.0  # the seconds of the runs that this one was resumed from
        self._spent = 0.0  # the seconds of this run that writing has taken

    # When to write

    def before_run(self, runner: Run) -> None:
        """Find the path of the file, and the hook that keeps the record."""
        if runner.rank != 0:
            self._keeps = False
            return
        absolute = self.path.is_absolute()
        who = type(self).__name__
        self.target = self.path if absolute else own_path(folder_of(runner, who, "path='/...'"), self.path)
        every: list[CurvesHook] = [hook for hook in runner.hooks if isinstance(hook, CurvesHook)]
        self._keeps = every[0] is self
        # A hook that was added when the run was resumed has fewer numbers than the others.
        self.curves = max((hook.curves for hook in every), key=lambda curves: curves.at)
        self.end, self.error, self._runner = "running", None, runner
        self._earlier, self._began, self._spent = self.curves.seconds, perf_counter(), 0.0
        if self._keeps:
            self.curves.cut(runner.iter)
            self.curves.runs += 1
            self.curves.begun = self.curves.begun or datetime.now().astimezone().isoformat(timespec="seconds")

    def before_train_epoch(self, runner: Run) -> None:
        """Write a file that was due after the last epoch, if no validation followed."""
        self._write_due(runner)

    def after_train_iter(self, runner: Run) -> None:
        """Record the numbers of the iteration."""
        if self._runner is None:
            return
        if self._keeps:
            self._record(runner)
        if not self.by_epoch and self.every_n_iters(runner, self.interval) and not self.is_last_iter(runner):
            self._due = True
            runner.after_stage(lambda: self._write_due(runner))

    def after_train_epoch(self, runner: Run) -> None:
        """Close the row of the epoch, and decide whether a file is due."""
        complete = runner.done.inner_iter == 0
        self._close_row(complete=complete)
        self._due = (
            self._runner is not None and self.by_epoch and complete and self.every_n_epochs(runner, self.interval)
        )
        if self.is_last_epoch(runner):
            self._due = False  # it is written when the run ends
        elif self._due and not any(mode == "val" for mode, _ in runner.workflow):
            # Written now, so that the next epoch does not count the time as waiting for data.
            runner.after_stage(lambda: self._write_due(runner))

    def after_val_epoch(self, runner: Run) -> None:
        """Record the numbers of a validation, and write a file that was due after the epoch."""
        self._record_tests(runner, "val")
        if self._due:
            runner.after_stage(lambda: self._write_due(runner))

    def after_test_epoch(self, runner: Run) -> None:
        """Record the numbers of a test, even after the run."""
        self._record_tests(runner, "test")

    def always_run(self, runner: Run, exc: BaseException | None) -> None:
        """Write the file for the last time."""
        if self._runner is None:
            return
        self.end, self.error = end_of(runner, exc), exc
        self._close_row(complete=False)
        try:
            self.write(runner)
        finally:
            self._runner, self._due, self.error = None, False, None

    # The record

    def _record(self, runner: Run) -> None:
        """Record the numbers of an iteration once, and not at all if a hook has skipped it."""
        done = runner.done.iter
        if done != runner.iter + 1 or done <= self.curves.at:
            return
        self._update_time()
        numbers = {**numbers_of(runner.logs, "train"), **_extremes(runner.optimizer)}
        self.curves.train(done, runner.epoch + 1, numbers, samples_of(runner))

    def _record_tests(self, runner: Run, mode: str) -> None:
        if not self._keeps or self.target is None or (mode == "val" and self._runner is None):
            return
        if self._runner is not None:
            self._update_time()
        done = runner.done
        epoch = done.epoch + (done.inner_iter > 0)
        self.curves.validate(done.iter, epoch, numbers_of(runner.logs, mode))

    def _close_row(self, *, complete: bool) -> None:
        if self._keeps and self._runner is not None:
            self._update_time()
            self.curves.close(complete=complete)

    def _update_time(self) -> None:
        self.curves.seconds = self._earlier + perf_counter() - self._began

    # The file

    def _write_due(self, runner: Run) -> None:
        """Write a file that is due, unless that would take too much of the run's time."""
        if not self._due:
            return
        self._due = False
        if self.share >= 1 or self._spent + self._cost <= self.share * (perf_counter() - self._began):
            self.write(runner)

    def write(self, runner: Run) -> None:
        """Write the file now. Errors are logged, and do not fail the run."""
        if self.target is None:
            return
        begun = perf_counter()
        try:
            put(self.target, self.content(runner))
        except OSError as error:
            runner.logger.warning("%s could not be written: %s", self.target, error.strerror)
        except Exception as error:
            runner.logger.error("%s could not be made: %s", self.target, error, exc_info=error)
        self._cost = perf_counter() - begun
        self._spent += self._cost

    def content(self, runner: Run) -> bytes:
        """Return the content of the file."""
        raise NotImplementedError

    # The state for a checkpoint

    def state_dict(self) -> dict[str, Any]:
        """Return the numbers, unless another hook keeps them."""
        if self._keeps and self._runner is not None:
            self._record(self._runner)  # the checkpoint may be saved before this hook is called for the iteration
        return {"curves": self.curves.state_dict() if self._keeps else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["curves"] is not None:
            self.curves.load_state_dict(state["curves"])
            self._earlier, self._began = self.curves.seconds, perf_counter()


def end_of(runner: Run, exc: BaseException | None) -> End:
    """Return how a run has ended."""
    if exc is not None:
        return "interrupted" if isinstance(exc, INTERRUPTS) else "failed"
    trained, wanted = (runner.epoch, runner.max_epochs) if runner.by_epoch else (runner.iter, runner.max_iters)
    return "stopped" if wanted is not None and trained < wanted else "done"


def rules_of(runner: Run) -> dict[str, str]:
    """Return the rules by which the hooks of a run compare numbers: ``"greater"`` or ``"less"``, by name."""
    watched = [getattr(hook, "watched", None) for hook in runner.hooks]
    return {monitor.name: monitor.rule for monitor in watched if isinstance(monitor, Monitor)}


def per_epoch(runner: Run) -> float | None:
    """Return the number of iterations of an epoch, if it is known."""
    if not runner.by_epoch or not runner.max_epochs or not runner.max_iters:
        return None
    return runner.max_iters / runner.max_epochs


# Any: an optimizer of any library.
def _extremes(optimizer: Any) -> dict[str, float]:
    """Return the rates of the first parameter group; and the lowest and the highest, if the groups differ."""
    found: dict[str, float] = {}
    for word, rates in rates_of(optimizer).items():
        first, *rest = known = [rate for rate in rates if rate is not None]
        found[word] = first
        if any(rate < first for rate in rest):
            found[f"{word} (lowest)"] = min(known)
        if any(rate > first for rate in rest):
            found[f"{word} (highest)"] = max(known)
    return found
