"""The pictures of a terminal are shown on a page, load nothing, and the one of the help is what the command prints."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from aspecthook.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = sorted(DOCS.glob("terminal-*.svg"))


def text_of(picture: Path) -> str:
    """Return the text of a picture without its white space."""
    drawn = re.findall(r"<text[^>]*>(.*?)</text>", picture.read_text(encoding="utf-8"))
    return re.sub(r"\s", "", html.unescape("".join(drawn)))


def test_there_are_pictures_of_help_a_trace_and_a_training_run() -> None:
    assert [picture.stem for picture in PICTURES] == ["terminal-help", "terminal-trace", "terminal-train"]
    assert all("$aspecthook" in text_of(picture) for picture in PICTURES)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_shown_on_a_page_and_loads_nothing(picture: Path) -> None:
    assert any(f"{picture.name})" in page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    drawn = re.sub(r"<!--.*?-->", "", picture.read_text(encoding="utf-8"))
    assert set(re.findall(r"https?://[^\s\"'<]+", drawn)) == {"http://www.w3.org/2000/svg"}


def test_the_picture_of_the_help_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = re.sub(r"\s", "", capsys.readouterr().out)
    assert text_of(DOCS / "terminal-help.svg") == f"$aspecthook--help{printed}", "`make pictures` takes it anew"
