"""The table by function: calls, errors and times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, final

from ._calls import RecordedCall
from ._timeline import own_times


class Row(NamedTuple):
    """One function of a table. Times are in seconds.

    ``total`` is how long its calls took, those inside other calls of the same function not counted twice; ``own`` is
    without the calls that were recorded inside them, and without the time in which a coroutine or generator waited.
    """

    name: str
    calls: int
    errors: int
    total: float
    own: float
    p50: float
    p99: float


@final
class Table(list[Row]):
    """Rows, the longest own time first; ``print(table)`` aligns them.

    Example:
        >>> print(Table([Row("shop:price", 3, 0, 0.25, 0.25, 0.001, 0.2)]))
        function    calls  errors     total       own       p50       p99
        shop:price      3       0  250.0 ms  250.0 ms    1.0 ms  200.0 ms
    """

    def __str__(self) -> str:
        width = max([8, *(len(row.name) for row in self)])
        lines = [f"{'function':{width}}  calls  errors     total       own       p50       p99"]
        for row in self:
            times = "".join([f"{_milliseconds(value):>10}" for value in row[3:]])
            lines.append(f"{row.name:{width}}  {row.calls:5}  {row.errors:6}{times}")
        return "\n".join(lines)


def table(calls: Iterable[RecordedCall]) -> Table:
    """Return the table of some calls."""
    calls = list(calls)
    groups: defaultdict[str, list[RecordedCall]] = defaultdict(list)
    for call in calls:
        groups[call.label].append(call)
    own = own_times(calls)
    rows = [_row(label, group, own) for label, group in groups.items()]
    return Table(sorted(rows, key=lambda row: -row.own))


def _row(label: str, calls: list[RecordedCall], own: dict[int, float]) -> Row:
    durations = sorted([call.duration for call in calls if call.duration is not None])
    outermost = [call.duration or 0.0 for call in calls if not _recursive(call)]
    return Row(
        label,
        len(calls),
        sum(call.exc is not None for call in calls),
        sum(outermost),
        sum(own[id(call)] for call in calls),
        _quantile(durations, 0.5),
        _quantile(durations, 0.99),
    )


def _recursive(call: RecordedCall) -> bool:
    parent = call.parent
    while parent is not None:
        if parent.label == call.label:
            return True
        parent = parent.parent
    return False


def _quantile(values: list[float], share: float) -> float:
    """Return the smallest of sorted values that at least this share of them does not exceed (nearest rank)."""
    return values[max(0, -int(-share * len(values) // 1) - 1)] if values else 0.0


def _milliseconds(value: float) -> str:
    return f"{value * 1e3:,.1f} ms" if value >= 1e-4 else f"{value * 1e6:.1f} µs"
