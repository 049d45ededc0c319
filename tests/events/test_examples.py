"""The examples of events, each run as a program on its real input and on other input."""

from __future__ import annotations

import csv
import gc
import importlib.util
import logging
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aspecthook import hooks

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("temperature", "content_pipeline", "daily_routine", "epochs")
# No test finds a Redis that somebody else has running; port 1 refuses at once.
ALONE = {**os.environ, "REDIS_URL": "redis://127.0.0.1:1", "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"}


def start(name: str, *args: object, env: dict[str, str] = ALONE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", check=False, cwd=EXAMPLES.parent, env=env
    )


def run(name: str, *args: object, env: dict[str, str] = ALONE) -> str:
    done = start(name, *args, env=env)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def halves(out: str) -> tuple[str, str]:
    """Return what was printed of the hand-written version, and of that with events."""
    by_hand, _, events = out.partition("\n\nWith ")
    assert events
    return by_hand, events


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


# All of them


@pytest.mark.parametrize("name", NAMES)
def test_help(name: str) -> None:
    text = run(name, "--help")
    assert ("folder" if name == "content_pipeline" else "path") in text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [None, b"", b"\x00\xff\xfe nothing that it knows\n"])
def test_unusable_input_is_one_line(name: str, content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "input"
    if content is not None:
        path.write_bytes(content)
    done = start(name, path)
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(rf"{name}\.py: cannot use {re.escape(str(path))}: .+\n", done.stderr)


@pytest.mark.parametrize("name", NAMES)
def test_output_is_the_same_in_every_run(name: str) -> None:
    assert run(name) == run(name)


def mounts(module: ModuleType) -> Iterator[Any]:
    owners = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    for owner in (module, *owners):
        yield from (one for one in vars(owner).values() if callable(one) and hasattr(one, "on"))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *((name, []) for name in NAMES),
        ("temperature", ["--frost", "-20"]),  # an alarm that never rings must not keep its sensor alive
        ("daily_routine", ["--day-off"]),
    ],
)
def test_run_leaves_nothing(name: str, args: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("REDIS_URL", ALONE["REDIS_URL"])
    module = load(name)
    logger = logging.getLogger("aspecthook")
    before = dict(vars(module)), logger.filters[:], logger.handlers[:], set(Path().iterdir())
    module.main(args)
    assert capsys.readouterr().out
    assert before == (dict(vars(module)), logger.filters, logger.handlers, set(Path().iterdir()))
    found = list(mounts(module))
    assert found and not any(len(hooks(one)) for one in found)
    kinds = [getattr(module, kind) for kind in ("Sensor", "Runner", "Display", "Model") if hasattr(module, kind)]
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) in kinds]
    assert getattr(getattr(module, "ByHand", None), "callbacks", []) == []


# temperature.py


SEATTLE = EXAMPLES / "data" / "seattle-2012.csv"


def nights(path: Path = SEATTLE) -> list[tuple[str, float]]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [(row["date"], float(row["temp_min"])) for row in csv.DictReader(lines)]


def coldest(out: str) -> tuple[str, float]:
    found = re.search(r"coldest night was (\S+), (\S+) °C", out)
    assert found is not None
    return found[1], float(found[2])


def test_temperature_observer_that_leaves_skips_no_reading() -> None:
    by_hand, events = halves(run("temperature"))
    frost = next((day, celsius) for day, celsius in nights() if celsius < 0)
    assert coldest(events) == min(nights(), key=lambda night: night[1]) == frost
    assert coldest(by_hand) == min((night for night in nights() if night != frost), key=lambda night: night[1])
    for out in (by_hand, events):
        assert out.count("the alarm rings") == 1 and f"{frost[0]}  frost, {frost[1]} °C" in out


def test_temperature_closed_display_is_freed() -> None:
    by_hand, events = halves(run("temperature"))
    late = sum(not day.startswith("2012/08") for day, _ in nights())
    assert f"was told of {late} later readings; is it alive? True" in by_hand
    assert "was told of 0 later readings; is it alive? False" in events


# daily_routine.py


def at(out: str, hour: str) -> list[str]:
    return re.findall(rf"^  {hour}  (.*)$", out, re.MULTILINE)


def days(out: str) -> list[str]:
    parts = out.split("\n\n")
    assert len(parts) == 4
    return parts


def agenda() -> list[str]:
    return (EXAMPLES / "data" / "agenda.txt").read_text(encoding="utf-8").splitlines()


