"""What `aspecthook attach` costs a server while it serves: before, while it is attached, and after it was detached.

Each round has a fresh server and, beside it, one that is left alone; each request to the one is followed by the same
request to the other, so that whatever else the machine does meanwhile meets both alike. All the time, also while
the command attaches and detaches, each has another client, too.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from socket import create_server
from statistics import median
from threading import Event, Thread
from time import perf_counter, sleep

from .results import Contest, Goal
from .timing import Effort

ROOT = Path(__file__).resolve().parents[1]
BEFORE, WHILE, AFTER = "before", "while 20 calls a request are traced", "after"
PAIRS = 300
SHOP = """\
PRICES = {"tea": 3, "milk": 2}

def price(item):
    return PRICES[item]

def total(items):
    return sum([price(item) for item in items])

CODES = [price.__code__, total.__code__]

async def app(scope, receive, send):
    assert scope["type"] == "http"
    if scope["path"] == "/same":
        body = str(price.__code__ is CODES[0] and total.__code__ is CODES[1])
    else:
        body = str(total(["tea", "milk"] * 9 + ["tea"]))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body.encode()})
"""


def attaching(effort: Effort) -> list[Contest]:
    """Time requests to a server of uvicorn to which the command is attached; nothing where it cannot be."""
    if sys.version_info < (3, 14) or find_spec("uvicorn") is None:
        return []
    times: dict[str, list[float]] = {"a request to a server that is left alone": [], BEFORE: [], WHILE: [], AFTER: []}
    alone = times["a request to a server that is left alone"]
    lost, same = 0, True
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "shop.py").write_text(SHOP)
        for _ in range(max(3, effort.rounds // 5)):
            with _serving(folder) as other, _serving(folder) as server, _load(server) as failed, _load(other):
                _pairs(server, other)  # to warm up
                for what in (BEFORE, WHILE, AFTER):
                    with _attached(server) if what == WHILE else _nothing():
                        own, bare = _pairs(server, other)
                    alone.extend([bare] if what == BEFORE else [])
                    times[what].append(own - bare)
                same &= _get(HTTPConnection("127.0.0.1", server.port), "/same") == b"True"
            lost += len(failed)
    goals = [Goal(AFTER, 10e-6)]
    facts = {"no request was lost": not lost, "code objects are identical afterwards": same}
    return [Contest("attached", "A request to a server, over one left alone", "µs", times, goals=goals, facts=facts)]


class _Server:
    """A server in a process of its own."""

    def __init__(self, folder: str) -> None:
        with create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        options = ["--port", str(self.port), "--log-level", "critical", "--lifespan", "off"]
        self.process = subprocess.Popen([sys.executable, "-m", "uvicorn", "shop:app", *options], cwd=folder)


@contextmanager
def _serving(folder: str) -> Generator[_Server]:
    server = _Server(folder)
    try:
        for _ in range(600):
            try:
                _get(HTTPConnection("127.0.0.1", server.port), "/")
                break
            except OSError:
                sleep(0.05)
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


@contextmanager
def _load(server: _Server) -> Generator[list[object]]:
    """Send requests all the time. What is yielded is a list of what has failed."""
    over, failed = Event(), list[object]()

    def send() -> None:
        connection = HTTPConnection("127.0.0.1", server.port)
        while not over.is_set():
            try:
                body = _get(connection, "/")
            except Exception as error:
                failed.append(error)
                connection = HTTPConnection("127.0.0.1", server.port)
            else:
                failed.extend([body] if body != b"48" else [])
            sleep(0.002)

    thread = Thread(target=send)
    thread.start()
    try:
        yield failed
    finally:
        over.set()
        thread.join()


@contextmanager
def _attached(server: _Server) -> Generator[None]:
    command = [sys.executable, "-m", "aspecthook", "attach", str(server.process.pid), "shop:price, shop:total"]
    attached = subprocess.Popen([*command, "--lines", "0"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert attached.stderr is not None
    first = attached.stderr.readline()
    if "2 functions woven" not in first:
        attached.kill()
        raise RuntimeError(f"{first}{attached.stderr.read()}")
    yield
    attached.send_signal(signal.SIGINT)
    said = attached.stderr.read()
    if attached.wait() or "detached from process" not in said:
        raise RuntimeError(said)


@contextmanager
def _nothing() -> Generator[None]:
    yield


def _pairs(server: _Server, other: _Server) -> tuple[float, float]:
    """Return the medians of how long requests to two servers took, which were sent in turn."""
    connections = [HTTPConnection("127.0.0.1", one.port) for one in (server, other)]
    times: list[list[float]] = [[], []]
    for _ in range(PAIRS):
        for connection, row in zip(connections, times, strict=True):
            begun = perf_counter()
            _get(connection, "/")
            row.append(perf_counter() - begun)
    differences = [one - two for one, two in zip(*times, strict=True)]
    bare = median(times[1])
    return bare + median(differences), bare


def _get(connection: HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{path}: status {answer.status}")
    return answer.read()
