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
def serving(folder: Path, *words: str, ready: str) -> Iterator[tuple[str, Callable[[], Tape]]]:
    """Run a server under `aspecthook trace`; yield its address, and what ends it and returns what was recorded."""
    said = folder / "said.txt"
    command = [sys.executable, "-m", "aspecthook", "trace", "-o", "calls.jsonl", "--lines", "0", *words]
    with said.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=output, stderr=output)

    def end() -> Tape:
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


def test_pytest_runs_a_suite(aspecthook: Run, python: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def price(item): return {'tea': 3.5}[item]\n")
    (tmp_path / "test_shop.py").write_text(
        "import pytest, warnings\nfrom shop import price\n"
        "def test_tea(): assert price('tea') == 3.5\n"
        "def test_milk(): assert price('milk') == 1\n"
    )
    without = [
        word for name in ("cacheprovider", "aspecthook", "asyncio", "aspectlib") for word in ("-p", f"no:{name}")
    ]
    flags = (*without, "-W", "error", "-q", "test_shop.py")
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
