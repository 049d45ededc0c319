"""Print the table of `docs/contributing/goals.md` from what `python -m benchmarks --goals FILE` kept on each Python.

python -m benchmarks.table 3.11.json 3.13.json 3.14.json 3.14t.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .results import SCALE, shown_time

# A row of the table: the contest, the contender and what it is compared with; the same on each Python.
Row = tuple[str, str, str]


def main(paths: list[str]) -> None:
    """Print one column for each file, and one row for each goal that any of them has."""
    columns = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    found = [{_row(entry): entry for entry in column["goals"]} for column in columns]
    rows = dict.fromkeys(row for column in found for row in column)
    print("| what | goal |", " | ".join(column["python"] for column in columns), "|")
    print("|---|---|" + "---|" * len(columns))
    for row in rows:
        entries = [column.get(row) for column in found]
        known = next(entry for entry in entries if entry is not None)
        limits = dict.fromkeys(_limit(entry) for entry in entries if entry is not None)  # some differ between Pythons
        print(f"| {_title(known)} | {'; '.join(limits)} |", " | ".join(map(_value, entries)), "|")


def _row(entry: dict[str, Any]) -> Row:
    return entry["title"], entry["of"], entry["over"]


def _title(entry: dict[str, Any]) -> str:
    over = f", against {entry['over']}" if entry["over"] else ""
    return f"{entry['title']}: {entry['of']}{over}"


def _limit(entry: dict[str, Any]) -> str:
    limit = f"{entry['limit']:g}" if entry["over"] else f"{entry['limit'] * SCALE[entry['unit']]:,g} {entry['unit']}"
    return f"{'≥' if entry['at_least'] else '≤'} {limit}"


def _value(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return ""
    value, unit = entry["value"], entry["unit"]
    shown = f"{value:.2f}" if entry["over"] else f"{shown_time(value, unit)} {unit}"
    return shown if entry["met"] else f"**{shown}**"


if __name__ == "__main__":
    main(sys.argv[1:])
