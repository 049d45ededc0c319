"""Which numbers of a run are drawn together, in which order, and on which scale."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, log10
from typing import NamedTuple, TypeAlias

from aspecthook.training.hooks._monitor import known_rule
from aspecthook.training.logging._numbers import MODES, PREFIXES

from ._record import Curves, Series, Window, joined

_MOST_DOTS = 45
_MOST_POINTS = 240  # of a line: more than that nobody can tell apart
_GROUPED = ("lr", "momentum")  # of which the lowest and the highest are drawn too
LAST = ("lr", "momentum", "grad_norm", "time", "data_time")
_SECONDS = ("time", "data_time")
_TINY = 1e-300
_WIDE = 100.0  # from where on a scale is logarithmic: what is small at the end would be a flat line


# Whether a greater or a lesser number is better, where the names do not tell.
Rules: TypeAlias = Mapping[str, str]


def rule_for(name: str, rules: Rules) -> str | None:
    """Say whether a ``"greater"`` or a ``"less"`` number is better, if that is known."""
    for prefix in PREFIXES:
        if name in rules or name.removeprefix(prefix) in rules:
            return rules.get(name) or rules[name.removeprefix(prefix)]
    return known_rule(name)


class Line(NamedTuple):
    """One number in a chart: windows of iterations, with means and extremes."""

    name: str
    label: str  # in the legend
    windows: list[Window]
    is_exact: bool  # no window has more than one value
    last: float
    rule: str | None  # whether ``"greater"`` or ``"less"`` is better, if that is known

    @property
    def is_dotted(self) -> bool:
        """Whether each value is a result, and they are few enough to be seen one by one."""
        return self.label in MODES and self.is_exact and len(self.windows) <= _MOST_DOTS


class Panel(NamedTuple):
    """One chart."""

    title: str
    unit: str
    lines: list[Line]
    is_log: bool


class Axis(NamedTuple):
    """What is along the bottom: iterations, or epochs of so many."""

    word: str
    per: float  # iterations

    def at(self, iteration: float) -> float:
        """Give where an iteration is."""
        return iteration / self.per


def panels_of(curves: Curves, rules: Rules) -> list[Panel]:
    """Give the charts of a run: the loss first, then what it was validated by, then the rest, and the rates."""
    groups: dict[str, list[Line]] = {}
    for name, series in curves.series.items():
        base, label = _told(name)
        groups.setdefault(base, []).append(_line(name, label, series, rules))
    names = sorted(groups, key=lambda base: _rank(base, groups[base]))
    return [_panel(base, groups[base]) for base in names if not _is_dull(base, groups[base])]


def axis_of(curves: Curves, per_epoch: float | None) -> Axis:
    """Give the axis of a run: in epochs, once there are two of them, where it is known how long one is."""
    last = max((series.windows[-1].end for series in curves.series.values() if series.windows), default=0)
    if per_epoch and last >= 2 * per_epoch:
        return Axis("epoch", per_epoch)
    return Axis("iteration", 1.0)


def _told(name: str) -> tuple[str, str]:
    """Split the name of a number into what it is of, and what of that it is."""
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
    if len(windows) > 2 and 2 * windows[-1].size <= windows[-2].size:  # one that has only begun would stick out
        windows = [*windows[:-2], windows[-2].joined(windows[-1])]
    last = windows[-1].mean if windows and isfinite(series.last) else series.last
    return Line(name, label, windows, exact, last, rule_for(name, rules))


def _rank(base: str, lines: list[Line]) -> tuple[int, int, str]:
    if base in LAST:
        return 4, LAST.index(base), base
    is_validated = any(line.label != "train" for line in lines)
    return (0 if base == "loss" else 1 if is_validated else 2 if "loss" in base else 3), 0, ""


def _is_dull(base: str, lines: list[Line]) -> bool:
    """Say whether there is nothing to see: a momentum that nobody changes."""
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
    """Give the lowest and the highest of what is drawn, with some room; extremes alone must not flatten the lines."""
    means = [window.mean for line in panel.lines for window in line.windows if isfinite(window.mean)]
    if not means:
        return 0.0, 1.0
    low, high = min(means), max(means)
    if panel.is_log:
        room = 10 ** (0.06 * (log10(high) - log10(low)))
        return max(low / room, _TINY), min(high * room, 1 / _TINY)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    # What cannot be less than nothing has its axis begin there, if that is near.
    if 0 <= low <= (high - low) * 0.3:
        return 0.0, high + room
    return low - room, high + room
