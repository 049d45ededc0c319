"""A chain to look at: its hooks as a table, in text and in HTML. Loaded when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from os.path import relpath

from aspecthook._core.law.callables import code_of, name_of
from aspecthook._core.law.hook import EXCEPTION, Hook
from aspecthook._core.law.kinds import Kind
from aspecthook._core.law.options import Priority
from aspecthook._errors import printable
from aspecthook._hints import NamedTuple, TypeAlias

from .adding import shown_name

# For a hook, what its `before` and `after` name that is no hook here: the option, what it names, and why.
Unmet: TypeAlias = Callable[[Hook], Iterator[tuple[str, object, str]]]

_NAMES = {int(one): one.name for one in Priority}
_HEADS = ("#", "mount point", "kind", "name", "priority", "order", "conditions", "where")


class Row(NamedTuple):
    """One hook as it is shown."""

    kind: Kind
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


def rows_of(hooks: Iterable[Hook], unmet: Unmet) -> list[Row]:
    """Return hooks as rows, in the order in which they run."""
    return [_row(hook, unmet) for hook in hooks]


def _row(hook: Hook, unmet: Unmet) -> Row:
    missed = [(option, shown_name(one), why) for option, one, why in unmet(hook)]
    unknown = {(option, shown) for option, shown, _ in missed}
    named = [(option, shown_name(one)) for option, _, one in hook.mentioned()]
    order = [f"{option}={shown}{' (?)' * ((option, shown) in unknown)}" for option, shown in named]
    return Row(
        kind=hook.kind,
        word=hook.word,
        name=hook.name,
        priority=_NAMES.get(hook.priority, str(hook.priority)),
        order=printable(" ".join(order)),
        conditions=printable(", ".join(_conditions(hook))),
        where=where(hook),
        notes=tuple([printable(f"{option}={shown}{why}") for option, shown, why in missed]),
    )


def _conditions(hook: Hook) -> Iterator[str]:
    """Yield when a hook acts, and what has become of it."""
    had = hook.conditions
    if hook.kind == "exception" and hook.types != EXCEPTION:
        yield " or ".join([one.__name__ for one in hook.types])
    if hook.when is not None:
        yield f"when={name_of(hook.when.holds)}"
    if had.times is not None:
        yield "once" if had.times == 1 else f"times={had.times}"
    if had.every is not None:
        yield f"every={had.every}"
    yield from [word for word in ("isolate", "weak") if getattr(had, word)]
    if not had.reentrant:
        yield "reentrant=False"
    if hook.paused:
        yield "paused"
    if hook.failures:
        yield f"failed {hook.failures}×"


def where(hook: Hook) -> str:
    """Return the file and line of a hook; the file relative to the current directory if it is below that."""
    code = code_of(hook.function)
    if code is None:
        return ""
    try:
        path = relpath(code.co_filename)
    except (OSError, ValueError):  # another drive, or a current directory that is gone
        path = ".."
    return printable(f"{code.co_filename if path.startswith('..') else path}:{code.co_firstlineno}")


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


def as_html(title: str, rows: list[Row]) -> str:
    """Return the table for a notebook."""
    from html import escape

    heads, table = _columns(rows)
    lines = [f"<table><caption>{escape(title)}</caption>"]
    if table:
        cells = [f'<th scope="col">{head}</th>' for head in heads]
        lines.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
    lines.append("<tbody>")
    for row, line in zip(rows, table, strict=True):
        cells = [escape(cell) for cell in line]
        if row.notes:
            cells[heads.index("order")] += "".join([f"<br/><small>{escape(note)}</small>" for note in row.notes])
        lines.append(f"<tr>{''.join([f'<td>{cell}</td>' for cell in cells])}</tr>")
    return "\n".join([*lines, "</tbody></table>"])
