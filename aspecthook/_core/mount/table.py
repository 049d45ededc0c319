"""Hooks as a table, in text. Loaded when somebody looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os.path import relpath

from aspecthook._core.law.callables import code_of, name_of
from aspecthook._core.law.hook import EXCEPTION, Hook
from aspecthook._core.law.options import Priority
from aspecthook._errors import nearest, printable
from aspecthook._hints import NamedTuple

_HEADS = ("#", "mount point", "kind", "name", "priority", "order", "conditions", "where")
_NAMES = {int(one): one.name for one in Priority}


class Row(NamedTuple):
    """One hook as it is shown: the cells of its line, without its number, and the notes below them."""

    # The name of its mount point, in a table of several.
    mount: str
    cells: tuple[str, ...]
    # What its `before` and `after` name that is no hook here, and the nearest name.
    notes: tuple[str, ...]


def rows_of(hooks: Iterable[Hook], chains: Iterable[tuple[Hook, ...]], mount: str = "") -> list[Row]:
    """Return hooks as rows; `chains` are those of their mount point, in which `before` and `after` name others."""
    others = {one for members in chains for one in members}
    return [_row(hook, others, mount) for hook in hooks]


def table_of(title: str, rows: list[Row]) -> str:
    """Return a title, and below it the columns of the rows that are not all empty."""
    lines = [[str(place), row.mount, *row.cells] for place, row in enumerate(rows, 1)]
    columns = [column for column in zip(_HEADS, *lines, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    shown = [title]
    for place in range(len(rows) + 1 if rows else 0):
        cells = [
            column[place].rjust(width) if column[0] == "#" else column[place].ljust(width)
            for column, width in zip(columns, widths, strict=True)
        ]
        shown.append(f"  {'  '.join(cells)}".rstrip())
        if place:
            shown += [f"      {note}" for note in rows[place - 1].notes]
    return "\n".join(shown)


def _row(hook: Hook, others: set[Hook], mount: str) -> Row:
    missed = [(option, shown_name(one), why) for option, one, why in _unmet(hook, others)]
    unknown = {(option, shown) for option, shown, _ in missed}
    named = [(option, shown_name(one)) for option, _, one in hook.mentioned()]
    order = [f"{option}={shown}{' (?)' * ((option, shown) in unknown)}" for option, shown in named]
    cells = (
        hook.word,
        hook.name,
        _NAMES.get(hook.priority, str(hook.priority)),
        printable(" ".join(order)),
        printable(", ".join(_conditions(hook))),
        where(hook),
    )
    return Row(mount, cells, tuple([printable(f"{option}={shown}{why}") for option, shown, why in missed]))


def _unmet(hook: Hook, others: set[Hook]) -> Iterator[tuple[str, object, str]]:
    """Yield the names in `before` and `after` of a hook that no hook has, and why."""
    alike = [one for one in others if one.kind == hook.kind]
    known = {key for one in alike for key in one.keys}
    for option, key, meant in hook.mentioned():
        if key not in known:
            elsewhere = sorted({one.kind for one in others if key in one.keys})
            near = nearest(meant, [one.name for one in alike if one is not hook]) if isinstance(meant, str) else ""
            why = f"; {' and '.join(elsewhere)} hooks do, which run by themselves" if elsewhere else near
            yield option, meant, f": no {hook.word} hook has that name{why}"


def shown_name(meant: object) -> str:
    """Return a handle, a function or a name as messages show it."""
    return repr(meant if isinstance(meant, str) else meant.name if isinstance(meant, Hook) else name_of(meant))


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
    if had.isolate:
        yield "isolate"
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
