"""Hooks as a table, in text and in HTML."""

from __future__ import annotations

from aspecthook._hints import NamedTuple

_HEADS = ("#", "mount point", "kind", "name", "priority", "order", "conditions", "where")


class Row(NamedTuple):
    """One hook as it is shown."""

    kind: str
    # The cells of the table, without its number.
    word: str
    name: str
    priority: str
    order: str
    conditions: str
    where: str
    # What its `before` and `after` name that is no hook here, and the nearest name.
    notes: tuple[str, ...]
    # The name of its mount point, in a table of several.
    mount: str = ""


def _columns(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the cells of the columns that are not empty."""
    table = [[str(place), row.mount, *row[1:7]] for place, row in enumerate(rows, 1)]
    kept = [place for place, cells in enumerate(zip(*table, strict=True)) if any(cells)]
    return [_HEADS[place] for place in kept], [[line[place] for place in kept] for line in table]


def as_text(title: str, rows: list[Row]) -> str:
    """Return a title and the table below it, as lines."""
    heads, table = _columns(rows)
    if not table:
        return title
    widths = [max(map(len, column)) for column in zip(heads, *table, strict=True)]
    lines = [title]
    for place, line in enumerate([heads, *table]):
        cells = [
            cell.rjust(width) if head == "#" else cell.ljust(width)
            for head, cell, width in zip(heads, line, widths, strict=True)
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
        if place:
            lines += [f"      {note}" for note in rows[place - 1].notes]
    return "\n".join(lines)
