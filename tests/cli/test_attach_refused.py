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


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["attach"], "Missing argument 'PID'"),
        (["attach", "shop", "shop:*"], "'shop' is not a valid integer"),
        (["attach", "1"], "there is nothing to do; name what to trace, as in 'shop.*:*', or give --config FILE"),
        (["attach", "1", "shop"], "the pointcut 'shop' has no colon"),
        (["attach", "1", "shop:*", "--for", "soon"], "'soon' is not a valid float"),
        (["attach", "1", "shop:*", "-o", "calls.txt"], "'calls.txt' does not end with .html"),
        (["attach", "1", "--config", "nowhere.toml"], "'nowhere.toml' does not exist"),
    ],
)
def test_bad_input_is_one_line(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
