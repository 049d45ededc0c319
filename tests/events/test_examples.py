"""The examples of events, each run as a program on its real input and on other input."""

from __future__ import annotations

import ast
import csv
import gc
import importlib.util
import json
import logging
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aspecthook import hooks
from tests.threads import at_once

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


def test_temperature_has_all_readings() -> None:
    lines = SEATTLE.read_text(encoding="utf-8").splitlines()
    assert all(line.startswith("#") for line in lines[:4]) and lines[4] == "date,temp_max,temp_min"
    assert len(nights()) == 31 + 30 + 31 + 30 == len({day for day, _ in nights()})
    assert all(float(line.split(",")[1]) > float(line.split(",")[2]) for line in lines[5:])


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


def test_temperature_observer_added_during_a_reading() -> None:
    days = [day for day, _ in nights()]
    frost = next(n for n, (_, celsius) in enumerate(nights()) if celsius < 0)
    cold = sum(celsius < 5 for _, celsius in nights()[frost + 1 :])
    out = run("temperature")
    assert f"on for {cold} nights below 5 °C" in out
    months = {month: 2 * sum(day.startswith(month) for day in days) for month in dict.fromkeys(d[:7] for d in days)}
    assert f"of both sensors: {', '.join(f'{month} {times}' for month, times in months.items())}" in out


@pytest.mark.parametrize("frost", [-20.0, 2.0, 11.5])
def test_temperature_with_another_threshold(frost: float) -> None:
    _, events = halves(run("temperature", "--frost", frost))
    rung = next((day for day, celsius in nights() if celsius < frost), None)
    assert re.findall(r"(\S+)  frost", events) == ([rung] if rung else [])
    assert coldest(events) == min(nights(), key=lambda night: night[1])


def test_temperature_with_other_readings(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("temp_min,date,temp_max\n-3.5,2024-01-01,1\n-9,2024-02-01,0\n", encoding="utf-8")
    by_hand, events = halves(run("temperature", path))
    assert coldest(by_hand) == ("2024-02-01", -9.0) == coldest(events)
    assert "2024-01-01  frost" in events and "told of 0 later" in events and "told of 1 later" in by_hand


def test_temperature_names_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("date,temp_max,temp_min\n2024-01-01,1,-3.5\n2024-01-02,?,1\n", encoding="utf-8")
    done = start("temperature", path)
    assert done.returncode == 1 and "2024-01-02" in done.stderr and done.stderr.count("\n") == 1


# daily_routine.py


def at(out: str, hour: str) -> list[str]:
    return re.findall(rf"^  {hour}  (.*)$", out, re.MULTILINE)


def days(out: str) -> list[str]:
    parts = out.split("\n\n")
    assert len(parts) == 4
    return parts


def test_routine_without_hooks() -> None:
    plain, *_, end = days(run("daily_routine"))
    entries = [line.split(maxsplit=1)[0] for line in agenda() if not line.startswith("#")]
    assert re.findall(r"^  (\d\d:\d\d)", plain, re.MULTILINE) == entries
    assert at(plain, "16:40") == ["leave for the dentist, round the corner: on foot"]
    assert end == "Taken off; is every step its default again? True\n"


def agenda() -> list[str]:
    return (EXAMPLES / "data" / "agenda.txt").read_text(encoding="utf-8").splitlines()


def test_routine_goes_on_after_a_failing_helper() -> None:
    _, by_hand, events, _ = days(run("daily_routine"))
    assert by_hand.endswith("the day ended at 07:30: KeyError('porridge'); 9 of 11 steps not done")
    assert at(by_hand, "07:30") == ["wash up"]  # in the order of registration, and not set
    assert at(events, "07:30") == ["set the table", "wash up", "trouble: KeyError('porridge'); the day goes on"]
    assert at(events, "12:30") == ["set the table", "cook soup: onions, potatoes, leeks", "wash up"]
    assert at(events, "22:30") == ["sleep"]


def test_routine_asks_subscribers_before_the_default() -> None:
    *_, events, _ = days(run("daily_routine"))
    assert at(events, "08:20") == ["leave for work, 5 km: by bicycle, 20 minutes"]
    assert at(events, "16:40") == ["leave for the dentist, round the corner: on foot"]


def test_routine_on_a_day_off() -> None:
    plain, _, events, _ = days(run("daily_routine", "--day-off"))
    assert at(plain, "09:00") == ["work on the report"] and not at(events, "09:00") and not at(events, "13:00")
    assert at(events, "22:30") == ["sleep"]


def test_routine_with_another_agenda(tmp_path: Path) -> None:
    path = tmp_path / "sunday.txt"
    path.write_text("# sunday\n\n10:00 wake\n  11:00 eat pancakes\n23:00 sleep late", encoding="utf-8")
    plain, by_hand, events, _ = days(run("daily_routine", path))
    assert at(plain, "11:00") == ["bread; there was to be pancakes"]
    assert "the day ended" not in by_hand and at(by_hand, "23:00") == at(events, "23:00") == ["sleep"]
    assert at(events, "11:00") == ["set the table", "cook pancakes: flour, eggs, milk", "wash up"]


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


def test_epochs_reads_the_best_checkpoint(tmp_path: Path) -> None:
    out = run("epochs", "--keep", tmp_path / "new")
    _, events = halves(out)
    best = {rate: max(right for _, right, _ in log(events, rate)) for rate in ("1", "0.1", "0.01")}
    rate = max(best, key=lambda rate: best[rate])
    assert out.endswith(f"The best, read from rate-{rate}.json: {best[rate]}% right\n") and best[rate] > 85
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        f"rate-{r}.json" for r in ("0.01", "0.1", "1")
    ]
    assert all(len(json.loads(path.read_text())) == 5 for path in (tmp_path / "new").iterdir())


