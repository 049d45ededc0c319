"""The table by function: calls, errors and times."""

from __future__ import annotations

import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable

from aspecthook._hints import Any, NamedTuple, final
from aspecthook._values import columns, shown_time

from ._calls import RecordedCall


class Row(NamedTuple):
    """One function of a table. Times are in seconds.

    ``total`` is how long its calls took, those inside other calls of the same function not counted twice; ``own`` is
    without the calls that were recorded inside them, and without the time in which a coroutine or generator waited.
    ``p50`` and ``p99`` are durations, to one percent, that 50 % and 99 % of the calls do not exceed.
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
    """Rows, the longest own time first; ``print(table)`` aligns them."""

    def __str__(self) -> str:
        heads = ("function", "calls", "errors", "total", "own", "p50", "p99")
        rows = [(row.name, str(row.calls), str(row.errors), *map(shown_time, row[3:])) for row in self]
        return "\n".join(columns([heads, *rows]))


_SUMS = ("calls", "errors", "total", "own")


@final
class Total:
    """The sums of one function, in memory that does not grow with its calls."""

    def __init__(self) -> None:
        self.calls = self.errors = 0
        self.total = self.own = 0.0
        # How long those calls took whose durations are not counted yet.
        self.lengths: list[float] = []
        # How many calls took how long, see `_halves`.
        self.durations: Counter[int] = Counter()

    def add(self, duration: float | None, own: float, *, failed: bool, recursive: bool) -> None:
        """Add a call."""
        self.calls += 1
        self.errors += failed
        self.own += own
        if duration is not None:
            self.lengths.append(duration)
            if not recursive:
                self.total += duration
            if len(self.lengths) > _MOST_WAITING:
                self._count()

    def add_call(self, call: RecordedCall) -> None:
        """Add a call that was recorded."""
        self.add(call.duration, call.own, failed=call.exc is not None, recursive=call.recursive)

    def _count(self) -> None:
        self.durations.update(_halves(self.lengths))
        self.lengths.clear()

    def entry(self) -> dict[str, Any]:
        """Return the sums as an entry of a file."""
        self._count()
        return {name: getattr(self, name) for name in (*_SUMS, "durations")}

    def add_entry(self, entry: dict[str, Any]) -> None:
        """Add what such an entry has."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + entry[name])
        self.durations.update({int(half): many for half, many in entry["durations"].items()})

    def quantile(self, share: float) -> float:
        """Return the shortest time that at least this share of the calls does not exceed (nearest rank)."""
        self._count()
        rank = share * self.durations.total()
        for half in sorted(self.durations):
            rank -= self.durations[half]
            if rank <= 0:
                return array("f", array("I", [half << 16]).tobytes())[0]  # the least, so that none exceeds its total
        return 0.0  # none has ended


# So many durations are counted at once.
_MOST_WAITING = 1_000


def _halves(lengths: Iterable[float]) -> array[int]:
    """Return numbers to one percent: the upper halves of their four bytes, with the exponent and seven bits.

    To cut the lower half off takes a tenth of the time that rounding takes.
    """
    return array("H", array("f", lengths).tobytes())[sys.byteorder == "little" :: 2]


@final
class Totals(defaultdict[str, Total]):
    """The sums of all functions, by their labels."""

    def __init__(self, calls: Iterable[RecordedCall] = ()) -> None:
        super().__init__(Total)
        for call in calls:
            self[call.label].add_call(call)

    def table(self) -> Table:
        """Return the table."""
        rows = [
            Row(label, of.calls, of.errors, of.total, of.own, of.quantile(0.5), of.quantile(0.99))
            for label, of in self.items()
        ]
        return Table(sorted(rows, key=lambda row: -row.own))
