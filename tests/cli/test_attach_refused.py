"""`aspecthook attach` refuses what it cannot do, in one line that says what to do instead."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from aspecthook.cli import main


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="newer Pythons attach")
@pytest.mark.parametrize("words", [["attach", "1", "shop:*"], ["detach", "1"]])
def test_older_pythons_say_what_to_do_instead(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("aspecthook: attaching needs Python 3.14 or later, and this is Python 3.")
    assert said.endswith("start the program under it: aspecthook trace 'shop.*:*' -- app.py\n")


def test_where_there_are_no_sockets_of_unix_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "remote_exec", None, raising=False)
    monkeypatch.delattr(socket, "AF_UNIX")
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


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no sockets of Unix")
def test_a_temporary_folder_whose_path_is_too_long_for_a_socket_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = tmp_path / ("long" * 40)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setattr(sys, "remote_exec", None, raising=False)
    assert main(["attach", str(os.getppid()), "shop:*"]) == 2
    said = capsys.readouterr().err
    assert " is no place for a socket: " in said and said.endswith("; set TMPDIR to a shorter one\n")
    assert list(long.iterdir()) == []
