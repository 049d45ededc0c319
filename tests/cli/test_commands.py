"""The command line: help, what it prints, and what it refuses, each in one line that says what to do."""

from __future__ import annotations

import builtins
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aspecthook._errors import ConfigError
from aspecthook.cli import main
from aspecthook.cli._config import apply
from aspecthook.cli._names import names_of, of_main
from aspecthook.cli._program import Program

from .conftest import Run, environment

SHOP = """
from aspecthook import hookable
from os.path import join

@hookable
def price(item, qty=1):
    return qty * 2.0

@price.post
def discount(result):
    return None

def order(item): ...
def _hidden(): ...

class Cart:
    def add(self, item): ...
    def clear(self): ...
    def _count(self): ...
    def __len__(self): ...
    class Slot:
        def fill(self): ...
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.py"
    path.write_text(SHOP)
    return path


@pytest.mark.parametrize("command", ["trace", "run", "list", "explain", "match", "doctor"], ids=lambda name: name)
def test_each_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: aspecthook {command}" in shown and f"  aspecthook {command}" in shown.partition("example")[2]


def test_the_help_names_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    commands = re.findall(r"^  (\w+) ", shown.partition("Commands:")[2], re.MULTILINE)
    assert commands == ["attach", "detach", "doctor", "explain", "list", "match", "run", "trace", "train"]


REFUSED: list[tuple[str, list[str], str]] = [
    ("no command", [], "Missing command; see aspecthook --help"),
    ("an unknown command", ["tarce"], "No such command 'tarce'"),
    ("no program", ["trace", "shop:*"], "there is no program to run; name it after '--'"),
    ("a program that is not there", ["trace", "shop:*", "--", "ap.py"], "there is no file 'ap.py' and no command"),
    ("a pointcut without a colon", ["trace", "shop.price", "--", "shop.py"], "write 'shop:price'"),
    ("a depth of none", ["trace", "shop:*", "--max-depth", "0", "--", "shop.py"], "0 is not in the range"),
    (
        "a file of another format",
        ["trace", "shop:*", "-o", "x.txt", "--", "shop.py"],
        "does not end with .html",
    ),
    ("a folder that is not there", ["trace", "shop:*", "-o", "no/x.html", "--", "shop.py"], "there is no folder"),
    ("isolated Python", ["trace", "shop:*", "--", "-I", "shop.py"], "leave out -I"),
    ("isolated Python after an option", ["trace", "shop:*", "--", "-W", "ignore", "-uI", "shop.py"], "leave out -I"),
    ("a folder that is no program", ["trace", "shop:*", "--", "."], "there is no file '.' and no command"),
    ("Python without site", ["trace", "shop:*", "--", "python3", "-uS", "shop.py"], "leave out -S"),
    ("no config", ["run", "--", "shop.py"], "Missing option '--config'"),
    ("a config that is not there", ["run", "--config", "no.toml", "--", "shop.py"], "'no.toml' does not exist"),
    ("no process", ["attach"], "Missing argument 'PID'"),
    ("a process by name", ["attach", "shop", "shop:*"], "'shop' is not a valid integer"),
    ("nothing to attach", ["attach", "1"], "Missing argument 'POINTCUT...'"),
    ("a time that is none", ["attach", "1", "shop:*", "--for", "soon"], "'soon' is not a valid float"),
    ("an unknown module", ["match", "shp:*"], "there is no module 'shp' to import; did you mean 'shop'?"),
    ("an unknown module of Python", ["match", "jsn:*"], "there is no module 'jsn' to import; did you mean 'json'?"),
    ("an unknown part of a package", ["match", "json.decodr:*"], "did you mean 'json.decoder'?"),
    ("a glob below an unknown package", ["match", "jsn.*:*"], "did you mean 'json'?"),
    ("an unknown function", ["explain", "shop:pric"], "has no 'pric' for the path 'shop:pric'; did you mean 'price'?"),
    ("a function without hooks", ["explain", "shop:order"], "not a mount point"),
    ("a function without a colon", ["explain", "shop.price"], "not of the form 'module:function'"),
]


@pytest.mark.parametrize(("words", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_bad_input_is_refused_in_one_line(
    words: list[str], said: str, shop: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shop.parent)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    status = main(words)
    out, err = capfd.readouterr()
    sys.modules.pop("shop", None)
    assert (status, out) == (2, "") and said in err
    assert err.startswith("aspecthook") and err.count("\n") == 1


def test_without_click_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from aspecthook.cli._commands import _aspecthook

    found = builtins.__import__

    def without(name: str, scope: Any = None, local: Any = None, names: Sequence[str] = (), level: int = 0) -> Any:
        if name == "click" or (level and "_commands" in name):
            raise ModuleNotFoundError("No module named 'click'", name="click")
        return found(name, scope, local, names, level)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err == "aspecthook: click is not installed: pip install click\n"
    help_without = [main(given) for given in ([], ["--help"])]
    text = capsys.readouterr().out
    commands = list(_aspecthook.commands)
    assert help_without == [0, 0] and all(text.count(name) >= 2 for name in commands) and "pip install click" in text


def test_match_prints_what_is_taken_and_why_the_rest_is_left(aspecthook: Run, shop: Path) -> None:
    done = aspecthook("match", "--all", "shop:o*, shop:*, !shop:Cart.clear, json:loads, shop:price")
    assert done.returncode == 0, done.stderr
    taken, _, left = done.stdout.partition(" selected, ")
    assert [line.partition("  ")[0] for line in taken.splitlines()[:-1]] == [
        "json:loads",
        "shop:Cart.add",
        "shop:discount",
        "shop:order",
        "shop:price",
    ]
    assert f"shop:price  {shop}:5" in taken
    assert "shop:Cart.clear: excluded with '!'" in left
    assert all(f"shop:{name}: its name begins with an underscore" in left for name in ("_hidden", "Cart._count"))
    assert "shop:Cart.__len__: its name begins" in left and "shop:Cart.Slot.fill: its name does not match" in left
    assert "shop:join: its __module__ is 'posixpath'; weave it there, or spell out 'shop:join'" in left


def test_match_imports_what_is_below_a_package(aspecthook: Run, tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("raise SystemExit('it ran')")
    (package / "one.py").write_text("def f(): ...")
    (package / "broken.py").write_text("raise ValueError('no')")
    done = aspecthook("match", "pkg.*:*")
    assert done.stdout.startswith("pkg.one:f  ") and "1 selected, 0 left out" in done.stdout
    assert "pkg.broken cannot be imported: ValueError: no" in done.stderr and "it ran" not in done.stderr


def test_match_says_that_a_glob_for_a_package_imports_nothing(aspecthook: Run, shop: Path) -> None:
    done = aspecthook("match", "sho*:*")
    assert (done.returncode, done.stdout) == (
        1,
        "0 selected, 0 left out; only a package whose name is spelt out is imported, as in 'shop:*, shop.*:*'\n",
    )


def test_doctor_prints_versions_and_extras(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert f"Python {sys.version.split()[0]}" in shown
    for extra in ("trace", "aspects", "otel", "testing", "train", "tensorboard", "torch"):
        assert f"\n{extra} " in shown
    assert ("attach:" in shown) == (sys.version_info < (3, 14))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["app.py", "-m"], ["app"]),
        (["-u", "dir/app.py"], ["app"]),
        (["-X", "dev", "-W", "error", "-m", "http.server", "80"], ["http.server", "http.server.__main__"]),
        (["-um", "shop"], ["shop", "shop.__main__"]),
        (["-Wignore", "-mshop", "-c"], ["shop", "shop.__main__"]),
        (["dir/app/"], ["app"]),
        (["-c", "print()"], []),
        (["-cpass", "x.py"], []),
        (["-", "x.py"], []),
        ([], []),
    ],
)
def test_a_program_is_known_by_the_name_that_it_is_imported_by(words: list[str], names: list[str]) -> None:
    assert names_of(words) == names


def test_a_pointcut_for_the_file_of_the_program_means_what_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "dir/app.py"])
    assert of_main("app:*, !app:f") == "app:*, !app:f, __main__:*, !__main__:f"
    assert of_main("ap*:*, json:*") == "ap*:*, json:*, __main__:*"


# What Windows lacks of the standard library, as far as it is known by name. A `sitecustomize` takes it away.
ELSEWHERE = """
import importlib, os, select, selectors, signal, socket, subprocess, sys

