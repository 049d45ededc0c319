"""Make `law_sync`, the law of sync functions, of `law`, which is that of async functions: ``python -m tests.law_sync``.

Words are replaced token by token: `async` and `await` go, and names of the async protocol become those of the sync one.
A line with a comment ``# sync: text`` becomes that text, or goes where the text is ``drop``.
"""

from __future__ import annotations

import tokenize
from pathlib import Path

LAW = Path(__file__).parents[1] / "aspecthook" / "_core" / "law"

NAMES = {
    "AsyncGenerator": "Generator",
    "StopAsyncIteration": "StopIteration",
    "aclose": "close",
    "asend": "send",
    "athrow": "throw",
}
PARAMETERS = {"Generator[Any, Any]": "Generator[Any, Any, Any]"}
DOCSTRING = '"""The law of sync functions, made of `law` by ``make law``: change it there."""\n'
MARK = "# sync: "


def derive(text: str) -> str:
    """Return the sync text."""
    opening, _, rest = text.partition('"""\n\nfrom __future__')
    assert opening.startswith('"""'), "the text begins with a docstring"
    lines = f"from __future__{rest}".splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(iter([*lines, ""]).__next__))
    marked = {one.start[0]: one.string.removeprefix(MARK) for one in tokens if one.string.startswith(MARK)}
    for token in reversed(tokens):  # from the last, so that the places of those before it hold
        row, start = token.start
        if token.type != tokenize.NAME or row in marked:
            continue
        line, end = lines[row - 1], token.end[1]
        if token.string in ("async", "await"):
            lines[row - 1] = line[:start] + line[end + 1 :]
        elif token.string in NAMES:
            lines[row - 1] = line[:start] + NAMES[token.string] + line[end:]
    for row, new in marked.items():
        line = lines[row - 1]
        lines[row - 1] = "" if new == "drop" else f"{line[: len(line) - len(line.lstrip())]}{new}\n"
    made = "".join(lines)
    for old, new in PARAMETERS.items():
        made = made.replace(old, new)
    return f"{DOCSTRING}\n{made}"


if __name__ == "__main__":
    (LAW / "law_sync.py").write_text(derive((LAW / "law.py").read_text()))