def test_epochs_with_other_rates() -> None:
    _, events = halves(run("epochs", "--rates", "0.05", "0.5", "--epochs", "2"))
    assert events.count(": all 2 epochs") == 2 and len(log(events, "0.05")) == len(log(events, "0.5")) == 2
    assert start("epochs", "--epochs", "0").returncode == 2
    done = start("epochs", "--keep", SEATTLE)
    assert done.returncode == 1 and done.stderr == f"epochs.py: cannot use {SEATTLE}: File exists\n"


def test_epochs_with_other_birds(tmp_path: Path) -> None:
    path = tmp_path / "gentoo.csv"
    header, *rows = (EXAMPLES / "data" / "penguins-raw.csv").read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([header, *(row for row in rows if "Gentoo" in row)]), encoding="utf-8")
    out = run("epochs", path)
    assert out.startswith("90 penguins to learn from, 29 held out\n")
    path.write_text("\n".join([header.replace("Body Mass", "Mass"), *rows]), encoding="utf-8")
    assert "it lacks measurements: Culmen Length" in start("epochs", path).stderr


def test_epochs_runner_is_thirty_lines() -> None:
    tree = ast.parse((EXAMPLES / "epochs.py").read_text(encoding="utf-8"))
    (runner,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Runner"]
    assert runner.end_lineno is not None and runner.end_lineno - runner.lineno < 30


# content_pipeline.py


def stored(path: Path) -> list[tuple[str, str, str, int]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("select * from queue order by key").fetchall()
    except sqlite3.OperationalError:
        return []  # there is no table yet
    finally:
        connection.close()


def test_pipeline_failing_filter_loses_no_document() -> None:
    by_hand, events = halves(run("content_pipeline"))
    found = re.search(r"stopped at README\.md#\d+, ValueError\(.*\)\n  (\d+) of (\d+) documents never come", by_hand)
    assert found is not None and 0 < int(found[1]) < int(found[2])
    told = re.search(r"too short: (\d+), put into the queue: (\d+)\n  went on although a filter failed: (\d+)", events)
    assert told is not None and int(told[1]) + int(told[2]) == int(found[2]) and int(told[3]) >= 1
    assert f"opened again, and done: {told[2]}; was every document? True" in events


def test_pipeline_redacts_before_it_shortens() -> None:
    by_hand, events = halves(run("content_pipeline"))
    assert re.search(r"halves of links that came through: .*<https://doi\.org/\S*…", by_hand)
    assert "halves of links that came through: none\n" in events


def test_pipeline_with_the_pages_of_this_repository() -> None:
    _, events = halves(run("content_pipeline", EXAMPLES.parent / "docs"))
    assert "came through: none\n" in events and "was every document? True" in events
    assert all(f"{name}.md " in events for name in ("aspects", "weaving", "testing"))


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


def test_pipeline_filters_in_order(tmp_path: Path) -> None:
    out = run("content_pipeline", folder(tmp_path / "texts"), "--queue", tmp_path / "queue.db")
    assert "refused as too short: 1, put into the queue: 4" in out and "although a filter failed: 0\n" in out
    cut = f"- {LONG}(link)"[:140] + "…"
    assert stored(tmp_path / "queue.db") == [
        ("part0/note.txt#1", "only a few words", "done", 4),
        ("part0/page.md#2", "one: first; two: second", "done", 4),
        ("part0/page.md#3", "- an item, [linked](link)", "done", 4),
        ("part0/page.md#4", cut, "done", len(cut.split())),
    ]


def test_pipeline_with_a_kept_queue(tmp_path: Path) -> None:
    where = tmp_path / "queue.db"
    run("content_pipeline", folder(tmp_path / "texts"), "--queue", where)
    first = stored(where)
    (tmp_path / "texts" / "more.md").write_text("one more of them", encoding="utf-8")
    out = run("content_pipeline", tmp_path / "texts", "--queue", where)
    assert "\n  done: 5; now" in out and "opened again, and done: 5; was every document? True" in out
    assert [row for row in stored(where) if row[0] != "more.md#1"] == first


def test_pipeline_two_workers_never_claim_the_same(tmp_path: Path) -> None:
    queue_type, where = load("content_pipeline").SqliteQueue, str(tmp_path / "queue.db")
    queue = queue_type(where)
    for n in range(500):
        queue.put(str(n), "text")
    queue.close()
    claimed: list[str] = []
    opened = threading.Barrier(2)

    def work() -> None:
        mine = queue_type(where)
        opened.wait(60)  # opening takes back what others have claimed
        while found := mine.claim():
            claimed.append(found[0])
        mine.close()

    at_once(work, work)
    assert sorted(claimed, key=int) == [str(n) for n in range(500)]


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


@kills
@settings(max_examples=5)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_pipeline_killed_again_and_again(points: list[int]) -> None:
    with TemporaryDirectory() as temporary:
        texts, where, whole = folder(Path(temporary, "texts")), Path(temporary, "queue.db"), Path(temporary, "whole.db")
        run("content_pipeline", texts, "--queue", whole)
        marked = frozenset[str]()
        for statements in points:
            die(statements, texts, "--queue", where)
            marked = mark(where, marked)
        assert "was every document? True" in run("content_pipeline", texts, "--queue", where)
        check(where, whole, marked)


@kills
def test_pipeline_killed_from_outside(tmp_path: Path) -> None:
    texts, where = folder(tmp_path / "texts", copies=100), tmp_path / "queue.db"
    run("content_pipeline", texts, "--queue", tmp_path / "whole.db")
    command = [sys.executable, str(EXAMPLES / "content_pipeline.py"), str(texts), "--queue", str(where)]
    for rows in (1, 50, 200, 399):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ALONE)
        while process.poll() is None and len(stored(where)) < rows:
            time.sleep(0.001)
        process.kill()
        process.wait()
    marked = mark(where)
    assert "was every document? True" in run("content_pipeline", texts, "--queue", where)
    check(where, tmp_path / "whole.db", marked)


# With a Redis


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Any]:
    """Return a client of a server that is ours alone."""
    client = pytest.importorskip("redis")
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("there is no redis-server on the path")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(tmp_path)
    process = subprocess.Popen([server, *options], stdout=subprocess.DEVNULL)
    connection = client.Redis(port=port, decode_responses=True)
    try:
        for _ in range(500):
            try:
                connection.ping()
                break
            except client.ConnectionError:
                time.sleep(0.01)
        yield connection
    finally:
        connection.close()
        process.kill()
        process.wait()


