"""`aspecthook attach` refuses what it cannot do, in one line that says what to do instead."""

from __future__ import annotations

import sys

import pytest

from aspecthook.cli import main


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="newer Pythons attach")
@pytest.mark.parametrize("words", [["attach", "1", "shop:*"], ["detach", "1"]])
def test_older_pythons_say_what_to_do_instead(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("aspecthook: attaching needs Python 3.14 or later, and this is Python 3.")
    assert said.endswith("start the program under it: aspecthook trace 'shop.*:*' -- app.py\n")


def test_where_nothing_can_be_attached_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--version"])  # what is imported first needs its real platform
    capsys.readouterr()
    monkeypatch.setattr(sys, "remote_exec", None, raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["attach", "1", "shop:*"]) == 2
    assert capsys.readouterr().err.startswith("aspecthook: attaching needs Linux or macOS; start the program under it:")
