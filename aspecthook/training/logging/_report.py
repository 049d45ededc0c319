"""The curves of a run as a picture, and its report: one HTML file that loads nothing from elsewhere.

Both are made from the rows of the log, which checkpoints contain, and are written from time to time.
"""

from __future__ import annotations

import base64
import io
import os
import platform
import sys
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from importlib.resources import files
from math import inf, nan
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, TypeAlias, final
from urllib.parse import quote

from aspecthook.training.checkpoint._files import put
from aspecthook.training.checkpoint._format import AnyPath
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._monitor import EarlyStoppingHook
from aspecthook.training.loop._interrupts import INTERRUPTS
from aspecthook.training.loop._runner import Runner

from ._files import FileLoggerHook, LineLoggerHook
from ._loggers import PAUSE, RATES, TIMES, Row, number_text

Curve: TypeAlias = list[tuple[int, float]]  # the iteration of the run, and a number

_MOST_ROWS = 400  # of the training; a chart is about as many pixels wide
_LAST = (*RATES, "grad_norm", *TIMES)  # results come first
_MOST_PANELS = 24
_HUGE = 1e300  # greater numbers cannot be drawn
_LONGEST_TITLE = 40  # characters
_MODES = {"train": "#2563c9", "val": "#d2660a", "test": "#178a54"}
_FOLDER = "aspecthook.training.logging"  # of the template


