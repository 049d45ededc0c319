"""The hook that writes the report: one HTML file that loads nothing from elsewhere, and escapes all text."""

from __future__ import annotations

import base64
import json
import os
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, final
from urllib.parse import quote

from aspecthook._errors import HookTypeError, brief
from aspecthook.training._options import flag
from aspecthook.training.backends._state import is_any
from aspecthook.training.hooks._early_stop import EarlyStoppingHook
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.logging._line_files import LineFile
from aspecthook.training.logging._loggers import LoggerHook
from aspecthook.training.logging._numbers import duration_text, short_text
from aspecthook.training.loop._run import Run

from ._curves import CurvesHook, rules_of
from ._drawing import Rules, best_of, drawn, panels_of, points
from ._facts import Facts, facts_of, redacted

_MOST_TRACE = 20_000  # characters
_WORDS = {
    "running": "Running",
    "done": "Done",
    "stopped": "Stopped early",
    "interrupted": "Interrupted",
    "failed": "Failed",
}


class Summary(NamedTuple):
    """The last and the best value of one number, as text."""

    name: str
    last: str
    best: str  # empty if it is not known which values are better
    best_at: str


@final
@HOOKS.register
class ReportHook(CurvesHook):
    """Write a report of the run as one HTML file: its outcome, its curves, what ran, and links to its log.

    It is written after epochs, and when the run ends, even if it fails or is interrupted. Tests after the run are
    added. In the command line and the settings, what is a secret by its name (``--api-token=…``) is redacted. The page
    runs no scripts. Needs Jinja and matplotlib.

    Args:
        interval: The iterations of a point in the curves; of long runs a point has more of them.
        share: The fraction of the run's time that writing may take, from 0 to 1. A report that would take more is
            skipped; with 0 only that of the end is written.
        path: The file, relative to the run's ``work_dir``.
        title: The title; the name of the ``work_dir`` if not given.
        config: The settings of the run to show; the ``"config"`` of the runner's ``meta``, or all of it, if not given;
            False for none.
        command: Whether to show the command line of the program.

    Attributes:
        rows: The rows of the log that the curves show.

    Example:
        >>> ReportHook(config={"lr": 0.1}).path.name
        'report.html'
    """

    needs: ClassVar[Sequence[str]] = ("jinja2", "matplotlib")

    def __init__(
        self,
        interval: int = 10,
        *,
        share: float = 0.05,
        path: str | os.PathLike[str] = "report.html",
        title: str | None = None,
        config: Mapping[str, Any] | Literal[False] | None = None,
        command: bool = True,
    ) -> None:
        super().__init__(interval, share=share, path=path)
        self.command: bool = flag("ReportHook", "command", command)
        if config is not None and config is not False and not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"ReportHook: config={brief(config)} is not a mapping")
        self.title = title
        self.config: Mapping[str, Any] | Literal[False] | None = config
        self._facts: Facts = []
        self._trace = ""

    def _begin(self, runner: Run, *, rerun: bool) -> None:
        super()._begin(runner, rerun=rerun)
        self._facts, self._trace = facts_of(runner, command=self.command), ""

    def content(self, runner: Run) -> bytes:
        """Return the page."""
        if self.error is not None and self.end == "failed":
            self._trace = "".join(traceback.format_exception(self.error))[-_MOST_TRACE:]
        config: Any = self.config
        if config is None:
            found: Any = runner.meta.get("config")
            config = found if is_any(found, Mapping) else runner.meta
        curves = drawn(self.rows, rules_of(runner), "svg") if panels_of(self.rows) else b""
        page: str = _template().render(
            title=self.title or (runner.work_dir.resolve().name if runner.work_dir else type(runner.model).__name__),
            end=self.end,
            word=_WORDS[self.end],
            progress=self._progress(runner),
            trace=self._trace,
            warnings=warnings_of(self),
            curves=base64.b64encode(curves).decode(),
            numbers=summaries_of(self, rules_of(runner)),
            logs=_logs_of(runner, self._target),
            settings=json.dumps(redacted(config), indent=2, ensure_ascii=False) if config else "",
            facts=self._facts,
        )
        return page.encode(errors="replace")

    def _progress(self, runner: Run) -> list[str]:
        """Return how far the run has come, how long it took, when it began, and why it has stopped."""
        now, iters = runner.done, f"{runner.done.iter:,} iterations"
        rows = [f"{now.epoch:,} of {runner.max_epochs:,} epochs", iters] if runner.max_epochs else [iters]
        if runner.max_iters and not runner.by_epoch:
            rows = [f"{now.iter:,} of {runner.max_iters:,} iterations"]
        rows += [duration_text(self.seconds), f"started {self.began}"]
        if self.resumed > 0:
            rows.append(f"resumed {self.resumed} time{'s' * (self.resumed > 1)}")
        stopped = (hook.stop_reason for hook in runner.hooks if isinstance(hook, EarlyStoppingHook))
        return [*rows, *(why for why in stopped if why is not None and self.end == "stopped")]


def summaries_of(report: CurvesHook, rules: Rules) -> list[Summary]:
    """Return the last and the best value of each number in the curves."""
    found: list[Summary] = []
    for base, lines in panels_of(report.rows).items():
        for mode, curve in lines.items():
            name = base if mode == "train" else f"{mode}_{base}"
            best = best_of([row for row, _ in curve], name, rules)
            value, at = ("", "") if best is None else (short_text(best[1]), f"iteration {best[0].total_iter:,}")
            found.append(Summary(name, short_text(curve[-1][1]), value, at))
    return found


def warnings_of(report: CurvesHook) -> list[str]:
    """Return a warning for each number that was not finite."""
    found: list[str] = []
    for name in dict.fromkeys(name for row in report.rows for name in row.numbers):
        bad = [row for row, value in points(report.rows, name) if not isfinite(value)]
        if bad:
            found.append(f"{name} was NaN or infinite, first in the row of iteration {bad[0].total_iter:,}.")
    return found


def _logs_of(runner: Run, report: Path | None) -> list[tuple[str, str]]:
    """Return the names of the files of the log, and where they are as seen from the report."""
    sinks = [hook.sink for hook in runner.hooks if isinstance(hook, LoggerHook)]
    paths = [sink.path for sink in sinks if isinstance(sink, LineFile) and sink.path.exists()]
    return [(path.name, quote(os.path.relpath(path, report.parent if report else None))) for path in paths]


@cache
def _template() -> Any:  # Jinja need not be installed
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return environment.from_string((files("aspecthook.training.report") / "page.html.jinja").read_text("utf-8"))
