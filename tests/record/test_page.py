"""The file of a page: what it holds, and what its browser may run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aspecthook.record._saving import save

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<!--<script>",
    "<img src=x onerror='window.hacked = 1'>",
    "shop:</bdi><b>bold</b>",
    "javascript:alert(1)",
    "{{rows}} ${window.hacked = 1}",
    "\u202egnirts\u2028\u2029\ud800\x00",
    "__proto__",
    "constructor:toString",
    "ΟΔΟΣ:ΑΣ ß ŉ İ",
]
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12))


def data_of(page: Path) -> str:
    """Return the lines that are in a page."""
    (packed,) = re.findall('id="data">([A-Za-z0-9+/]*=*)</script>', page.read_text("utf-8"))
    return zlib.decompress(base64.b64decode(packed)).decode()


@given(st.lists(st.dictionaries(NAMES, st.one_of(NAMES, st.integers(-(2**53), 2**53), st.none())), max_size=5))
def test_the_data_of_a_page_is_what_was_written(tmp_path_factory, rows):
    file = tmp_path_factory.getbasetemp() / "page.html"
    save(map(json.dumps, rows), file)
    assert [json.loads(line) for line in data_of(file).splitlines()] == rows
    assert file.read_text("utf-8").count("</script>") == 2


def test_the_browser_may_run_the_one_script_and_nothing_else(tmp_path):
    save([], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_bytes().decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    assert allowed.pop("default-src") == allowed.pop("base-uri") == allowed.pop("form-action") == "'none'"
    for name in ("script", "style"):
        (content,) = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert allowed.pop(f"{name}-src") == f"'sha256-{digest}'"
    assert not allowed
    assert not re.search(r"https?:|url\(|@import|innerHTML|insertAdjacent|document\.write|eval\(", text)
