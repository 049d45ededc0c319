"""The layout of the charts: which numbers share a panel, the order of the panels, and their scales."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, log10
from typing import NamedTuple, TypeAlias

from aspecthook.training.hooks._monitor import known_rule
from aspecthook.training.logging._numbers import MODES, PREFIXES

from ._record import Curves, Series, Window, joined

_MOST_DOTS = 45
_MOST_POINTS = 240  # of a line; the eye cannot separate more
_GROUPED = ("lr", "momentum")  # they may have a lowest and a highest value
LAST = ("lr", "momentum", "grad_norm", "time", "data_time")
_SECONDS = ("time", "data_time")
_TINY = 1e-300
_WIDE = 100.0  # the ratio from which a scale is logarithmic, so that small numbers are not drawn as a flat line


# Whether ``"greater"`` or ``"less"`` is better, by name.
Rules: TypeAlias = Mapping[str, str]


def rule_for(name: str, rules: Rules) -> str | None:
    """Return whether ``"greater"`` or ``"less"`` is better for a number, if that is known."""
    for prefix in PREFIXES:
        if name in rules or name.removeprefix(prefix) in rules:
            return rules.get(name) or rules[name.removeprefix(prefix)]
    return known_rule(name)


class Line(NamedTuple):
    """One number in a chart: windows of iterations, with means and extremes."""

    name: str
    label: str  # in the legend
    windows: list[Window]
    is_exact: bool  # whether each window is one value
    last: float
    rule: str | None  # ``"greater"`` or ``"less"`` is better, if that is known

    @property
    def is_dotted(self) -> bool:
        """Whether the values are results, and few enough to be seen one by one."""
        return self.label in MODES and self.is_exact and len(self.windows) <= _MOST_DOTS


class Panel(NamedTuple):
    """One chart."""

    title: str
    unit: str
    lines: list[Line]
    is_log: bool


class Axis(NamedTuple):
    """The x axis: iterations, or epochs of `per` iterations."""

    word: str
    per: float

    def at(self, iteration: float) -> float:
        """Return the place of an iteration on the axis."""
        return iteration / self.per


def panels_of(curves: Curves, rules: Rules) -> list[Panel]:
    """Return the panels: the loss first, then the metrics of validations, then the rest, and the rates last."""
    groups: dict[str, list[Line]] = {}
    for name, series in curves.series.items():
        base, label = _title_and_label(name)
        groups.setdefault(base, []).append(_line(name, label, series, rules))
    names = sorted(groups, key=lambda base: _rank(base, groups[base]))
    return [_panel(base, groups[base]) for base in names if not _is_dull(base, groups[base])]


def axis_of(curves: Curves, per_epoch: float | None) -> Axis:
    """Return the axis: epochs if there are two, and their length is known; otherwise iterations."""
    last = max((series.windows[-1].end for series in curves.series.values() if series.windows), default=0)
    if per_epoch and last >= 2 * per_epoch:
        return Axis("epoch", per_epoch)
    return Axis("iteration", 1.0)


def _title_and_label(name: str) -> tuple[str, str]:
    """Split the name of a number into the title of its panel and its label there."""
    for prefix in PREFIXES:
        if name.startswith(prefix) and name != prefix:
            return name.removeprefix(prefix), prefix[:-1]
    base, _, part = name.partition(" (")
    if base in _GROUPED and part:
        return base, part.rstrip(")")
    return name, "first" if base in _GROUPED else "train"


def _line(name: str, label: str, series: Series, rules: Rules) -> Line:
    windows, exact = series.windows, series.width == 1
    while len(windows) > _MOST_POINTS:
        windows, exact = [windows[0], *joined(windows[1:])], False
    if len(windows) > 2 and 2 * windows[-1].size <= windows[-2].size:  # the mean of a window with few values is noisy
        windows = [*windows[:-2], windows[-2].joined(windows[-1])]
    last = windows[-1].mean if windows and isfinite(series.last) else series.last
    return Line(name, label, windows, exact, last, rule_for(name, rules))


def _rank(base: str, lines: list[Line]) -> tuple[int, int, str]:
    if base in LAST:
        return 4, LAST.index(base), base
    is_validated = any(line.label != "train" for line in lines)
    return (0 if base == "loss" else 1 if is_validated else 2 if "loss" in base else 3), 0, ""


def _is_dull(base: str, lines: list[Line]) -> bool:
    """Whether a panel has nothing to show, as for a constant momentum."""
    values = {value for line in lines for window in line.windows for value in (window.low, window.high)}
    return base == "momentum" and len(values) <= 1


def _panel(base: str, lines: list[Line]) -> Panel:
    if len(lines) == 1 and lines[0].label == "first":
        lines = [lines[0]._replace(label=base)]
    values = [window.mean for line in lines for window in line.windows if isfinite(window.mean)]
    can_be_log = "loss" in base or base == "grad_norm"
    is_log = can_be_log and bool(values) and min(values) > _TINY and max(values) / min(values) >= _WIDE
    return Panel(base, "s" if base in _SECONDS else "", lines, is_log)


def span_of(panel: Panel) -> tuple[float, float]:
    """Return the limits of the y axis: those of the means with some room, since extremes would flatten the lines."""
    means = [window.mean for line in panel.lines for window in line.windows if isfinite(window.mean)]
    if not means:
        return 0.0, 1.0
    low, high = min(means), max(means)
    if panel.is_log:
        room = 10 ** (0.06 * (log10(high) - log10(low)))
        return max(low / room, _TINY), min(high * room, 1 / _TINY)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    # The axis of numbers that are never negative begins at 0, if that is near.
    if 0 <= low <= (high - low) * 0.3:
        return 0.0, high + room
    return low - room, high + room
