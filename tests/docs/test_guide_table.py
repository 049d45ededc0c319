"""The table of a chain in the guide is what its code prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from .page import blocks

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "index.md"


def test_the_table_of_the_guide_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ((_, _, code),) = [block for block in blocks(GUIDE) if "print(hooks(price))" in block[2]]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "shop.py", "exec"), {"__name__": "shop"})
    assert f"```\n{capsys.readouterr().out}```" in GUIDE.read_text(encoding="utf-8")
