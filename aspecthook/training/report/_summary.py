"""Summaries of the record: the last and the best of each number, the table of epochs, and warnings."""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

from aspecthook.training.logging._numbers import PREFIXES, duration_text, short_text

from ._chart_layout import LAST, Rules, panels_of, rule_for
from ._record import Curves, EpochRow

_MOST_HEADLINES = 6
_MOST_COLUMNS = 40


class Summary(NamedTuple):
    """The last value, the best and the range of one number, as text."""

    name: str
    final: str
    final_when: str
    best: str  # empty if it is not known which values are better
    best_when: str
    span: str  # the lowest and the highest
    is_best: bool  # whether the last is the best


class Cell(NamedTuple):
    """A number in the table."""

    text: str
    is_best: bool
    is_bad: bool


class Table(NamedTuple):
    """The epochs of a run."""

    names: list[str]
    rows: list[tuple[str, str, list[Cell], str]]
    note: str


def summaries_of(curves: Curves, rules: Rules, *, by_epoch: bool) -> list[Summary]:
    """Return the summaries of the numbers that are results."""
    return [_summary(curves, name, rules, by_epoch=by_epoch) for name in _names(curves, rules) if not _is_setting(name)]


def headlines_of(summaries: list[Summary]) -> list[Summary]:
    """Return the most important summaries: tests, then validations, then the loss."""
    return sorted(summaries, key=lambda one: _weight(one.name))[:_MOST_HEADLINES]


def epochs_of(curves: Curves, rules: Rules) -> Table:
    """Return the table of the epochs."""
    names = [name for name in _names(curves, rules) if not name.startswith("test_")][:_MOST_COLUMNS]
    best = {name: curves.best(name, rule) for name in names if (rule := rule_for(name, rules)) is not None}
    rows = [_row(row, names, {name: one.row for name, one in best.items() if one is not None}) for row in curves.rows]
    left_out = "Some rows are left out." if curves.is_thinned else ""
    return Table(names, rows, left_out)


def warnings_of(curves: Curves) -> list[str]:
    """Return a warning for each number that was not finite."""
    found: list[str] = []
    for name, series in curves.series.items():
        if series.bad:
            first = next(window for window in series.windows if window.bad)
            where = f"{first.begin:,}" if first.begin == first.end else f"{first.begin:,} to {first.end:,}"
            total = sum(window.size for window in series.windows)
            found.append(f"{name} was NaN or infinite {series.bad:,} of {total:,} times, first at iteration {where}.")
    return found


def when(row: EpochRow, *, by_epoch: bool) -> str:
    """Return the epoch or the iteration of a row, in words."""
    return f"epoch {row.epoch:,}" if by_epoch else f"iteration {row.iter:,}"


def _names(curves: Curves, rules: Rules) -> list[str]:
    """Return the names in the order of the charts."""
    return [line.name for panel in panels_of(curves, rules) for line in panel.lines]


def _is_setting(name: str) -> bool:
    return name.partition(" (")[0] in LAST


def _weight(name: str) -> tuple[bool, ...]:
    is_of_training = not name.startswith(PREFIXES)
    is_loss = "loss" in name
    return not name.startswith("test_"), is_of_training and name != "loss", is_of_training, is_loss


def _summary(curves: Curves, name: str, rules: Rules, *, by_epoch: bool) -> Summary:
    final, rule = curves.final(name), rule_for(name, rules)
    low, high = curves.best(name, "less"), curves.best(name, "greater")
    if sum(row.value(name) is not None for row in curves.rows) == 1:  # nothing to compare
        low = high = None
    best = None if rule is None else high if rule == "greater" else low
    return Summary(
        name,
        "" if final is None else short_text(final.value),
        "" if final is None else when(final.row, by_epoch=by_epoch),
        "" if best is None else short_text(best.value),
        "" if best is None else when(best.row, by_epoch=by_epoch),
        "" if low is None or high is None else f"{short_text(low.value)} to {short_text(high.value)}",
        best is not None and final is not None and best.value == final.value,
    )


def _row(row: EpochRow, names: list[str], best: dict[str, EpochRow]) -> tuple[str, str, list[Cell], str]:
    cells: list[Cell] = []
    for name in names:
        value = row.value(name)
        cells.append(Cell(short_text(value), best.get(name) is row, value is not None and not isfinite(value)))
    return f"{row.epoch:,}", f"{row.iter:,}", cells, duration_text(row.seconds)
