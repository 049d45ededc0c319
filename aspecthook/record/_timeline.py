"""When which call ran: for each thread, slices of time that are inside each other or apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ._calls import RecordedCall


class Slice(NamedTuple):
    """A time in which a call ran: the whole call, or one turn of a coroutine or a generator."""

    begin: float
    end: float
    call: RecordedCall


def slices(calls: Iterable[RecordedCall]) -> dict[tuple[int, str], list[Slice]]:
    """Return the slices of each thread of each process, outer ones first; none overlaps another partly."""
    lanes: defaultdict[tuple[int, str], list[Slice]] = defaultdict(list)
    calls = list(calls)
    last = max([call.begin + (call.duration or 0.0) for call in calls], default=0.0)
    for call in calls:
        times = call.turns or [(call.begin, last - call.begin if call.duration is None else call.duration)]
        for begin, length in times:
            lanes[call.process, call.thread].append(Slice(begin, begin + length, call))
    return {lane: _nested(rows) for lane, rows in lanes.items()}


def _nested(rows: list[Slice]) -> list[Slice]:
    """Sort slices, and cut what ends after the slice around it: clocks and rounding are not that exact."""
    rows.sort(key=lambda row: (row.begin, -row.end, row.call.number))
    open_: list[Slice] = []
    cut: list[Slice] = []
    for row in rows:
        while open_ and open_[-1].end <= row.begin:
            open_.pop()
        one = row if not open_ or row.end <= open_[-1].end else row._replace(end=open_[-1].end)
        open_.append(one)
        cut.append(one)
    return cut
