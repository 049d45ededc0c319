"""The hook that writes the report: one HTML file that loads nothing from elsewhere, and escapes all text."""

from __future__ import annotations

import base64
import io
import os
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, Literal, NamedTuple, cast, final

from aspecthook._errors import HookTypeError, brief
from aspecthook.training._options import flag
from aspecthook.training.hooks._early_stop import EarlyStoppingHook
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.logging._numbers import duration_text
from aspecthook.training.logging._profiler import ProfilerHook
from aspecthook.training.loop._run import Run

from ._base import CurvesHook, End, per_epoch, rules_of
from ._chart_layout import axis_of, panels_of
from ._drawing import chart_of
from ._record import Curves
from ._run_facts import Facts, checkpoints_of, environment_of, hooks_of, settings_of, version
from ._summary import epochs_of, headlines_of, summaries_of, warnings_of

_MOST_CHARTS = 12  # the reader unfolds the others
_MOST_TRACE = 20_000  # characters
_WORDS = {
    "running": "Running",
    "done": "Done",
    "stopped": "Stopped early",
    "interrupted": "Interrupted",
    "failed": "Failed",
}


class Failure(NamedTuple):
    """The error that ended a run."""

    kind: str
    message: str
    where: str
    trace: str


@final
@HOOKS.register
class ReportHook(CurvesHook):
    """Write a report of the run as one HTML file: its outcome, curves, numbers, hooks and settings.

    It is written now and then, and when the run ends, even if it fails or is interrupted. With a `ProfilerHook` it
    includes the profile. Tests after the run are added. In the command line and the settings, what is a secret by
    its name (``--api-token=…``) is redacted. The page runs no scripts. Needs Jinja and matplotlib.

    Args:
        interval: Write the report every so many epochs or iterations; 0 for only when the run ends.
        by_epoch: Count epochs; otherwise iterations.
        share: The fraction of the run's time that writing may take, from 0 to 1. A report that is due and would take
            more is skipped. With 1 none is skipped; with 0 only that of the end is written.
        path: The file, relative to the run's ``work_dir``.
        title: The title; the name of the ``work_dir`` if not given.
        config: The settings of the run to show; the ``"config"`` of the runner's ``meta``, or all of it, if not given;
            False for none.
        command: Whether to show the command line of the program.
        git_status: Whether to look for changes since the git commit. The configuration of the repository may make that
            run programs.

    Attributes:
        curves: The numbers.

    Example:
        >>> report = ReportHook(config={"lr": 0.1})
        >>> report.section("Data", {"images": 1442, "classes": 10})
        >>> report.path.name
        'report.html'
    """

    needs: ClassVar[Sequence[str]] = ("jinja2", "matplotlib")

    def __init__(
        self,
        interval: int = 1,
        *,
        by_epoch: bool = True,
        share: float = 0.05,
        path: str | os.PathLike[str] = "report.html",
        title: str | None = None,
        config: Mapping[str, Any] | Literal[False] | None = None,
        command: bool = True,
        git_status: bool = False,
    ) -> None:
        super().__init__(interval, by_epoch=by_epoch, share=share, path=path)
        self.command: bool = flag("ReportHook", "command", command)
        self.git_status: bool = flag("ReportHook", "git_status", git_status)
        if config is not None and config is not False and not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"ReportHook: config={brief(config)} is not a mapping")
        self.title = title
        self.config: Mapping[str, Any] | Literal[False] | None = config
        self._sections: dict[str, Any] = {}
        self._environment: Facts = []
        self._failure: Failure | None = None

    # Any: any object with a form in HTML or as text.
    def section(self, title: str, content: Any) -> None:
        """Add a section to the report, or replace the one of this title.

        Args:
            title: The title of the section.
            content: A string, shown as it is; an object with ``__html__`` (such as ``markupsafe.Markup``) or
                ``_repr_html_``, shown as HTML; a matplotlib figure; or a mapping, shown as a table. A callable is
                called without arguments each time the report is written, and returns any of these.
        """
        self._sections[title] = content

    def before_run(self, runner: Run) -> None:
        """Read the environment of the run."""
        super().before_run(runner)
        self._failure = None
        if self.target is not None:
            self._environment = environment_of(runner, command=self.command, git_status=self.git_status)

    def after_test_epoch(self, runner: Run) -> None:
        """Record the numbers of a test, and write the report again if the run is over."""
        super().after_test_epoch(runner)
        if self._runner is None:
            self.write(runner)

    def content(self, runner: Run) -> bytes:
        """Return the page."""
        if self.error is not None and self.end == "failed":
            self._failure = _failure(self.error)
        page: str = _template().render(**self._context(runner))
        return page.encode(errors="replace")

    def _context(self, runner: Run) -> dict[str, Any]:
        curves, rules = self.curves, rules_of(runner)
        numbers = summaries_of(curves, rules, by_epoch=runner.by_epoch)
        axis = axis_of(curves, per_epoch(runner))
        charts = [chart_of(panel, axis) for panel in panels_of(curves, rules)]
        return {
            "title": self.title or (runner.work_dir.resolve().name if runner.work_dir else type(runner.model).__name__),
            "end": self.end,
            "word": _WORDS[self.end],
            "began": _minute(curves.begun),
            "facts": _facts(runner, curves, self.end),
            "failure": self._failure,
            "warnings": warnings_of(curves),
            "headlines": headlines_of(numbers),
            "charts": charts[:_MOST_CHARTS],
            "more_charts": charts[_MOST_CHARTS:],
            "numbers": numbers,
            "epochs": epochs_of(curves, rules),
            "hooks": hooks_of(runner),
            "profiles": [str(hook.table) for hook in runner.hooks if isinstance(hook, ProfilerHook) and hook.table],
            "checkpoints": checkpoints_of(runner),
            "sections": [(name, _html_of(content)) for name, content in self._sections.items()],
            "settings": settings_of(self._settings(runner)),
            "environment": self._environment,
            "written": datetime.now().astimezone().isoformat(" ", "seconds"),
            "version": version("aspecthook"),
        }

    def _settings(self, runner: Run) -> Mapping[str, Any]:
        if self.config is False:
            return {}
        if self.config is not None:
            return self.config
        found: Any = runner.meta.get("config")
        return runner.meta if not isinstance(found, Mapping) else cast("Mapping[str, Any]", found)


