"""The hook that draws the curves of a run as a PNG."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar, final

from aspecthook.training._options import whole_number
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._run import Run

from ._base import CurvesHook, End, per_epoch, rules_of
from ._chart_layout import Axis, Panel, axis_of, panels_of
from ._drawing import draw, new_figure, saved

_ENDS: dict[End, str] = {"stopped": "stopped early", "interrupted": "interrupted", "failed": "failed"}
_MOST_PANELS = 24
_LONGEST = 40  # characters of a title


@final
@HOOKS.register
class PlotHook(CurvesHook):
    """Draw the loss, the metrics and the learning rate as a PNG, now and then and when the run ends.

    Each number has a chart: the means of training with a band from the lowest to the highest value, and the results of
    validations. A resumed run continues its curves. Needs matplotlib.

    Args:
        interval: Draw every so many epochs or iterations; 0 for only when the run ends.
        by_epoch: Count epochs; otherwise iterations.
        share, path: As those of `ReportHook`.
        dpi: Dots per inch; a chart is 4.4 by 3 inches.

    Attributes:
        curves: The numbers, for other drawings.

    Example:
        >>> PlotHook(interval=5).path.name
        'curves.png'
    """

    needs: ClassVar[Sequence[str]] = ("matplotlib",)

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
        self.dpi: int = whole_number("PlotHook", "dpi", dpi, 10)

    def content(self, runner: Run) -> bytes:
        """Return the PNG."""
        axis = axis_of(self.curves, per_epoch(runner))
        figure = _figure(panels_of(self.curves, rules_of(runner)), axis, self._title(runner))
        return saved(figure, "png", dpi=self.dpi)

    def _title(self, runner: Run) -> str:
        name = runner.work_dir.name if runner.work_dir is not None else type(runner.model).__name__
        ended = f", {_ENDS[self.end]}" if self.end in _ENDS else ""
        return f"{name}: {self.curves.at:,} iterations{ended}"


# Any: a figure of matplotlib.
def _figure(panels: list[Panel], axis: Axis, title: str) -> Any:
    drawn = panels[:_MOST_PANELS]
    columns = 2 if len(drawn) == 4 else min(3, max(1, len(drawn)))
    rows = max(1, -(-len(drawn) // columns))
    figure = new_figure(4.4 * columns, 3 * rows + 0.4, "agg")
    figure.set_layout_engine("constrained")
    left_out = f" ({len(panels) - len(drawn)} more numbers)" if len(panels) > len(drawn) else ""
    figure.suptitle(title + left_out, fontsize=11, parse_math=False)
    for place, panel in enumerate(drawn, 1):
        axes = figure.add_subplot(rows, columns, place)
        draw(axes, panel, axis, size=8)
        unit = f" [{panel.unit}]" if panel.unit else ""
        name = panel.title if len(panel.title) <= _LONGEST else f"{panel.title[:_LONGEST]}…"
        axes.set_title(name + unit, fontsize=10, loc="left", parse_math=False)
        if len(panel.lines) > 1 or panel.lines[0].label != panel.title:
            legend = axes.legend(fontsize=8, frameon=False)
            for text in legend.get_texts():
                text.set_parse_math(False)
    return figure
