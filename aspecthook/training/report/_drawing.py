"""Charts drawn by matplotlib, without its global state: on any axes, or as SVG for a page.

In a page the colours are those of its style sheet, so that a chart is light or dark as the page is.
"""

from __future__ import annotations

import io
import re
import warnings
from html import escape
from importlib import import_module
from math import isfinite, nan
from typing import Any, NamedTuple

from aspecthook.training.logging._numbers import short_text

from ._chart_layout import Axis, Line, Panel, span_of
from ._record import Window

WIDTH, HEIGHT = 420, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 10, 38
_STEPS = (1, 2, 2.5, 5, 10)  # between ticks

# The colours, by the names of their variables in the style sheet of the page.
_COLOURS = {
    "train": "#2563c9",
    "val": "#d2660a",
    "test": "#178a54",
    "more": "#7d4bc2",
    "bad": "#c62828",
    "line": "#e3e6ea",
    "soft": "#5a6675",
}
_USES = {"val": "val", "test": "test", "predict": "more", "lowest": "more", "highest": "test"}

# Parts of matplotlib's SVG that a page with several charts cannot have: style rules for all elements, repeated ids.
_UNUSABLE = re.compile(r'<defs>\s*<style.*?</defs>|(?<=<g) id="[^"]*"', re.DOTALL)


class Key(NamedTuple):
    """One entry of a chart's legend."""

    label: str
    colour: str  # a variable of the style sheet
    last: str


class Chart(NamedTuple):
    """A chart for a page, and the texts above it."""

    title: str
    note: str
    keys: list[Key]
    svg: str


def chart_of(panel: Panel, axis: Axis) -> Chart:
    """Draw a panel for a page."""
    notes = [f"in {panel.unit}" if panel.unit else "", "log scale" if panel.is_log else ""]
    keys = [Key(line.label, _colour_of(line), short_text(line.last)) for line in panel.lines]
    lasts = ", ".join(f"{key.label} {key.last} at the end" for key in keys)
    label = escape(f"{panel.title} by {axis.word}: {lasts}")
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{_svg(panel, axis)}</svg>'
    return Chart(panel.title, ", ".join(filter(None, notes)), keys, svg)


def _colour_of(line: Line) -> str:
    """Return the variable with the colour of a line: one for each mode, the same in all charts."""
    return _USES.get(line.label, "train")


def _svg(panel: Panel, axis: Axis) -> str:
    figure = new_figure(WIDTH / 72, HEIGHT / 72, "svg")  # a unit of an SVG is a point
    width, height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    draw(figure.add_axes((_LEFT / WIDTH, _BOTTOM / HEIGHT, width / WIDTH, height / HEIGHT)), panel, axis, size=12)
    about = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # metadata need namespaces that a page does not have
    text = saved(figure, "svg", transparent=True, metadata=about).decode()
    text = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    text = _UNUSABLE.sub("", text).replace("xlink:href", "href")
    for name, colour in _COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    return text


# Any: matplotlib is imported when something is drawn, and has types of its own; here and below.
def new_figure(width: float, height: float, kind: str) -> Any:
    """Return an empty figure with a canvas for ``"agg"`` or ``"svg"``; sizes in inches."""
    figure: Any = import_module("matplotlib.figure").Figure(figsize=(width, height), facecolor="white")
    canvas: Any = import_module(f"matplotlib.backends.backend_{kind}")
    getattr(canvas, f"FigureCanvas{kind.upper() if kind == 'svg' else kind.title()}")(figure)
    return figure


def saved(figure: Any, kind: str, **options: Any) -> bytes:
    """Return a figure as a file of a kind."""
    import numpy as np

    file = io.BytesIO()
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # numbers may be near the largest float
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names of metrics may be in any alphabet
        figure.savefig(file, format=kind, **options)
    return file.getvalue()


def draw(axes: Any, panel: Panel, axis: Axis, *, size: float) -> None:
    """Draw a panel on axes of matplotlib; the size of texts is in points."""
    ticker: Any = import_module("matplotlib.ticker")
    for line in panel.lines:
        _draw_line(axes, line, axis)
    if panel.is_log:
        axes.set_yscale("log")
    else:
        axes.yaxis.set_major_locator(ticker.MaxNLocator(5, steps=_STEPS))
    axes.set_ylim(*span_of(panel))
    axes.yaxis.set_major_formatter(_tick_text)
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xlim(0, axis.at(_end_of(panel)))
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6, steps=_STEPS, integer=axis.per == 1))
    axes.xaxis.set_major_formatter(_tick_text)
    axes.set_xlabel(axis.word, fontsize=size, color=_COLOURS["soft"])
    axes.grid(visible=True, axis="y", color=_COLOURS["line"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=size, color=_COLOURS["soft"], labelcolor=_COLOURS["soft"])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_COLOURS["soft"])


def _tick_text(value: float, _: int | None) -> str:
    return short_text(value)


def _draw_line(axes: Any, line: Line, axis: Axis) -> None:
    colour = _COLOURS[_colour_of(line)]
    places = [axis.at(_middle(window)) for window in line.windows]
    means = [window.mean for window in line.windows]
    dots = [place for place in range(len(means)) if line.is_dotted or _is_alone(means, place)]
    marks: dict[str, Any] = {"marker": "o", "markersize": 4, "markevery": dots} if dots else {}
    # Numbers at the edge are drawn whole; only the band, whose extremes may be far outside, is clipped.
    axes.plot(places, means, color=colour, linewidth=1.5, label=line.label, clip_on=False, **marks)
    if not line.is_exact:
        lows = [window.low if window.count else nan for window in line.windows]
        highs = [window.high if window.count else nan for window in line.windows]
        axes.fill_between(places, lows, highs, color=colour, alpha=0.16, linewidth=0)
    best = _best_of(line)
    if best is not None:
        ring: dict[str, Any] = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "clip_on": False}
        axes.plot([axis.at(_middle(best))], [best.mean], color=colour, **ring)
    bad = [place for place, window in zip(places, line.windows, strict=True) if window.bad]
    if bad:
        foot = axes.get_xaxis_transform()  # y is relative to the height, on any scale
        axes.plot(bad, [0.02] * len(bad), "^", color=_COLOURS["bad"], transform=foot, label=f"{line.label}, not finite")


def _is_alone(means: list[float], place: int) -> bool:
    """Whether the numbers beside a number are not finite, so that a line would not show it."""
    near = means[max(place - 1, 0) : place + 2]
    return isfinite(means[place]) and sum(map(isfinite, near)) == 1


def _best_of(line: Line) -> Window | None:
    """Return the best value of a validation, if there are several."""
    good = [window for window in line.windows if isfinite(window.mean)]
    if line.label != "val" or line.rule is None or len(good) < 2:
        return None
    return (max if line.rule == "greater" else min)(good, key=lambda window: window.mean)


def _end_of(panel: Panel) -> int:
    return max([1, *(window.end for line in panel.lines for window in line.windows)])


def _middle(window: Window) -> float:
    return (window.begin + window.end) / 2