def _minute(time: str | None) -> str:
    """Return a time of ISO 8601 to the minute, as people write it."""
    return "" if time is None else time[:16].replace("T", " ")


def _facts(runner: Run, curves: Curves, end: End) -> list[str]:
    """Return how far the run has come, how long it took, and when it began."""
    if runner.by_epoch:
        done = runner.done.epoch
        place = f"{done:,} of {runner.max_epochs:,} epochs" if runner.max_epochs else f"{done:,} epochs"
        rows = [place, f"{curves.at:,} iterations"]
    else:
        rows = [f"{curves.at:,} of {runner.max_iters:,} iterations"]
    rows.append(duration_text(curves.seconds))
    if curves.begun is not None:
        rows.append(f"started {_minute(curves.begun)}")
    if curves.runs > 1:
        rows.append(f"resumed {curves.runs - 1} time{'s' * (curves.runs > 2)}")
    why = _why_stopped(runner) if end == "stopped" else None
    return [*rows, why] if why is not None else rows


def _why_stopped(runner: Run) -> str | None:
    return next((hook.stop_reason for hook in runner.hooks if isinstance(hook, EarlyStoppingHook)), None)


def _failure(error: BaseException) -> Failure:
    trace = "".join(traceback.format_exception(error))
    if len(trace) > _MOST_TRACE:
        trace = f"…{trace[-_MOST_TRACE:]}"
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else ""
    return Failure(type(error).__qualname__, _message_of(error), where, trace)


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the error that ended the run is the one to report
        return ""


# Sections


# Any: Jinja need not be installed; and any object with a form in HTML or as text.
def _html_of(content: Any) -> Any:
    """Return the content of a section as HTML, or the error that it raises, so that the report is written anyway."""
    from markupsafe import Markup, escape

    try:
        return _shown_as(content() if callable(content) else content)
    except Exception as error:
        return Markup("<p class=bad>This section could not be rendered: {}</p>").format(
            escape(f"{type(error).__name__}: {_message_of(error)}")
        )


def _shown_as(content: Any) -> Any:
    from markupsafe import Markup

    if hasattr(content, "__html__"):
        return Markup(content.__html__())
    if hasattr(content, "savefig"):
        return _picture(content)
    if callable(getattr(content, "_repr_html_", None)):
        return Markup(content._repr_html_())
    if isinstance(content, Mapping):
        rows = settings_of(cast("Mapping[str, Any]", content))
        cells = Markup("").join(Markup("<tr><th>{}<td>{}").format(name, value) for name, value in rows)
        return Markup("<div class=scroll><table class=pairs>{}</table></div>").format(cells)
    return Markup("<pre>{}</pre>").format(str(content))


def _picture(figure: Any) -> Any:
    from markupsafe import Markup

    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130, bbox_inches="tight", facecolor="white")
    data = base64.b64encode(file.getvalue()).decode()
    return Markup('<img class=figure alt="" src="data:image/png;base64,{}">').format(data)


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters["svg"] = Markup  # `chart_of` escapes its texts
    environment.filters["duration"] = duration_text
    return environment.from_string((files("aspecthook.training.report") / "page.html.jinja").read_text("utf-8"))