def test_routine_goes_on_after_a_failing_helper() -> None:
    _, by_hand, events, _ = days(run("daily_routine"))
    assert by_hand.endswith("the day ended at 07:30: KeyError('porridge'); 9 of 11 steps not done")
    assert at(by_hand, "07:30") == ["wash up"]  # in the order of registration, and not set
    assert at(events, "07:30") == ["set the table", "wash up", "trouble: KeyError('porridge'); the day goes on"]
    assert at(events, "12:30") == ["set the table", "cook soup: onions, potatoes, leeks", "wash up"]
    assert at(events, "22:30") == ["sleep"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("9:00 work", "line 2: '9:00 work' is not a time"),
        ("09:00 wrok", "line 2: there is no step 'wrok'; did you mean 'work'"),
        ("09:00 dance", "line 2: there is no step 'dance'; there are wake"),
    ],
)
def test_routine_names_a_bad_line(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "agenda.txt"
    path.write_text(f"07:00 wake\n{line}\n", encoding="utf-8")
    done = start("daily_routine", path)
    assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1


# epochs.py


def log(out: str, rate: str) -> list[tuple[int, float, bool]]:
    """Return epoch, accuracy and whether it was saved, of each line that the log of one run has printed."""
    lines = re.findall(rf"^  rate {rate} +epoch +(\d+)  loss \d\.\d+  right ([\d.]+)%(  saved)?$", out, re.MULTILINE)
    return [(int(epoch), float(right), bool(saved)) for epoch, right, saved in lines]


def test_epochs_hooks_of_a_finished_run_are_gone() -> None:
    by_hand, events = halves(run("epochs"))
    for rate in ("0.1", "0.01"):
        assert f"  rate {rate}: stopped after epoch 1: rate 1 got no better" in by_hand
        assert re.search(rf"  rate {rate}: stopped after epoch \d+: rate {rate} got no better for 3 epochs\n", events)
        assert len(log(events, rate)) > 3
    assert len(log(by_hand, "1")) == len(log(events, "1")) + 2  # its log goes on, in the runs of others
    assert "still alive: 3\n" in by_hand + "\n" and "still alive: 0\n" in events


def test_epochs_log_shows_what_was_saved() -> None:
    _, events = halves(run("epochs"))
    for rate in ("1", "0.1", "0.01"):
        best, lines = 0.0, log(events, rate)
        assert [epoch for epoch, _, _ in lines] == list(range(1, len(lines) + 1))
        for _, right, saved in lines:
            assert saved == (right > best)
            best = max(best, right)


# content_pipeline.py


def stored(path: Path) -> list[tuple[str, str, str, int]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("select * from queue order by key").fetchall()
    except sqlite3.OperationalError:
        return []  # there is no table yet
    finally:
        connection.close()


LONG = "words " * 25


def folder(path: Path, copies: int = 1) -> Path:
    """Make a folder of four documents that are kept, and one that is refused, for each copy."""
    for n in range(copies):
        (path / f"part{n}").mkdir(parents=True)
        table = "| a | b |\n|---|---|\n| one | first |\n| two | second |"
        text = f"# Title\n\n{table}\n\n- an item, [linked](https://example.org/a)\n- {LONG}<https://example.org/b>"
        (path / f"part{n}" / "page.md").write_text(text + "\n", encoding="utf-8")
        (path / f"part{n}" / "note.txt").write_text("only a few words", encoding="utf-8")
        (path / f"part{n}" / "code.py").write_text("import this\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("where", ["README.md", "no/such/folder/queue.db"])
def test_pipeline_queue_that_cannot_be_opened(where: str) -> None:
    done = start("content_pipeline", "--queue", where)
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(rf"content_pipeline\.py: cannot use {where}: .+\n", done.stderr)


# What is killed: the program itself sees to it, just before one of its statements.
KILLED = """
import os, runpy, signal, sys
from aspecthook import weave

left = int(sys.argv[1])


def count():
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)


def watch(result):
    result.set_trace_callback(lambda statement: count())


sys.argv = sys.argv[2:]
redis = weave("redis.client:Redis.execute_command, redis.client:Pipeline.execute", pre=lambda: count())
with weave("sqlite3:connect", post=watch):
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def die(statements: int, *args: object, env: dict[str, str] = ALONE) -> bool:
    """Run the pipeline, killed before one of its statements; return whether it was."""
    command = [sys.executable, "-c", KILLED, str(statements), str(EXAMPLES / "content_pipeline.py"), *map(str, args)]
    done = subprocess.run(command, capture_output=True, check=False, env=env)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def mark(where: Path, before: frozenset[str] = frozenset()) -> frozenset[str]:
    """Change the results that are there, so that doing a document again would show; return their keys."""
    rows = stored(where)
    assert before <= {key for key, _, _, words in rows if words == -1}  # none of these was done again
    connection = sqlite3.connect(where)
    try:
        if rows:
            connection.execute("update queue set words = -1 where state = 'done'")
            connection.commit()
    finally:
        connection.close()
    return frozenset(key for key, _, state, _ in rows if state == "done")


def check(where: Path, whole: Path, marked: frozenset[str]) -> None:
    """Check that each document has been done, and none of those that were marked again."""
    expected = [(key, text, state, -1 if key in marked else words) for key, text, state, words in stored(whole)]
    assert stored(where) == expected


kills = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")


@kills
def test_pipeline_killed_before_any_statement(tmp_path: Path, capsys: Any) -> None:
    texts, seen, main = folder(tmp_path / "texts"), set[str](), load("content_pipeline").main
    (texts / "part0" / "page.md").write_text("one more, [linked](https://example.org/a)", encoding="utf-8")
    run("content_pipeline", texts, "--queue", tmp_path / "whole.db")
    for statements in range(100):
        where = tmp_path / f"{statements}.db"
        if not die(statements, texts, "--queue", where):
            break
        seen.update(state for *_, state, _ in stored(where))
        marked = mark(where)
        main([str(texts), "--queue", str(where)])
        assert "was every document? True" in capsys.readouterr().out
        check(where, tmp_path / "whole.db", marked)
    assert 20 < statements < 99 and seen == {"waiting", "claimed", "done"}


# With a Redis