for name in ("SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL", "SIGCHLD", "SIGALRM", "SIGPIPE", "SIGCONT",
             "pthread_sigmask", "setitimer"):
    delattr(signal, name)
for name in ("fork", "forkpty", "register_at_fork", "geteuid", "getuid", "getpgrp", "tcgetpgrp", "O_NOCTTY", "chown",
             "wait", "mkfifo"):
    delattr(os, name)
del select.poll, socket.AF_UNIX
sys.modules |= dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios"))
"""


@pytest.fixture
def elsewhere(tmp_path: Path, shop: Path) -> dict[str, str]:
    """Return an environment in which Python has no more than on Windows."""
    (tmp_path / "sitecustomize.py").write_text(ELSEWHERE)
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--version"], "aspecthook "),
        (["--help"], "Commands:"),
        (["doctor"], "aspecthook "),
        (["match", "shop:*"], "5 selected"),
        (["explain", "shop:price"], "# shop:price, 1 hook"),
        (["trace", "shop:*", "--", "-c", "import shop; shop.order(1)"], "shop:order(item=1)"),
        (["list", "--", "-c", "import shop"], "1 mount point"),
    ],
    ids=lambda one: one[0].strip("-") if isinstance(one, list) else "",
)
def test_commands_run_where_python_has_no_more_than_on_windows(
    words: list[str], said: str, aspecthook: Run, elsewhere: dict[str, str]
) -> None:
    done = aspecthook(*words, env=elsewhere)
    assert done.returncode == 0 and said in done.stdout + done.stderr, done.stderr


def test_of_a_file_all_is_woven_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("""
[[weave]]
target = "json:dumps"
aspect = "retry"
arguments = { on = [{ import = "builtins:KeyError" }] }
[[weave]]
target = "os:no"
pre = "builtins:print"
""")
    code = json.dumps.__code__
    with pytest.raises(ConfigError, match="number 2: .* has no 'no'"):
        apply(str(tmp_path / "a.toml"))
    assert json.dumps.__code__ is code


@pytest.mark.skipif(sys.platform == "win32", reason="it has other signals")
def test_a_signal_that_comes_while_the_program_starts_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    popen = subprocess.Popen

    def start(*args: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        return popen(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    assert Program(["-c", "import time; time.sleep(60)"]).watch({}, lambda: None) == -signal.SIGUSR1


def test_a_command_may_be_called_as_a_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest").mkdir()
    assert os.path.dirname(Program(["pytest"]).command[0]) == os.path.dirname(sys.executable)
    (tmp_path / "pytest" / "__main__.py").touch()
    assert Program(["pytest"]).command == [sys.executable, "pytest"]
    (tmp_path / "app.py").touch(0o755)
    assert Program(["app.py"]).command == [sys.executable, "app.py"]  # not by its first line


def test_a_program_finds_its_modules_beside_what_its_link_means(tmp_path: Path, shop: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "shop.py").symlink_to(shop)
    assert Program([str(tmp_path / "links" / "shop.py")]).path == os.path.realpath(tmp_path)
