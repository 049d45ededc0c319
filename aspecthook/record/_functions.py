"""The table by function: calls, errors and times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple, final

from aspecthook._values import columns, shown_time

from ._calls import RecordedCall
from ._counts import halves, middle


class Row(NamedTuple):
    """One function of a table. Times are in seconds.

    ``total`` is how long its calls took, those inside other calls of the same function not counted twice; ``own`` is
    without the calls that were recorded inside them, and without the time in which a coroutine or generator waited.
    ``p50`` and ``p99`` are durations to three digits that 50 % and 99 % of the calls do not exceed.
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
        function    calls  errors   total     own   p50     p99
        shop:price      3       0  250 ms  250 ms  1 ms  200 ms
    """

    def __str__(self) -> str:
        heads = ("function", "calls", "errors", "total", "own", "p50", "p99")
        rows = [(row.name, str(row.calls), str(row.errors), *map(shown_time, row[3:])) for row in self]
        return "\n".join(columns([heads, *rows]))


@final
class Total:
    """The sums of one function, in memory that does not grow with the calls."""

    def __init__(self) -> None:
        self.calls = self.errors = 0
        self.total = self.own = 0.0
        # How many calls took how long, to three digits: there are 900 of them from 1 ms to 10 ms.
        self.durations: Counter[float] = Counter()
        self._halves: Counter[int] = Counter()  # of those that were only counted, see `halves`

    def add(self, duration: float | None, own: float, *, failed: bool, recursive: bool) -> None:
        """Add a call."""
        self.calls += 1
        self.errors += failed
        self.own += own
        if duration is not None:
            self.durations[float(f"{duration:.3g}")] += 1
            if not recursive:
                self.total += duration

    def add_counted(self, entry: dict[str, Any]) -> None:
        """Add what was counted of many calls."""
        self.calls += entry["calls"]
        self.errors += entry["errors"]
        self.total += entry["total"]
        self.own += entry["own"]
        self._halves.update(halves(entry["durations"]))

    def quantile(self, share: float) -> float:
        """Return the shortest time that at least this share of the calls does not exceed (nearest rank)."""
        for half, many in self._halves.items():
            self.durations[middle(half)] += many
        self._halves.clear()
        rank = share * self.durations.total()
        for duration in sorted(self.durations):
            rank -= self.durations[duration]
            if rank <= 0:
                return duration
        return 0.0  # none has ended


@final
class Totals(defaultdict[str, Total]):
    """The sums of all functions, by their labels."""

    def __init__(self, calls: Iterable[RecordedCall] = ()) -> None:
        super().__init__(Total)
        for call in calls:
            self[call.label].add(call.duration, call.own, failed=call.exc is not None, recursive=call.recursive)

    def table(self) -> Table:
        """Return the table."""
        rows = [
            Row(label, of.calls, of.errors, of.total, of.own, of.quantile(0.5), of.quantile(0.99))
            for label, of in self.items()
        ]
        return Table(sorted(rows, key=lambda row: -row.own))
