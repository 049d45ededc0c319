"""The picture and the table of a chain in the guide are what its code makes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from .page import blocks

DOCS = Path(__file__).parents[2] / "docs"


def test_the_picture_and_the_table_of_the_guide_are_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "guide" / "index.md"
    ((_, _, code),) = [block for block in blocks(page) if ".diagram()" in block[2]]
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"__name__": "shop"}
    exec(compile(code, "shop.py", "exec"), space)
    picture, kept = str(space["picture"]), DOCS / "chain.svg"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        kept.write_text(picture, encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == picture, "UPDATE_SNAPSHOTS=1 writes it anew"
    assert f"```\n{capsys.readouterr().out}```" in page.read_text(encoding="utf-8")
    assert re.search(r"!\[[^]]+\]\(\.\./chain\.svg\)", page.read_text(encoding="utf-8"))
