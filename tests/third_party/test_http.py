"""requests, httpx and http.server woven while they talk to each other over loopback."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from aspecthook import Args, weave

from .snapshot import Snapshot, no_trace_left


class Shop(BaseHTTPRequestHandler):
    """A service that wants a token, and is busy now and then."""

    timeout = 5  # a client that hangs fails its test
    seen: ClassVar[list[tuple[str, str | None]]] = []
    busy: ClassVar[int] = 0

    def do_GET(self) -> None:
        token = self.headers.get("Authorization")
        type(self).seen.append((self.path, token))
        if type(self).busy > 0:
            type(self).busy -= 1
            self.answer(503, {"error": "busy"})
        elif token != "Bearer secret":
            self.answer(401, {"error": "who are you?"})
        else:
            self.answer(200, {"path": self.path})

    def answer(self, status: int, content: dict[str, str]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Served:
    def __init__(self, handler: type[Shop], url: str) -> None:
        self.handler = handler
        self.url = url

    @property
    def seen(self) -> list[tuple[str, str | None]]:
        return self.handler.seen


@pytest.fixture
def shop() -> Iterator[Served]:
    handler = type("Handler", (Shop,), {"seen": [], "busy": 0})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = False  # they are joined, so that none outlives its test
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Served(handler, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# requests


@pytest.fixture
def session() -> Iterator[Any]:
    requests = pytest.importorskip("requests")
    with requests.Session() as session:
        session.trust_env = False  # no proxies, no netrc
        yield session


def with_token(request: Any) -> Args:
    """Answer another request, with the token; the one that the caller made stays as it is."""
    signed = request.copy()
    signed.headers["Authorization"] = "Bearer secret"
    return Args(request=signed)


def retry(proceed: Callable[..., Any]) -> Any:
    for _ in range(3):
        response = proceed()
        if response.status_code != 503:
            break
    return response


def test_an_around_hook_makes_a_retry_of_a_503(shop: Served, session: Any) -> None:
    with no_trace_left("requests", "urllib3"):
        with weave("requests.sessions:Session.send", pre=with_token, around=retry):
            shop.handler.busy = 2
            assert session.get(f"{shop.url}/milk").status_code == 200
            assert shop.seen == [("/milk", "Bearer secret")] * 3  # the token is on every try
            shop.handler.busy = 5
            assert session.get(f"{shop.url}/milk").status_code == 503
        shop.handler.busy = 1
        assert session.get(f"{shop.url}/milk").status_code == 503


# httpx


def test_async_httpx_takes_async_hooks_and_sync_ones(shop: Served) -> None:
    httpx = pytest.importorskip("httpx")
    httpx.get(shop.url, trust_env=False)
    shop.seen.clear()
    before = Snapshot("httpx", "httpcore")

    def token(request: Any) -> None:
        request.headers["Authorization"] = "Bearer secret"

    async def again(proceed: Callable[..., Awaitable[Any]]) -> Any:
        response = await proceed()
        while response.status_code == 503:
            await asyncio.sleep(0)
            response = await proceed()
        return response

    async def main() -> list[int]:
        shop.handler.busy = 2
        async with httpx.AsyncClient(trust_env=False) as client:
            with weave("httpx._client:AsyncClient.send", pre=token, around=again):
                assert inspect.iscoroutinefunction(httpx.AsyncClient.send)
                answers = await asyncio.gather(*[client.get(f"{shop.url}/{number}") for number in range(3)])
            return [answer.status_code for answer in answers] + [(await client.get(f"{shop.url}/4")).status_code]

    assert asyncio.run(main()) == [200, 200, 200, 401]
    assert len(shop.seen) == 6
    assert before.differences() == []
