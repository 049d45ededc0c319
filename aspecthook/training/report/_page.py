"""The hook that writes the report: one HTML file that loads nothing from elsewhere, and escapes all text."""

from __future__ import annotations

import base64
import json
import os
import platform
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import ClassVar, cast, final
from urllib.parse import quote

from aspecthook._errors import brief
from aspecthook.training.hooks._guards import EarlyStoppingHook
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._monitor import Monitor, known_rule
from aspecthook.training.logging._files import LineFile
from aspecthook.training.logging._loggers import LoggerHook
from aspecthook.training.logging._row import duration_text, number_text
from aspecthook.training.loop._dialect import named
from aspecthook.training.loop._run import Run

from ._curves import Curve, CurvesHook, curves_of, drawn

_MOST_TRACE = 20_000  # characters
_LONGEST = 2000  # characters of a setting
_WORDS = {
    "running": "Running",
    "done": "Done",
    "stopped": "Stopped early",
    "interrupted": "Interrupted",
    "failed": "Failed",
}


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
        template = environment.from_string((files("aspecthook.training.report") / "page.html.jinja").read_text("utf-8"))
        page = template.render(
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
    text = value if isinstance(value, str) else brief(value, _LONGEST)
    return re.sub(r"(\w://[^/@:\s]*:)[^/@\s]+@", rf"\g<1>{REDACTED}@", text)[:_LONGEST]  # passwords of URLs
