"""Curves of a run as a picture, drawn by matplotlib without its global state."""

from __future__ import annotations

import io
import os
import warnings
from importlib import import_module
from importlib.util import find_spec
from math import nan
from typing import TYPE_CHECKING, Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._optimizer import whole
from aspecthook.training.logging._numbers import short_text

from ._base import CurvesHook, End, per_epoch, rules_of
from ._panels import Axis, Line, Panel, axis_of, panels_of, span_of

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

_COLOURS = {
    "train": "#2563c9",
    "val": "#d2660a",
    "test": "#178a54",
    "predict": "#7d4bc2",
    "lowest": "#7d4bc2",
    "highest": "#178a54",
}
_ENDS: dict[End, str] = {"stopped": "stopped early", "interrupted": "interrupted", "failed": "failed"}
_MOST_PANELS = 24
_LONGEST = 40  # characters of a title


@final
@HOOKS.register
class PlotHook(CurvesHook):
    """Draw the loss, the metrics and the learning rate as a PNG, now and then and as the run ends, however it ends.

    There is a chart for each number: that of training, as means with a band from the lowest to the highest, and that of
    validations. It goes on where a resumed run was. Needs matplotlib.

    Args:
        interval: Every how many epochs, or iterations, to draw; 0 for only as the run ends.
        by_epoch: Count epochs; else iterations.
        share: What part of the run's time drawing may take, from 0 to 1: a picture that is due is left out where it
            would take more. With 1 none is left out, with 0 there is only that of the end.
        path: The file; in the run's ``work_dir`` unless absolute.
        dpi: Dots an inch; a chart is 4.4 by 3 inches.

    Attributes:
        curves: The numbers, for other drawings.

    Raises:
        HookOptionError: An option has a value that it cannot have.
        HookTypeError: An option is of another type.
        TrainingError: There is no matplotlib.

    Example:
        >>> PlotHook(interval=5).path.name
        'curves.png'
    """

    _cost = 1.0  # matplotlib is imported first

    def __init__(
        self,
        interval: int = 1,
        *,
        by_epoch: bool = True,
        share: float = 0.05,
        path: str | os.PathLike[str] = "curves.png",
        dpi: int = 110,
    ) -> None:
        super().__init__(interval, by_epoch=by_epoch, share=share, path=path)
        self.dpi = whole("PlotHook", "dpi", dpi, 10)
        if find_spec("matplotlib") is None:
            raise TrainingError(
                "PlotHook needs matplotlib; pip install 'aspecthook[train]', or take the ReportHook, which draws itself"
            )

    def made(self, runner: Runner) -> bytes:
        """Give the PNG."""
        axis = axis_of(self.curves, per_epoch(runner))
        figure = _figure(panels_of(self.curves, rules_of(runner)), axis, self._title(runner))
        file = io.BytesIO()
        with warnings.catch_warnings():
            # Names of metrics may be in any script.
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            figure.savefig(file, format="png", dpi=self.dpi)
        return file.getvalue()

    def _title(self, runner: Runner) -> str:
        name = runner.work_dir.name if runner.work_dir is not None else type(runner.model).__name__
        ended = f", {_ENDS[self.end]}" if self.end in _ENDS else ""
        return f"{name}: {self.curves.at:,} iterations{ended}"


# Any: matplotlib has types of its own, and need not be installed.
def _figure(panels: list[Panel], axis: Axis, title: str) -> Any:
    agg: Any = import_module("matplotlib.backends.backend_agg")
    plain: Any = import_module("matplotlib.figure")
    drawn = panels[:_MOST_PANELS]
    columns = 2 if len(drawn) == 4 else min(3, max(1, len(drawn)))
    rows = max(1, -(-len(drawn) // columns))
    figure = plain.Figure(figsize=(4.4 * columns, 3 * rows + 0.4), layout="constrained", facecolor="white")
    agg.FigureCanvasAgg(figure)
    left_out = f" ({len(panels) - len(drawn)} more numbers)" if len(panels) > len(drawn) else ""
    figure.suptitle(title + left_out, fontsize=11, parse_math=False)
    for place, panel in enumerate(drawn, 1):
        _draw(figure.add_subplot(rows, columns, place), panel, axis)
    return figure


def _draw(axes: Any, panel: Panel, axis: Axis) -> None:
    for line in panel.lines:
        _draw_line(axes, line, axis)
    if panel.is_log:
        axes.set_yscale("log")
    axes.set_ylim(*span_of(panel))
    axes.yaxis.set_major_formatter(_tick)
    axes.yaxis.set_minor_formatter(_no_tick)
    axes.grid(visible=True, color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=8)
    unit = f" [{panel.unit}]" if panel.unit else ""
    title = panel.title if len(panel.title) <= _LONGEST else f"{panel.title[:_LONGEST]}…"
    axes.set_title(title + unit, fontsize=10, loc="left", parse_math=False)
    axes.set_xlabel(axis.word, fontsize=8)
    if len(panel.lines) > 1 or panel.lines[0].label != panel.title:
        legend = axes.legend(fontsize=8, frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)


def _tick(value: float, _: int | None) -> str:
    return short_text(value)


def _no_tick(_: float, __: int | None) -> str:
    return ""


def _draw_line(axes: Any, line: Line, axis: Axis) -> None:
    colour = _COLOURS.get(line.label, _COLOURS["train"])
    places = [axis.at((window.begin + window.end) / 2) for window in line.windows]
    means = [window.mean for window in line.windows]
    marker = "o" if line.is_dotted or len(places) == 1 else None
    axes.plot(places, means, color=colour, linewidth=1.5, label=line.label, marker=marker, markersize=3)
    if not line.is_exact:
        lows = [window.low if window.count else nan for window in line.windows]
        highs = [window.high if window.count else nan for window in line.windows]
        axes.fill_between(places, lows, highs, color=colour, alpha=0.15, linewidth=0)
    bad = [place for place, window in zip(places, line.windows, strict=True) if window.bad]
    if bad:
        way = axes.get_xaxis_transform()  # at the foot, whatever the scale
        axes.plot(bad, [0.02] * len(bad), "^", color="#c62828", transform=way, label=f"{line.label}, not finite")
