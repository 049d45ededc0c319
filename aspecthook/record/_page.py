"""The page: recorded calls as one HTML file with a call tree, a timeline, a flame graph and a table.

The file loads nothing from elsewhere and runs no script but its own, whatever names and values were recorded: it shows
them as text only, and its Content-Security-Policy allows the one script and the one style sheet by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from importlib.resources import files


def write_page(rows: Iterable[Mapping[str, object]], path: str | os.PathLike[str]) -> None:
    """Write recorded calls as a page for the browser.

    Args:
        rows: The objects of the JSON lines; the rows after a header are those of its process.
        path: The file to write.
    """
    before, after = _template()
    with open(path, "w", encoding="utf-8", newline="\n") as page:  # the hashes are those of lines that end with "\n"
        page.write(before)
        separator = ""
        for row in rows:
            # Nothing but "<" could end the element that the data is in; in JSON it occurs only inside strings.
            page.write(separator + json.dumps(row, separators=(",", ":")).replace("<", "\\u003c"))
            separator = ",\n"
        page.write(after)


def _template() -> tuple[str, str]:
    """Return the page before and after the rows."""
    text = (files("aspecthook.record") / "page.html").read_text("utf-8")
    for name in ("script", "style"):
        content = text.partition(f"<{name}>")[2].partition(f"</{name}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        text = text.replace(f"{{{{{name}}}}}", digest)
    before, _, after = text.partition("{{rows}}")
    return before, after