def address(redis: Any) -> str:
    return f"redis://127.0.0.1:{redis.connection_pool.connection_kwargs['port']}"


def kept(redis: Any) -> dict[str, Any]:
    """Return all that the queue has stored, with the keys of those that wait or are claimed sorted."""
    read = {"hash": redis.hgetall, "list": lambda key: sorted(redis.lrange(key, 0, -1))}
    return {key: read[redis.type(key)](key) for key in redis.scan_iter()}


def test_redis_is_the_queue_and_is_left_as_it_was(redis: Any) -> None:
    redis.set("mine", "1")
    out = run("content_pipeline", env={**ALONE, "REDIS_URL": address(redis)})
    assert out.replace("RedisQueue", "SqliteQueue") == run("content_pipeline")
    assert "RedisQueue" in out and redis.keys() == ["mine"]


def test_redis_with_a_kept_queue(redis: Any, tmp_path: Path) -> None:
    texts = folder(tmp_path / "texts")
    first = run("content_pipeline", texts, "--queue", address(redis))
    before = kept(redis)
    again = run("content_pipeline", texts, "--queue", address(redis))
    assert kept(redis) == before and first.splitlines()[-1] == again.splitlines()[-1]
    assert before["aspecthook:done"]["part0/note.txt#1"] == "4" and len(before["aspecthook:done"]) == 4


@kills
def test_redis_killed_before_any_command(redis: Any, tmp_path: Path) -> None:
    texts = folder(tmp_path / "texts")
    run("content_pipeline", texts, "--queue", address(redis))
    whole, seen = kept(redis), set[str]()
    for commands in range(100):
        redis.flushall()
        if not die(commands, texts, "--queue", address(redis)):
            break
        seen.update(kept(redis))
        done = redis.hkeys("aspecthook:done")
        for key in done:
            redis.hset("aspecthook:done", key, -1)  # doing it again would show
        assert "was every document? True" in run("content_pipeline", texts, "--queue", address(redis))
        expected = {**whole, "aspecthook:done": whole["aspecthook:done"] | dict.fromkeys(done, "-1")}
        assert kept(redis) == expected
    assert 20 < commands < 99 and seen == {f"aspecthook:{one}" for one in ("text", "new", "now", "done")}


def test_redis_that_does_not_answer() -> None:
    pytest.importorskip("redis")
    done = start("content_pipeline", "--queue", "redis://127.0.0.1:1")
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(r"content_pipeline\.py: cannot use redis://127\.0\.0\.1:1: .+\n", done.stderr)
