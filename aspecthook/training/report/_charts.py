"""Charts of a run as SVG, inline in a page: colours are those of its style sheet, and no text is unescaped."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from itertools import pairwise
from math import isfinite, log10
from typing import NamedTuple, final

from aspecthook.training.logging._numbers import short_text

from ._curves import Window
from ._panels import Axis, Line, Panel, span_of, ticks_of

WIDTH, HEIGHT = 420, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 10, 38
_MOST_STRIPS = 90  # that tell their numbers when pointed at


class Key(NamedTuple):
    """One entry of a chart's legend."""

    label: str
    style: str
    last: str


class Chart(NamedTuple):
    """A chart, and what is written above it."""

    title: str
    note: str
    keys: list[Key]
    svg: str


def chart_of(panel: Panel, axis: Axis) -> Chart:
    """Draw a panel."""
    notes = [f"in {panel.unit}" if panel.unit else "", "log scale" if panel.is_log else ""]
    keys = [Key(line.label, style_of(line), short_text(line.last)) for line in panel.lines]
    return Chart(panel.title, ", ".join(filter(None, notes)), keys, _Drawing(panel, axis).text())


def style_of(line: Line) -> str:
    """Give the class of a line: its colour goes by what it is of, in all charts alike."""
    known = ("train", "val", "test", "predict", "lowest", "highest")
    return f"line-{line.label if line.label in known else 'train'}"


@final
class _Drawing:
    """The drawing of one panel, with its two scales."""

    def __init__(self, panel: Panel, axis: Axis) -> None:
        self.panel = panel
        self.axis = axis
        self.low, self.high = span_of(panel)
        self.end = max([window.end for line in panel.lines for window in line.windows], default=1)

    def text(self) -> str:
        """Give the SVG."""
        parts = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self._said())}">',
            *self._rows(),
            *self._columns(),
            *(part for line in self.panel.lines for part in self._band(line)),
            *(part for line in self.panel.lines for part in self._curve(line)),
            *self._bad(),
            *self._strips(),
            "</svg>",
        ]
        return "".join(parts)

    def _said(self) -> str:
        lasts = ", ".join(f"{line.label} {short_text(line.last)} at the end" for line in self.panel.lines)
        return f"{self.panel.title} by {self.axis.word}: {lasts}"

    # Scales

    def _x(self, iteration: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * min(iteration / max(self.end, 1), 1.0)

    def _y(self, value: float) -> float:
        to: Callable[[float], float] = (lambda number: log10(max(number, 1e-300))) if self.panel.is_log else float
        part = (to(value) - to(self.low)) / (to(self.high) - to(self.low))
        # What is far outside, an extreme, ends at the edge.
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * max(0.0, min(part, 1.0))

    # What stands around

    def _rows(self) -> list[str]:
        parts: list[str] = []
        for value in ticks_of(self.low, self.high, is_log=self.panel.is_log):
            y = self._y(value)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
            parts.append(
                f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short_text(value)}</text>'
            )
        return parts

    def _columns(self) -> list[str]:
        bottom = HEIGHT - _BOTTOM
        parts = [f'<path class="axis" d="M{_LEFT} {bottom}H{WIDTH - _RIGHT}"/>']
        for value in ticks_of(0.0, self.axis.at(self.end), is_log=False, most=6):
            if self.axis.per == 1.0 and value != int(value):
                continue
            x = self._x(value * self.axis.per)
            parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{short_text(value)}</text>'
            )
        middle = (_LEFT + WIDTH - _RIGHT) / 2
        word = f'<text class="tick" x="{middle}" y="{HEIGHT - 5}" text-anchor="middle">{self.axis.word}</text>'
        return [*parts, word]

    # The numbers

    def _band(self, line: Line) -> list[str]:
        if line.is_exact:
            return []
        parts: list[str] = []
        for run in _unbroken(line.windows):
            upper = [f"{self._x(_middle(window)):.1f} {self._y(window.high):.1f}" for window in run]
            lower = [f"{self._x(_middle(window)):.1f} {self._y(window.low):.1f}" for window in reversed(run)]
            parts.append(f'<path class="band {style_of(line)}" d="M{"L".join([*upper, *lower])}Z"/>')
        return parts

    def _curve(self, line: Line) -> list[str]:
        parts: list[str] = []
        for run in _unbroken(line.windows):
            places = [(self._x(_middle(window)), self._y(window.mean)) for window in run]
            if len(run) > 1:
                way = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
                parts.append(f'<path class="curve {style_of(line)}" d="M{way}"/>')
            if line.is_dotted or len(run) == 1:
                parts += [
                    f'<circle class="dot {style_of(line)}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in places
                ]
        return parts + self._best(line)

    def _best(self, line: Line) -> list[str]:
        """Put a ring around the best value of a validation."""
        good = [window for window in line.windows if isfinite(window.mean)]
        if line.label != "val" or line.rule is None or len(good) < 2:
            return []
        best = (max if line.rule == "greater" else min)(good, key=lambda window: window.mean)
        place = f'cx="{self._x(_middle(best)):.1f}" cy="{self._y(best.mean):.1f}"'
        return [f'<circle class="best {style_of(line)}" {place} r="5.5"/>']

    def _bad(self) -> list[str]:
        """Mark where a number was none."""
        parts: list[str] = []
        for line in self.panel.lines:
            for window in line.windows:
                if window.bad:
                    x, bottom = self._x(_middle(window)), HEIGHT - _BOTTOM
                    parts.append(f'<path class="bad" d="M{x:.1f} {bottom}l-3.5 -8h7z"/>')
        return parts

    # What is told where it is pointed at

    def _strips(self) -> list[str]:
        middles = sorted({_middle(window) for line in self.panel.lines for window in line.windows})
        if len(middles) > _MOST_STRIPS:
            middles = [self.end * (number + 0.5) / _MOST_STRIPS for number in range(_MOST_STRIPS)]
        places = [self._x(middle) for middle in middles]
        edges = [_LEFT, *((one + other) / 2 for one, other in pairwise(places)), WIDTH - _RIGHT]
        height = HEIGHT - _TOP - _BOTTOM
        return [
            f'<rect class="strip" x="{left:.1f}" y="{_TOP}" width="{max(right - left, 0.1):.1f}" height="{height}">'
            f"<title>{escape(self._told(middle))}</title></rect>"
            for middle, (left, right) in zip(middles, pairwise(edges), strict=True)
        ]

    def _told(self, middle: float) -> str:
        rows = [f"iteration {round(middle):,}"]
        if self.axis.word != "iteration":
            rows[0] = f"{self.axis.word} {short_text(self.axis.at(middle))}, {rows[0]}"
        for line in self.panel.lines:
            near = min(line.windows, key=lambda window: abs(_middle(window) - middle))
            several = "" if near.size < 2 or not near.count else f" ({short_text(near.low)} to {short_text(near.high)})"
            rows.append(f"{line.label} {short_text(near.mean)}{several}" + (", not finite" if near.bad else ""))
        return "\n".join(rows)


def _middle(window: Window) -> float:
    return (window.begin + window.end) / 2


def _unbroken(windows: list[Window]) -> list[list[Window]]:
    """Split where there is no number to draw."""
    runs: list[list[Window]] = [[]]
    for window in windows:
        if isfinite(window.mean):
            runs[-1].append(window)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]
