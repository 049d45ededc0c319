"""Hooks that keep the rows of a run, and write a file of them now and then: `PlotHook`, and the base of the report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal, TypeAlias, final

from aspecthook.training._errors import TrainingError
from aspecthook.training._options import whole_number
from aspecthook.training.checkpoint._files import folder_of, own_path, path_of, put
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.logging._loggers import LoggerHook, checked_values
from aspecthook.training.logging._row import Row
from aspecthook.training.loop._interrupts import INTERRUPTS
from aspecthook.training.loop._run import Run

from ._drawing import drawn, points

End: TypeAlias = Literal["running", "done", "stopped", "interrupted", "failed"]
_MOST_ROWS = 400  # of a mode; a chart is about as many pixels wide
_PAUSE = 20  # times as long as the last writing took, which imports matplotlib: so writing takes 5 % of a run's time


class CurvesHook(LoggerHook):
    """Keeps the rows of a run, and writes a file of them after epochs and validations, and when the run ends.

    There are never many rows: when there are too many of a mode, every other one is dropped, except extremes, and the
    training makes rows half as often.
    """

    # The hook is called after those that log numbers.
    priority: int | str = "LOWEST"
    # Packages that this hook needs, and a run without it does not.
    needs: ClassVar[Sequence[str]] = ("matplotlib",)

    def __init__(self, interval: int, path: str | os.PathLike[str]) -> None:
        super().__init__(None, interval, by_epoch=False, ignore_last=False)
        self.path: Path = path_of(type(self).__name__, path)
        missing = [name for name in self.needs if find_spec(name) is None]
        if missing:
            raise TrainingError(f"{type(self).__name__} needs {' and '.join(missing)}; pip install {' '.join(missing)}")
        self.rows: list[Row] = []
        self.end: End = "running"
        self._target: Path | None = None
        self._due = 0.0  # when the file may be written again

    def _begin(self, runner: Run, *, rerun: bool) -> None:
        relative, who = not self.path.is_absolute(), type(self).__name__
        self._target = own_path(folder_of(runner.work_dir, who, "path='/...'"), self.path) if relative else self.path
        if self._loaded is None and not rerun:
            self.rows = []
        self.end = "running"
        self._due = perf_counter() + _PAUSE

    def _write(self, runner: Run, row: Row) -> None:  # noqa: ARG002
        self.rows.append(row)
        if sum(one.mode == row.mode for one in self.rows) > _MOST_ROWS:
            self.rows = thinned(self.rows, row.mode)
            if row.mode == "train":
                self.interval *= 2

    def after_train_epoch(self, runner: Run) -> None:
        """Keep the row of an epoch, and write the file if there is time."""
        super().after_train_epoch(runner)
        self._write_later(runner)

    def after_val_epoch(self, runner: Run) -> None:
        """Keep the row of a validation, and write the file if there is time."""
        super().after_val_epoch(runner)
        self._write_later(runner)

    def after_test_epoch(self, runner: Run) -> None:
        """Keep the row of a test, and write the file, even after the run."""
        super().after_test_epoch(runner)
        if self.end != "running":
            self.write(runner)

    def always_run(self, runner: Run, exc: BaseException | None) -> None:
        """Write the file for the last time."""
        self.end = _end_of(runner, exc)
        self.write(runner)

    def _write_later(self, runner: Run) -> None:
        if self._target is not None and perf_counter() >= self._due:
            runner.after_stage(lambda: self.write(runner))

    def write(self, runner: Run) -> None:
        """Write the file now. Errors are logged, and do not fail the run."""
        if self._target is None:
            return
        begun = perf_counter()
        try:
            put(self._target, self.content(runner))
        except OSError as error:
            runner.logger.warning("%s could not be written: %s", self._target, error.strerror)
        except Exception as error:
            runner.logger.error("%s could not be made: %s", self._target, error, exc_info=error)
        self._due = perf_counter() + _PAUSE * (perf_counter() - begun)

    def content(self, runner: Run) -> bytes:
        """Return the content of the file."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the rows too."""
        if self._loaded is not None:
            return dict(self._loaded)
        return {**super().state_dict(), "rows": [list(row) for row in self.rows], "interval": self.interval}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the rows."""
        super().load_state_dict(state)
        self.rows = [
            Row(str(mode), int(epoch), int(count), int(total), checked_values(numbers))
            for mode, epoch, count, total, numbers in state["rows"]
        ]
        self.interval: int = whole_number(type(self).__name__, "interval", state["interval"], 0)


@final
@HOOKS.register
class PlotHook(CurvesHook):
    """Draw the loss, the metrics and the learning rate as a PNG, after epochs and when the run ends.

    Each number has a chart, of the training and of validations. A resumed run continues its curves. Needs matplotlib.

    Args:
        interval: The iterations of a point; of long runs a point has more of them.
        path: The file, relative to the run's ``work_dir``.

    Attributes:
        rows: The rows, for other drawings.

    Example:
        >>> PlotHook().path.name
        'curves.png'
    """

    def __init__(self, interval: int = 10, *, path: str | os.PathLike[str] = "curves.png") -> None:
        super().__init__(interval, path)

    def content(self, runner: Run) -> bytes:  # noqa: ARG002
        """Return the PNG."""
        return drawn(self.rows, "png")


def thinned(rows: list[Row], mode: str) -> list[Row]:
    """Drop every other row of a mode, except the last one, and those where a number is lowest, highest, or not finite.

    Of the rows with numbers that are not finite only the first is kept, so that there are never many.
    """
    ours = [row for row in rows if row.mode == mode]
    kept = [*ours[::2], ours[-1]]
    for name in {name for row in ours for name in row.numbers}:
        found = points(ours, name)
        good = [one for one in found if isfinite(one[1])]
        special = [*(pick(good, key=lambda one: one[1]) for pick in (min, max) if good)]
        special += [one for one in found if not isfinite(one[1])][:1]
        kept += [row for row, _ in special]
    ids = set(map(id, kept))
    return [row for row in rows if row.mode != mode or id(row) in ids]


def _end_of(runner: Run, exc: BaseException | None) -> End:
    """Return how a run has ended."""
    if exc is not None:
        return "interrupted" if isinstance(exc, INTERRUPTS) else "failed"
    trained, wanted = (runner.epoch, runner.max_epochs) if runner.by_epoch else (runner.iter, runner.max_iters)
    return "stopped" if wanted is not None and trained < wanted else "done"
