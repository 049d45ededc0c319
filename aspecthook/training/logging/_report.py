"""The curves of a run as a picture, and its report: one HTML file that loads nothing from elsewhere.

Both are drawn from the rows of the log, which checkpoints hold, and are written now and then.
"""

from __future__ import annotations

import base64
import io
import json
import os
import platform
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from math import isfinite, nan
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal, TypeAlias, cast, final
from urllib.parse import quote

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import whole_number
from aspecthook.training.checkpoint._files import folder_of, own_path, path_of, put
from aspecthook.training.hooks._guards import EarlyStoppingHook
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._monitor import Monitor, known_rule
from aspecthook.training.loop._dialect import named
from aspecthook.training.loop._interrupts import INTERRUPTS
from aspecthook.training.loop._run import Run

from ._files import LineFile
from ._loggers import Logged, LoggerHook
from ._row import TIMES, Row, duration_text, number_text

End: TypeAlias = Literal["running", "done", "stopped", "interrupted", "failed"]
Curve: TypeAlias = list[tuple[int, float]]  # the iteration of the run, and a number

_MOST_ROWS = 400  # of the training; a chart is about as many pixels wide
_PAUSE = 20  # times as long as the last writing took, which imports matplotlib: so writing takes 5 % of a run's time
_LAST = ("lr", "momentum", "grad_norm", *TIMES)  # settings and costs come after results
_MOST_PANELS = 24
_HUGE = 1e300  # greater numbers cannot be drawn
_LONGEST_TITLE = 40  # characters
_WIDE = 100.0  # the ratio from which a loss has a logarithmic scale, so that its end is not a flat line
_MODES = {"train": "#2563c9", "val": "#d2660a", "test": "#178a54"}
_FOLDER = "aspecthook.training.logging"  # of the template
_MOST_TRACE = 20_000  # characters
_LONGEST_SETTING = 2000  # characters
_WORDS = {
    "running": "Running",
    "done": "Done",
    "stopped": "Stopped early",
    "interrupted": "Interrupted",
    "failed": "Failed",
}


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
        title = name if len(name) <= _LONGEST_TITLE else f"{name[:_LONGEST_TITLE]}…"
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


@final
@HOOKS.register
class ReportHook(CurvesHook):
    """Write a report of the run as one HTML file: its outcome, its curves, what ran, and links to its log.

    It is written after epochs, and when the run ends, even if it fails or is interrupted. Tests after the run are
    added. The settings are the ``"config"`` in the ``meta`` of the runner, or all of that; what is a secret by its name
    (``api_token``) is redacted. The page runs no scripts. Needs Jinja and matplotlib.

    Args:
        interval: The iterations of a point in the curves; of long runs a point has more of them.
        path: The file, relative to the run's ``work_dir``.

    Attributes:
        rows: The rows of the log that the curves show.

    Example:
        >>> ReportHook().path.name
        'report.html'
    """

    needs: ClassVar[Sequence[str]] = ("jinja2", "matplotlib")

    def __init__(self, interval: int = 10, *, path: str | os.PathLike[str] = "report.html") -> None:
        super().__init__(interval, path)
        self._trace = ""
        self._began, self._since, self._took = "", 0.0, 0.0

    def before_run(self, runner: Run) -> None:
        """Begin, or continue where the resumed run had stopped."""
        self._trace = ""
        self._began, self._since = datetime.now().astimezone().isoformat(" ", "minutes"), perf_counter()
        super().before_run(runner)

    def always_run(self, runner: Run, exc: BaseException | None) -> None:
        """Write the report for the last time."""
        if exc is not None:
            self._trace = "".join(traceback.format_exception(exc))[-_MOST_TRACE:]
        self._took = perf_counter() - self._since
        super().always_run(runner, exc)

    def content(self, runner: Run) -> bytes:
        """Return the page."""
        from jinja2 import Environment, StrictUndefined

        config = runner.meta.get("config", runner.meta)
        curves = curves_of(self.rows)
        environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
        page = environment.from_string((files(_FOLDER) / "report.html.jinja").read_text("utf-8")).render(
            title=runner.work_dir.resolve().name if runner.work_dir else type(runner.model).__name__,
            end=self.end,
            word=_WORDS[self.end],
            progress=self._progress(runner),
            trace=self._trace if self.end == "failed" else "",
            warnings=list(_warnings_of(curves)),
            curves=base64.b64encode(drawn(curves, "svg")).decode() if curves else "",
            numbers=_numbers_of(curves, runner),
            logs=_logs_of(runner, self._target),
            settings=json.dumps(redacted(config), indent=2, ensure_ascii=False) if config else "",
            facts=_facts_of(runner),
        )
        return page.encode(errors="replace")

    def _progress(self, runner: Run) -> list[str]:
        """Return how far the run has come, how long it took, when it began, and why it has stopped."""
        now, iters = runner.progress, f"{runner.progress.iter:,} iterations"
        rows = [f"{now.epoch:,} of {runner.max_epochs:,} epochs", iters] if runner.max_epochs else [iters]
        if runner.max_iters and not runner.by_epoch:
            rows = [f"{now.iter:,} of {runner.max_iters:,} iterations"]
        took = perf_counter() - self._since if self.end == "running" else self._took
        rows += [duration_text(took), f"{'resumed' if runner.resumed else 'started'} {self._began}"]
        stopped = (hook.stop_reason for hook in runner.hooks if isinstance(hook, EarlyStoppingHook))
        return [*rows, *(why for why in stopped if why is not None and self.end == "stopped")]


