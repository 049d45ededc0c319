"""`aspecthook attach` on a server under load: no request is lost, and the server is left as it was."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 60

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="attaching needs Python 3.14")

SHOP = """
    import asyncio

    def price(item):
        return len(item)

    async def stock(item):
        await asyncio.sleep(0)
        return price(item)

    class Orders:
        async def create(self, item, token):
            return {"price": price(item), "stock": await stock(item)}
"""

SERVER = """
    import json, sys, threading
    import shop
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    FUNCTIONS = [shop.price, shop.stock, shop.Orders.create]
    CODES = [one.__code__ for one in FUNCTIONS]

    async def order(request):
        return JSONResponse(await shop.Orders().create(request.path_params["item"], "hunter2"))

    def work(request):  # in a thread
        return JSONResponse(shop.price(request.path_params["item"]))

    async def plain(request):
        same = [one.__code__ is code for one, code in zip(FUNCTIONS, CODES)]
        return JSONResponse([same, [type(one.__dict__) is dict for one in FUNCTIONS]])

    app = Starlette(routes=[Route("/order/{item}", order), Route("/work/{item}", work), Route("/plain", plain)])
"""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Run a server. Return its port."""
    (tmp_path / "shop.py").write_text(textwrap.dedent(SHOP))
    (tmp_path / "server.py").write_text(textwrap.dedent(SERVER))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "server:app", "--port", str(number), "--no-access-log"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    (tmp_path / "pid").write_text(str(server.pid))
    try:
        until = time.monotonic() + SECONDS
        while True:
            try:
                assert get(number, "/plain") == [[True] * 3, [True] * 3]
                break
            except ConnectionRefusedError:
                assert time.monotonic() < until and server.poll() is None
                time.sleep(0.05)
        yield number
        server.send_signal(signal.SIGINT)
        said = server.communicate(timeout=SECONDS)[1]
        assert all(line.startswith("INFO:") for line in said.splitlines()), said
    finally:
        server.kill()
        server.communicate()


def get(port: int, path: str) -> object:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", path)
    response = connection.getresponse()
    assert response.status == 200
    found = json.loads(response.read())
    connection.close()
    return found


def load(port: int, over: threading.Event, counts: list[int], failures: list[str]) -> None:
    """Send requests, one after another, on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    count = 0
    try:
        while not over.is_set():
            for path, wanted in (("/order/tea", {"price": 3, "stock": 3}), ("/work/milk", 4)):
                connection.request("GET", path)
                response = connection.getresponse()
                found = (response.status, json.loads(response.read()))
                if found != (200, wanted):
                    failures.append(f"{path}: {found}")
                count += 1
    except Exception as error:
        failures.append(repr(error))
    finally:
        connection.close()
        counts.append(count)


def test_no_request_of_a_server_is_lost_while_it_is_attached_and_detached(port: int, tmp_path: Path) -> None:
    over = threading.Event()
    counts: list[int] = []
    failures: list[str] = []
    threads = [threading.Thread(target=load, args=(port, over, counts, failures)) for _ in range(4)]
    for one in threads:
        one.start()
    command = [sys.executable, "-m", "aspecthook", "attach", (tmp_path / "pid").read_text(), "shop:*"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        for _ in range(3):
            done = subprocess.run(
                [*command, "--for", "0.5", "--redact", "token", "-o", str(tmp_path / "calls.jsonl")],
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            assert (done.returncode, "detached from process" in done.stderr) == (0, True), done.stderr
            assert get(port, "/plain") == [[True] * 3, [True] * 3]
            recorded = (tmp_path / "calls.jsonl").read_text()
            assert "shop:Orders.create" in recorded
            assert "hunter2" not in recorded + done.stderr
    finally:
        over.set()
        for one in threads:
            one.join(SECONDS)
    assert failures == []
    assert len(counts) == 4
    assert min(counts) > 0
