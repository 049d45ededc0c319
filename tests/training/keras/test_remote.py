"""The callback that sends numbers to a server: what it sends, and what happens without a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import nan
from typing import Any
from urllib.parse import parse_qs

import pytest

from aspecthook.training import TrainingError
from aspecthook.training.keras import RemoteMonitor, _remote
from tests.training.kit import data, run_of


class Server(HTTPServer):
    """Notes what it is sent."""

    seen: list[tuple[str, str, str | None, str]]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        server: Any = self.server
        server.seen.append((self.path, self.headers["Content-Type"], self.headers["X-Run"], body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as made:
        made.seen = []
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def test_each_epoch_is_sent_as_a_field_of_a_form(server: Server) -> None:
    runner = run_of("numpy", hooks=[RemoteMonitor(address(server), field="numbers")], max_epochs=2)
    runner.fit(data(2), data(1))
    rows = [json.loads(parse_qs(body)["numbers"][0]) for _, _, _, body in server.seen]
    assert [row["epoch"] for row in rows] == [0, 1]
    assert rows[-1]["val_loss"] == runner.logs["val_loss"] and "loss" in rows[-1]
    assert {row[:2] for row in server.seen} == {("/publish/epoch/end/", "application/x-www-form-urlencoded")}


def test_an_epoch_is_sent_as_json_with_headers_and_without_nan(server: Server) -> None:
    monitor = RemoteMonitor(address(server), "/here", headers={"X-Run": "7"}, send_as_json=True)
    monitor.on_epoch_end(3, {"loss": 0.5, "accuracy": nan})
    assert server.seen == [("/here", "application/json", "7", '{"epoch": 3, "loss": 0.5, "accuracy": null}')]


def test_a_server_that_is_gone_causes_a_warning_and_the_run_continues() -> None:
    with Server(("127.0.0.1", 0), Handler) as closed:
        root = address(closed)
    runner = run_of("numpy", hooks=[RemoteMonitor(root)], max_epochs=1)
    with pytest.warns(UserWarning, match=r"RemoteMonitor: http://127.*/publish/epoch/end/ cannot be reached"):
        runner.fit(data(1))
    assert runner.epoch == 1


def test_rank_0_alone_sends(server: Server) -> None:
    runner = run_of("numpy", hooks=[RemoteMonitor(address(server))], max_epochs=1)
    runner.rank = 1
    runner.fit(data(1))
    assert server.seen == []


def test_without_httpx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_remote, "find_spec", lambda name: None)
    with pytest.raises(TrainingError, match=r"pip install 'aspecthook\[remote\]'"):
        RemoteMonitor()