@HOOKS.register
class PlotHook(FileLoggerHook):
    """Draw the loss, the metrics and the learning rate as a PNG, from time to time and when the run ends.

    Each number has a chart, with a curve each for the training and for validations. A resumed run continues its curves.
    Needs matplotlib.

    Args:
        interval: The number of iterations per point. When a long run has too many points, every other training point is
            dropped, and from then on points are drawn half as often.
        path: The file; a relative path is inside the run's `work_dir`.

    Attributes:
        rows: The rows of the log that the curves show.

    Example:
        >>> PlotHook().path.name
        'curves.png'
    """

    priority: int | str = "LOWEST"  # after the hooks that log numbers
    needs: ClassVar[tuple[str, ...]] = ("matplotlib",)
    default = "curves.png"

    def __init__(self, interval: int = 10, *, path: AnyPath | None = None) -> None:
        super().__init__(interval, by_epoch=False, ignore_last=False, path=path)
        self.rows: list[Row] = []
        self.end: str = "Running"
        self._error = ""  # the error that has ended the run
        self._due = 0.0  # when the file may be written again

    def before_run(self, runner: Runner) -> None:
        """Begin, or continue where the resumed run had stopped."""
        self.end, self._error = "Running", ""
        self._due = perf_counter() + PAUSE  # the first writing imports matplotlib
        super().before_run(runner)

    def _open(self, runner: Runner) -> None:
        self.target(runner)  # raises if the run may not write the file
        if self._loaded is None:
            self.rows = []

    def _write(self, runner: Runner, row: Row) -> None:
        self.rows.append(row)
        training = [one for one in self.rows if one.mode == "train"]
        if row.mode == "train" and len(training) > _MOST_ROWS:
            dropped = set(map(id, training[-2::-2]))
            self.rows = [one for one in self.rows if id(one) not in dropped]
            self.interval *= 2
        if row.mode == "test" or perf_counter() >= self._due:
            self.write(runner)

    def always_run(self, runner: Runner, exc: BaseException | None) -> None:
        """Write the file for the last time."""
        if exc is not None:
            self.end = "Interrupted" if isinstance(exc, INTERRUPTS) else "Failed"
            self._error = f"{type(exc).__name__}: {exc}"
        else:
            self.end = "Stopped early" if runner.progress.trained < runner.end < inf else "Done"
        self.write(runner)

    def write(self, runner: Runner) -> None:
        """Write the file now. Errors are logged, and do not fail the run."""
        if self._run is None:  # before any run, and on other ranks
            return
        begun = perf_counter()
        try:
            put(self.target(runner), self.content(runner))
        except Exception as error:
            runner.logger.warning("%s could not be written: %s; the run continues", self.path, error, exc_info=error)
        self._due = perf_counter() + PAUSE * (perf_counter() - begun)

    def content(self, runner: Runner) -> bytes:  # noqa: ARG002
        """Return the content of the file."""
        return drawn(curves_of(self.rows))

    def state_dict(self) -> dict[str, Any]:
        return {"rows": [list(row) for row in self.rows], "interval": self.interval, **super().state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.rows = [Row.of_state(row) for row in state["rows"]]
        self.interval: int = int(state["interval"])


def curves_of(rows: Sequence[Row]) -> dict[str, dict[str, Curve]]:
    """Return the curves by the name of a number and by mode: the loss, then validated numbers, then others."""
    found: dict[str, dict[str, Curve]] = {}
    for row in rows:
        for name, value in row.numbers.items():
            base = name.removeprefix(f"{row.mode}_")
            is_repeated = row.mode != "train" and base in RATES
            if not isinstance(value, str) and not is_repeated:
                curve = found.setdefault(base, {}).setdefault(row.mode, [])
                curve.append((row.total_iter, value if abs(value) < _HUGE else nan))

    def rank(name: str) -> tuple[bool, bool, bool]:
        return name in _LAST, name != "loss", [*found[name]] == ["train"]

    return {name: found[name] for name in sorted(found, key=rank)}


def drawn(curves: Mapping[str, Mapping[str, Curve]]) -> bytes:
    """Return the curves as a PNG, drawn without matplotlib's global state."""
    import numpy as np

    panels = list(curves.items())[:_MOST_PANELS]
    columns = min(3, max(1, len(panels)))
    lines = max(1, -(-len(panels) // columns))
    # By name, since matplotlib is imported only when something is drawn, and need not be installed for type checkers.
    figure = import_module("matplotlib.figure").Figure((4.4 * columns, 3.0 * lines), layout="constrained")
    for place, (name, modes) in enumerate(panels, 1):
        axes = figure.add_subplot(lines, columns, place)
        axes.set_title(name[:_LONGEST_TITLE], fontsize=10, loc="left", parse_math=False)
        for mode, curve in modes.items():
            style = "o-" if mode != "train" or len(curve) == 1 else "-"
            places, values = zip(*curve, strict=True)
            axes.plot(places, values, style, color=_MODES[mode], label=mode, markersize=3)
        axes.yaxis.set_major_formatter("{x:.4g}")
        axes.set_xlabel("iteration", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(visible=True, axis="y", alpha=0.4)
        axes.spines[["top", "right"]].set_visible(False)
        if len(modes) > 1 or "train" not in modes:
            axes.legend(fontsize=8, frameon=False)
    file = io.BytesIO()
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # numbers may be near the largest float
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names of metrics may be in any alphabet
        figure.savefig(file, format="png", dpi=150)
    return file.getvalue()


@final
@HOOKS.register
class ReportHook(PlotHook):
    """Write a report of the run as one HTML file: its outcome, curves and settings, and links to its log and config.

    It is written from time to time, and when the run ends, even if it fails or is interrupted. Tests after the run are
    added. The page runs no scripts. Needs Jinja and matplotlib.

    Args:
        interval: The number of iterations per point of the curves; it grows in a long run, as in `PlotHook`.
        path: The file; a relative path is inside the run's `work_dir`.

    Example:
        >>> ReportHook().path.name
        'report.html'
    """

    needs: ClassVar[tuple[str, ...]] = ("jinja2", "matplotlib")
    default = "report.html"

    def content(self, runner: Runner) -> bytes:
        """Return the page."""
        from jinja2 import Environment, StrictUndefined

        curves = curves_of(self.rows)
        environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
        page = environment.from_string((files(_FOLDER) / "report.html.jinja").read_text("utf-8")).render(
            title=runner.work_dir.resolve().name if runner.work_dir else type(runner.model).__name__,
            end=self.end,
            progress=self._progress(runner),
            curves=base64.b64encode(drawn(curves)).decode() if curves else "",
            numbers=curves,
            shown=number_text,
            logs=_logs_of(runner, self.target(runner).parent),
            facts=_facts_of(runner),
        )
        return page.encode(errors="replace")

    def _progress(self, runner: Runner) -> list[str]:
        """Return texts: how far the run has come, when the page was written, and why the run ended early."""
        now = runner.progress
        texts = [f"{now.epoch:,} of {runner.max_epochs:,} epochs"] if runner.max_epochs else []
        texts.append(f"{now.iter:,}{'' if texts or not runner.max_iters else f' of {runner.max_iters:,}'} iterations")
        written = datetime.now().astimezone().isoformat(" ", "minutes")
        texts.append(f"{'resumed, and ' if runner.resumed else ''}written {written}")
        reasons = [self._error]
        if self.end == "Stopped early":
            reasons = [hook.stop_reason or "" for hook in runner.hooks if isinstance(hook, EarlyStoppingHook)]
        return [*texts, *filter(None, reasons)]


def _logs_of(runner: Runner, folder: Path) -> list[tuple[str, str]]:
    """Return the names of the files of the log and of the config, with their paths relative to a folder."""
    paths = [hook.file.path for hook in runner.hooks if isinstance(hook, LineLoggerHook) and hook.file]
    paths += [runner.work_dir / "config.json"] if runner.work_dir else []
    return [(path.name, quote(os.path.relpath(path, folder))) for path in paths if path.exists()]


def _facts_of(runner: Runner) -> list[tuple[str, str]]:
    """Return the names and values of the report's table: the parts of the run, the machine and the versions."""
    packages = [name for name in ("aspecthook", "numpy", "safetensors", "torch", "keras") if name in sys.modules]
    return [
        ("seed", "none" if runner.seed is None else str(runner.seed)),
        ("model", type(runner.model).__name__),
        ("optimizer", type(runner.optimizer).__name__),
        ("hooks", ", ".join(one.name for one in runner.registered)),
        ("backend", f"{runner.backend.name}, {runner.world_size} ranks"),
        ("Python", f"{platform.python_version()} on {platform.platform()}, {sys.executable}"),
        ("packages", ", ".join(f"{name} {getattr(sys.modules[name], '__version__', '')}" for name in packages)),
    ]
