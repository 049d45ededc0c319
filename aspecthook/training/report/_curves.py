"""Hooks that keep the rows of a run, and write a file of them now and then: `PlotHook`, and the base of the report."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from math import isfinite, nan
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal, TypeAlias, final

from aspecthook.training._errors import TrainingError
from aspecthook.training._options import whole_number
from aspecthook.training.checkpoint._files import folder_of, own_path, path_of, put
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.logging._loggers import Logged, LoggerHook
from aspecthook.training.logging._row import TIMES, Row, number_text
from aspecthook.training.loop._interrupts import INTERRUPTS
from aspecthook.training.loop._run import Run

End: TypeAlias = Literal["running", "done", "stopped", "interrupted", "failed"]
Curve: TypeAlias = list[tuple[int, float]]  # the iteration of the run, and a number

_MOST_ROWS = 400  # of the training; a chart is about as many pixels wide
_PAUSE = 20  # times as long as the last writing took, which imports matplotlib: so writing takes 5 % of a run's time
_LAST = ("lr", "momentum", "grad_norm", *TIMES)  # settings and costs come after results
_MOST_PANELS = 24
_HUGE = 1e300  # greater numbers cannot be drawn
_LONGEST = 40  # characters of a title
_WIDE = 100.0  # the ratio from which a loss has a logarithmic scale, so that its end is not a flat line
_MODES = {"train": "#2563c9", "val": "#d2660a", "test": "#178a54"}


class CurvesHook(LoggerHook):
    """Keeps the rows of a run, and writes a file of them after epochs and validations, and when the run ends.

    There are never many rows of the training: when there are too many, every other one is dropped, and rows are made
    half as often.
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

    def before_run(self, runner: Run) -> None:
        """Begin, or continue where the resumed run had stopped."""
        self.end = "running"
        self._due = perf_counter() + _PAUSE
        super().before_run(runner)

    def _begin(self, runner: Run) -> None:
        relative, who = not self.path.is_absolute(), type(self).__name__
        self._target = own_path(folder_of(runner.work_dir, who, "path='/...'"), self.path) if relative else self.path
        if self._loaded is None:
            self.rows = []

    def _write(self, runner: Run, row: Row) -> None:  # noqa: ARG002
        self.rows.append(row)
        training = [one for one in self.rows if one.mode == "train"]
        if row.mode == "train" and len(training) > _MOST_ROWS:
            dropped = set(map(id, training[-2::-2]))
            self.rows = [one for one in self.rows if id(one) not in dropped]
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
        trained, wanted = (runner.epoch, runner.max_epochs) if runner.by_epoch else (runner.iter, runner.max_iters)
        if exc is not None:
            self.end = "interrupted" if isinstance(exc, INTERRUPTS) else "failed"
        else:
            self.end = "stopped" if wanted is not None and trained < wanted else "done"
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
        return {"rows": [list(row) for row in self.rows], "interval": self.interval, **super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the rows."""
        super().load_state_dict(state)
        rows = [
            Logged.of(mode, epoch, place, total, numbers, 1.0) for mode, epoch, place, total, numbers in state["rows"]
        ]
        self.rows = [Row(*row[:5]) for row in rows]
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
        return drawn(curves_of(self.rows), "png")


def curves_of(rows: Sequence[Row]) -> dict[str, dict[str, Curve]]:
    """Return the curves by the name of a number and by mode: the loss, then what is validated, then the rest."""
    found: dict[str, dict[str, Curve]] = {}
    for row in rows:
        for name, value in row.numbers.items():
            base = name.removeprefix(f"{row.mode}_")
            is_repeated = row.mode != "train" and base.partition("_")[0] in ("lr", "momentum")
            if not isinstance(value, str) and not is_repeated:
                curve = found.setdefault(base, {}).setdefault(row.mode, [])
                curve.append((row.total_iter, value if abs(value) < _HUGE else nan))

    def place(name: str) -> tuple[bool, bool, bool]:
        return name in _LAST or name.startswith(("lr_", "momentum_")), name != "loss", [*found[name]] == ["train"]

    return {name: found[name] for name in sorted(found, key=place)}


def _tick(value: float, _: object) -> str:
    """Return a number as matplotlib writes it beside a tick, wherever that is."""
    return number_text(value)


def drawn(curves: Mapping[str, Mapping[str, Curve]], kind: str) -> bytes:
    """Return the curves as a file of a kind, ``"png"`` or ``"svg"``, drawn without matplotlib's global state."""
    import numpy as np

    panels = list(curves.items())[:_MOST_PANELS]
    columns = min(3, max(1, len(panels)))
    lines = max(1, -(-len(panels) // columns))
    # Any: figures and axes of matplotlib, which is imported when something is drawn.
    figure: Any = import_module("matplotlib.figure").Figure((4.4 * columns, 3.0 * lines), layout="constrained")
    for place, (name, modes) in enumerate(panels, 1):
        axes: Any = figure.add_subplot(lines, columns, place)
        title = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
        axes.set_title(title, fontsize=10, loc="left", parse_math=False)
        for mode, curve in modes.items():
            style = "o-" if mode != "train" or len(curve) == 1 else "-"
            values = [value if isfinite(value) else nan for _, value in curve]
            axes.plot([at for at, _ in curve], values, style, color=_MODES[mode], label=mode, markersize=3)
        finite = [value for curve in modes.values() for _, value in curve if isfinite(value)]
        if "loss" in name and finite and min(finite) > 0 and max(finite) / min(finite) >= _WIDE:
            axes.set_yscale("log")
        else:
            axes.yaxis.set_major_formatter(_tick)
        axes.set_xlabel("iteration", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(visible=True, axis="y", alpha=0.4)
        axes.spines[["top", "right"]].set_visible(False)
        if len(modes) > 1 or "train" not in modes:
            axes.legend(fontsize=8, frameon=False)
    file = io.BytesIO()
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # numbers may be near the largest float
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names of metrics may be in any alphabet
        figure.savefig(file, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()