def _named_curves(curves: Mapping[str, Mapping[str, Curve]]) -> Iterator[tuple[str, Curve]]:
    for base, modes in curves.items():
        for mode, curve in modes.items():
            yield base if mode == "train" else f"{mode}_{base}", curve


def _numbers_of(curves: Mapping[str, Mapping[str, Curve]], runner: Run) -> list[tuple[str, ...]]:
    """Return the name of each number in the curves, its last value, its best, and the iteration of that one."""
    watched = (getattr(hook, "watched", None) for hook in runner.hooks)
    rules = {one.name: one.rule for one in watched if isinstance(one, Monitor)}
    found: list[tuple[str, ...]] = []
    for name, curve in _named_curves(curves):
        rule = rules.get(name) or known_rule(name)
        good = [(value, at) for at, value in curve if isfinite(value)]
        best = ("", "")
        if rule is not None and good:
            value, at = (max if rule == "greater" else min)(good, key=lambda point: point[0])
            best = (number_text(value), f"iteration {at:,}")
        found.append((name, number_text(curve[-1][1]), *best))
    return found


def _warnings_of(curves: Mapping[str, Mapping[str, Curve]]) -> Iterator[str]:
    """Return a warning for each number that was not finite."""
    for name, curve in _named_curves(curves):
        bad = [at for at, value in curve if not isfinite(value)]
        if bad:
            yield f"{name} was NaN or infinite, first in the row of iteration {bad[0]:,}."


def _logs_of(runner: Run, report: Path | None) -> list[tuple[str, str]]:
    """Return the names of the files of the log, and where they are as seen from the report."""
    sinks = [hook.sink for hook in runner.hooks if isinstance(hook, LoggerHook)]
    paths = [sink.path for sink in sinks if isinstance(sink, LineFile) and sink.path.exists()]
    return [(path.name, quote(os.path.relpath(path, report.parent if report else None))) for path in paths]


def _facts_of(runner: Run) -> list[tuple[str, str]]:
    """Return what ran, and where."""
    modules = {name: sys.modules.get(name) for name in ("aspecthook", "numpy", "safetensors", "torch", "jax", "keras")}
    packages = [f"{name} {getattr(one, '__version__', '')}" for name, one in modules.items() if one is not None]
    return [
        ("seed", "none" if runner.seed is None else str(runner.seed)),
        ("model", type(runner.model).__name__),
        ("optimizer", type(runner.optimizer).__name__),
        ("hooks", ", ".join(name for name, _ in named(runner))),
        ("backend", f"{runner.backend.name}, {runner.world_size} ranks"),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"),
        ("platform", f"{platform.platform()}, {os.cpu_count()} CPUs"),
        ("packages", ", ".join(packages)),
    ]


REDACTED = "(redacted)"
_SECRET = re.compile(
    r"\b(apikey|auth|authorization|bearer|cookie|credentials?|passphrase|passwd|password|pwd|secrets?|token"
    r"|(access|account|api|encryption|private|signing|ssh) keys?)\b"
)


def redacted(value: object, name: str = "") -> object:
    """Return settings as JSON holds them, without what is secret by its name: ``AWSSecretKey``; not ``max_tokens``."""
    words = " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)).lower()
    is_set = value is not None and value is not False and not (isinstance(value, str) and not value)
    if is_set and _SECRET.search(words):
        return REDACTED
    if isinstance(value, Mapping):
        return {str(key): redacted(inner, str(key)) for key, inner in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [redacted(inner) for inner in cast("Sequence[object]", value)]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else brief(value, _LONGEST_SETTING)
    return re.sub(r"(\w://[^/@:\s]*:)[^/@\s]+@", rf"\g<1>{REDACTED}@", text)[:_LONGEST_SETTING]  # passwords of URLs
