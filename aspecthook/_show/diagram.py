"""A call from the caller to the target and back, as SVG."""

from __future__ import annotations

from html import escape

from aspecthook._hints import final

from .table import Row

WIDTH = 720
# Where the call goes down, and where its outcome comes back up.
DOWN, UP = 200, 520
BOX_WIDTH, BOX_HEIGHT, GAP = 280, 42, 14
HEADER, INSET = 40, 12
# Of so many hooks of one kind, only the first and the last are drawn; there is room for so many nested frames.
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
.aspecthook .target { fill: var(--target); stroke: var(--line); } .aspecthook .frame { fill: none; }
.aspecthook .flow { fill: none; stroke: var(--line); stroke-width: 2; } .aspecthook .head { fill: var(--line); }
.aspecthook .mark { fill: var(--hook); } .aspecthook .frame { stroke: var(--hook); }
.aspecthook .exception .box { stroke-dasharray: 4 3; }
"""


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
    canvas = _Canvas()
    of: dict[str, list[Row]] = {kind: [] for kind in ("pre", "around", "on", "item", "exception", "post", "always")}
    for one in rows:
        of[one.kind].append(one)
    down = _shortened(of["pre"])
    # From the top down: what comes back passes the exception hooks first, and the always hooks last.
    up = [*_shortened(of["always"])[::-1], *_shortened(of["post"])[::-1], *_shortened(of["exception"])[::-1]]
    up += _shortened(of["item"])[::-1]
    canvas.ends("caller", 12)
    top = 12 + BOX_HEIGHT + 2 * GAP
    lanes = max(len(down), len(up)) * (BOX_HEIGHT + GAP)
    for place, row in enumerate(down):
        canvas.box(row, DOWN, top + place * (BOX_HEIGHT + GAP))
    for place, row in enumerate(up):
        canvas.box(row, UP, top + lanes - (len(up) - place) * (BOX_HEIGHT + GAP))
    canvas.inside(_shortened(of["around"]), _shortened(of["on"]), label, top + lanes)
    return canvas.finish(label, rows)


def _shortened(rows: list[Row]) -> list[Row | int]:
    """Return the rows to draw, with the number of those that are left out in their place."""
    if len(rows) <= MOST:
        return [*rows]
    return [*rows[: MOST // 2], len(rows) - MOST + 1, *rows[1 - MOST // 2 :]]


class _Canvas:
    """Collects the parts of the image: the lines of the call, and the boxes on them."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.bottom = 0.0

    def text(self, x: float, y: float, text: str, room: int, kind: str = "", anchor: str = "start") -> None:
        """Write text that has room for so many letters."""
        short = text if len(text) <= room else f"{text[: room - 1]}…"
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" class="{kind}">{escape(short)}</text>')

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Draw a rectangle with round corners."""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" class="{kind}"/>')

    def ends(self, label: str, y: float) -> None:
        """Draw the caller."""
        x = DOWN - BOX_WIDTH / 2
        self.rectangle(x, y, UP - DOWN + BOX_WIDTH, BOX_HEIGHT, "box")
        self.text(WIDTH / 2, y + 26, label, 60, anchor="middle")
        self.bottom = y + BOX_HEIGHT

    def box(self, row: Row | int, middle: float, y: float) -> None:
        """Draw one hook on its line."""
        x = middle - BOX_WIDTH / 2
        if isinstance(row, int):
            self.rectangle(x + 80, y + 8, BOX_WIDTH - 160, BOX_HEIGHT - 16, "paper")
            self.text(middle, y + 26, f"… {row:,} more", 30, "faint", "middle")
            return
        with_note = " · ".join(filter(None, (_WHEN.get(row.kind, ""), row.conditions, row.where)))
        self.parts.append(f"{_group(row.kind)}<title>{escape(_said(row))}</title>")
        self.rectangle(x, y, BOX_WIDTH, BOX_HEIGHT, "box")
        self.parts.append(f'<rect x="{x}" y="{y}" width="5" height="{BOX_HEIGHT}" rx="2" class="mark"/>')
        self.text(x + 16, y + 18, row.name, 22, "name")
        self.text(x + BOX_WIDTH - 10, y + 18, f"{row.word} · {row.priority}", 24, "faint", "end")
        self.text(x + 16, y + 34, with_note, 46, "faint")
        self.parts.append("</g>")

    def inside(self, frames: list[Row | int], subscribers: list[Row | int], label: str, y: float) -> None:
        """Draw the around hooks, one inside the other, and the target inside them all."""
        top = y
        body = len(subscribers) * (BOX_HEIGHT + GAP) + BOX_HEIGHT + 2 * GAP
        depth = len(frames)
        outside = WIDTH / 2 - (DOWN - BOX_WIDTH / 2)
        for place, row in enumerate(frames):
            inset = place * INSET
            height = (depth - place) * (HEADER + INSET) + body
            self.parts.append(f"{_group('around')}<title>{escape(_said(row))}</title>")
            self.rectangle(WIDTH / 2 - outside + inset, top, 2 * (outside - inset), height, "frame")
            self._header(row, WIDTH / 2 - outside + inset, top, 2 * (outside - inset))
            self.parts.append("</g>")
            top += HEADER
        for row in subscribers:
            self.box(row, WIDTH / 2, top + GAP)
            top += BOX_HEIGHT + GAP
        width = 2 * (outside - depth * INSET - GAP)
        self.line(DOWN, self.bottom, top + GAP, down=True)
        self.line(UP, self.bottom, top + GAP, down=False)
        self.rectangle(WIDTH / 2 - width / 2, top + GAP, width, BOX_HEIGHT, "target")
        self.text(WIDTH / 2, top + GAP + 26, label, 52, "name", "middle")
        self.bottom = top + 3 * GAP + BOX_HEIGHT + depth * INSET

    def _header(self, row: Row | int, x: float, y: float, width: float) -> None:
        if isinstance(row, int):
            self.text(WIDTH / 2, y + 25, f"… {row:,} more", 30, "faint", "middle")
            return
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="5" rx="2" class="mark"/>')
        where = row.where.replace("\\", "/").rpartition("/")[2]
        self.text(WIDTH / 2, y + 20, row.name, 36, "name", "middle")
        said = " · ".join(filter(None, (row.word, row.priority, row.conditions, where)))
        self.text(WIDTH / 2, y + 35, said, 46, "faint", "middle")

    def line(self, x: float, top: float, bottom: float, *, down: bool) -> None:
        """Draw the line of the call below everything else."""
        at, step = (bottom, -8) if down else (top, 8)
        self.parts[:0] = [
            f'<path d="M{x} {top}V{bottom}" class="flow"/>',
            f'<path d="M{x} {at}l-5 {step}h10z" class="head"/>',
        ]

    def finish(self, label: str, rows: list[Row]) -> Diagram:
        """Return the image."""
        said = f"A call of {label}, from the caller to the target and back"
        height = int(self.bottom)
        return Diagram(
            "\n".join(
                [
                    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
                    f'height="{height}" role="img" aria-label="{escape(said)}" class="aspecthook">',
                    f"<title>{escape(said)}</title>",
                    f"<desc>{escape('; '.join(map(_said, rows)) or 'no hooks')}</desc>",
                    f"<style>{STYLE}</style>",
                    f'<rect width="{WIDTH}" height="{height}" class="paper"/>',
                    *self.parts,
                    "</svg>",
                    "",
                ]
            )
        )


_WHEN = {
    "exception": "if the call fails",
    "post": "if it succeeds",
    "always": "in any case",
    "item": "for each item",
}


def _group(kind: str) -> str:
    return f'<g class="{kind}" style="--hook: var(--{kind})">'


def _said(row: Row | int) -> str:
    """Return a hook in words."""
    if isinstance(row, int):
        return f"{row:,} more"
    parts = (f"{row.word} hook {row.name}", f"priority {row.priority}", row.order, row.conditions, row.where)
    return ", ".join(filter(None, parts))
