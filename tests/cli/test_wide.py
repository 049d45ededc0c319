"""Programs that nobody here wrote, traced while they do their work: they do it as ever, and their calls are seen."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from aspecthook.record import Tape, read

from .conftest import Run, environment

pytestmark = pytest.mark.wide


@contextmanager
def serving(folder: Path, *words: str, ready: str) -> Iterator[tuple[str, Callable[..., Tape]]]:
    """Run a server under `aspecthook trace`; yield its address, and what ends it and returns what was recorded.

    It is ended once so many calls of a function were shown: a call may end after its answer has come.
    """
    said = folder / "said.txt"
    command = [sys.executable, "-m", "aspecthook", "trace", "-o", "calls.jsonl", "--lines", "0", *words]
    with said.open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment({"PYTHONUNBUFFERED": "1"}), stdout=output, stderr=output
        )

    def end(function: str = "", count: int = 0) -> Tape:
        while said.read_text().count(f"{function}(") < count:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        return read(folder / "calls.jsonl")

    try:
        while (match := re.search(ready, said.read_text())) is None:
            if process.poll() is not None:
                pytest.fail(said.read_text())
            time.sleep(0.02)
        yield f"http://127.0.0.1:{match[1]}", end
    finally:
        process.kill()
        process.wait()


def get(url: str) -> tuple[int, bytes]:
    for _ in range(200):
        try:
            with urlopen(url, timeout=30) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()
        except URLError:  # the worker that will answer has not started yet
            time.sleep(0.05)
    pytest.fail(f"{url} does not answer")


def test_http_server_answers_requests(tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("tea")
    target = "http.server:SimpleHTTPRequestHandler.*"
    words = ("--lines", "50", target, "--", "-m", "http.server", "0", "--bind", "127.0.0.1")
    with serving(tmp_path, *words, ready=r"http://127.0.0.1:(\d+)") as (url, end):
        answers = [get(f"{url}/{name}") for name in ("page.txt", "none.txt", "page.txt")]
        tape = end("SimpleHTTPRequestHandler.do_GET", 3)
    assert [status for status, _ in answers] == [200, 404, 200] and answers[0][1] == b"tea"
    requests = tape.calls("SimpleHTTPRequestHandler.do_GET")
    assert len(requests) == 3 and len({call.thread for call in requests}) == 3
    assert [len(call.children) for call in requests] == [2, 1, 2]  # send_head, and copyfile where there is a file


def test_pytest_runs_a_suite(aspecthook: Run, python: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def price(item): return {'tea': 3.5}[item]\n")
    (tmp_path / "test_shop.py").write_text(
        "import pytest, warnings\nfrom shop import price\n"
        "def test_tea(): assert price('tea') == 3.5\n"
        "def test_milk(): assert price('milk') == 1\n"
    )
    flags = (
        "-p",
        "no:cacheprovider",
        "-p",
        "no:aspecthook",
        "-p",
        "no:asyncio",
        "-p",
        "no:aspectlib",
        "-W",
        "error",
        "-q",
        "test_shop.py",
    )
    alone = python("-m", "pytest", *flags)
    traced = aspecthook("trace", "shop:*", "--", "pytest", *flags)

    def timeless(text: str) -> str:
        return re.sub(r"in \d+\.\d+s", "", text)

    assert (traced.returncode, timeless(traced.stdout)) == (1, timeless(alone.stdout))
    assert "shop:price(item='milk') raised KeyError: 'milk'" in traced.stderr


def test_gunicorn_traces_its_workers(tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    (tmp_path / "shop.py").write_text("def app(environ, start):\n    start('200 OK', [])\n    return [b'tea']\n")
    words = ("shop:*", "--", "gunicorn", "shop:app", "--bind", "127.0.0.1:0", "--workers", "2")
    with serving(tmp_path, *words, ready=r"Listening at: http://127.0.0.1:(\d+)") as (url, end):
        assert {get(url) for _ in range(5)} == {(200, b"tea")}
        tape = end()
    assert len(tape.calls("shop:app")) == 5


@pytest.mark.torch
def test_each_rank_of_torchrun_is_traced(aspecthook: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text("import os\n\ndef step(rank): return rank\n\nstep(int(os.environ['RANK']))\n")
    words = ("torchrun", "--standalone", "--nproc-per-node", 2, "train.py")
    done = aspecthook("trace", "__main__:step", "-o", "calls.jsonl", "--", *words)
    assert done.returncode == 0, done.stderr
    calls = read(tmp_path / "calls.jsonl").calls("step")
    assert sorted(call.arguments["rank"] for call in calls) == ["0", "1"]
    assert len({call.process for call in calls}) == 2
