"""A call from the caller to the target and back, as SVG: from top to bottom, in the order in which the hooks run."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from aspecthook._hints import final

from .table import Row

WIDTH, BOX, GAP = 480, 42, 14
# By how much an around hook is wider than what it encloses, on each side.
INSET = 10
# Of so many hooks of one kind, only the first and the last are drawn.
MOST = 8

# As an image the diagram follows the reader's colours by itself; in a page, the page may set the variables.
STYLE = """
.aspecthook { --paper: #ffffff; --ink: #1f2328; --faint: #636c76; --line: #8c959f; --box: #f6f8fa; --target: #ddf4ff;
  --pre: #0969da; --around: #8250df; --item: #1b7c83; --on: #1b7c83; --exception: #cf222e; --post: #1a7f37;
  --always: #9a6700; font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; }
@media (prefers-color-scheme: dark) { .aspecthook { --paper: #0d1117; --ink: #e6edf3; --faint: #9198a1; --line: #656c76;
  --box: #161b22; --target: #12253c; --pre: #58a6ff; --around: #bc8cff; --item: #39c5cf; --on: #39c5cf;
  --exception: #ff7b72; --post: #3fb950; --always: #d29922; } }
.aspecthook text { fill: var(--ink); } .aspecthook .faint { fill: var(--faint); font-size: 11px; }
.aspecthook .name { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.aspecthook .paper { fill: var(--paper); } .aspecthook .box { fill: var(--box); stroke: var(--line); }
.aspecthook .target { fill: var(--target); stroke: var(--line); }
.aspecthook .frame { fill: none; stroke: var(--hook); } .aspecthook .mark { fill: var(--hook); }
.aspecthook .flow { stroke: var(--line); stroke-width: 2; } .aspecthook .exception .box { stroke-dasharray: 4 3; }
"""
_WHEN = {"exception": "if the call fails", "post": "if it succeeds", "always": "in any case", "item": "for each item"}


@final
class Diagram(str):
    """The text of an SVG image, which notebooks show as an image.

    Example:
        >>> from aspecthook import hookable, hooks
        >>> @hookable
        ... def price(item): ...
        >>> hooks(price).diagram()[:4]
        '<svg'
    """

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


def draw(label: str, rows: list[Row]) -> Diagram:
    """Return a call of the mount point `label` with these hooks as a diagram."""
    of = {kind: _shortened([row for row in rows if row.kind == kind]) for kind in (*_BEFORE, *_AFTER)}
    before = [(kind, row) for kind in _BEFORE for row in of[kind]]
    after = [(kind, row) for kind in _AFTER for row in of[kind]]
    step, frames = BOX + GAP, len(of["around"])
    target = step * (1 + len(before))  # where the target is, below the caller and what runs before it
    behind = target + step + frames * INSET
    height = behind + step * len(after)
    parts = [f'<path d="M{WIDTH / 2} {BOX}V{height - BOX}" class="flow"/>', *_end("caller", GAP, 0, "box")]
    depth = 0
    for place, (kind, row) in enumerate(before, 1):
        y = GAP + step * place
        if kind == "around":
            x, bottom = GAP + depth * INSET, target + step + (frames - depth) * INSET
            parts.append(
                f'{_group(kind)}<rect x="{x}" y="{y - INSET / 2}" width="{WIDTH - 2 * x}" '
                f'height="{bottom - y + INSET / 2}" rx="6" class="frame"/></g>'
            )
            depth += 1
        parts += _hook(kind, row, y, depth)
    parts += _end(label, GAP + target, depth, "target")
    for place, (kind, row) in enumerate(after):
        parts += _hook(kind, row, GAP + behind + step * place, 0)
    said = escape(f"A call of {label}, from the caller to the target and back")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + GAP}" width="{WIDTH}" '
        f'height="{height + GAP}" role="img" aria-label="{said}" class="aspecthook">',
        f"<title>{said}</title>",
        f"<desc>{escape('; '.join(map(_said, rows)) or 'no hooks')}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height + GAP}" class="paper"/>',
    ]
    return Diagram("\n".join([*lines, *parts, "</svg>", ""]))


# The kinds of hooks before the target and those behind it, in the order in which a call runs them.
_BEFORE = ("pre", "around", "on")
_AFTER = ("item", "exception", "post", "always")


def _shortened(rows: list[Row]) -> list[Row | int]:
    """Return the rows to draw, with the number of those that are left out in their place."""
    if len(rows) <= MOST:
        return [*rows]
    return [*rows[: MOST // 2], len(rows) - MOST + 1, *rows[1 - MOST // 2 :]]


def _text(x: float, y: float, text: str, room: int, kind: str, anchor: str = "start") -> str:
    """Write text that has room for so many letters."""
    short = text if len(text) <= room else f"{text[: room - 1]}…"
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" class="{kind}">{escape(short)}</text>'


def _group(kind: str) -> str:
    return f'<g class="{kind}" style="--hook: var(--{kind})">'


def _end(label: str, y: int, depth: int, kind: str) -> Iterator[str]:
    """Draw one end of the call: the caller, or the target."""
    x = 2 * GAP + depth * INSET
    yield f'<rect x="{x}" y="{y}" width="{WIDTH - 2 * x}" height="{BOX}" rx="6" class="{kind}"/>'
    yield _text(WIDTH / 2, y + 26, label, 48, "name", "middle")


def _hook(kind: str, row: Row | int, y: int, depth: int) -> Iterator[str]:
    x = 2 * GAP + depth * INSET
    if isinstance(row, int):
        yield f'<rect x="{WIDTH / 2 - 60}" y="{y + 8}" width="120" height="{BOX - 16}" class="paper"/>'
        yield _text(WIDTH / 2, y + 26, f"… {row:,} more", 30, "faint", "middle")
        return
    note = " · ".join(filter(None, (_WHEN.get(kind, ""), row.conditions, row.where)))
    yield f"{_group(kind)}<title>{escape(_said(row))}</title>"
    yield f'<rect x="{x}" y="{y}" width="{WIDTH - 2 * x}" height="{BOX}" rx="6" class="box"/>'
    yield f'<rect x="{x}" y="{y}" width="5" height="{BOX}" rx="2" class="mark"/>'
    yield _text(x + 16, y + 18, row.name, 28, "name")
    yield _text(WIDTH - x - 10, y + 18, f"{row.word} · {row.priority}", 24, "faint", "end")
    yield f"{_text(x + 16, y + 34, note, 56, 'faint')}</g>"


def _said(row: Row) -> str:
    """Return a hook in words."""
    parts = (f"{row.word} hook {row.name}", f"priority {row.priority}", row.order, row.conditions, row.where)
    return ", ".join(filter(None, parts))
