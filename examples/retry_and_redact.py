"""A client that is told nothing: a token, retries and redaction for `requests` (or `httpx`), put on from outside.

The client below asks a service for orders. The service, on this machine and in this program, wants a token, is busy
now and then (503) and sends card numbers that nobody should see. Not a line of the client is changed. Look for

- the pre hook, which answers `Args(...)`: another request, signed; the one that the caller made stays as it is;
- the around hook, which may call `proceed()` as often as it likes: a 503 is tried again;
- the post hook on a *property*, which hides card numbers wherever text of a response is shown;
- `scope="context"`: the hooks act for the tasks that are in the block, and for nobody else.

Run `python examples/retry_and_redact.py` with aspecthook and `requests` installed; with `httpx` too, it shows the same
on an async client. The server is on 127.0.0.1; no other network is used.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from aspecthook import Args, weave

try:
    import requests
except ImportError:
    sys.exit("This example needs requests: python -m pip install requests")
try:
    import httpx
except ImportError:
    httpx = None  # type: ignore[assignment]  # its part is left out

ORDERS = {
    1: {"item": "binoculars", "card": "4000-1234-5678-9010"},
    2: {"item": "warm socks", "card": "4000-9876-5432-1098"},
    3: {"item": "fish, frozen", "card": "4000-1111-2222-3333"},
}


class Service(BaseHTTPRequestHandler):
    """Busy at every first try, strict about tokens, careless about cards."""

    tried: ClassVar[set[tuple[str, str]]] = set()
    log: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        key = self.path, self.headers["User-Agent"]
        if key not in self.tried:
            self.tried.add(key)
            status, content = 503, {"error": "busy, come again"}
        elif self.headers["Authorization"] != "Bearer open-sesame":
            status, content = 401, {"error": "no token"}
        else:
            status, content = 200, ORDERS[int(self.path.rpartition("/")[2])]
        self.log.append(f"{self.path} {status}")
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# The client: plain code, not touched.


def orders(url: str) -> None:
    with requests.Session() as session:
        session.trust_env = False  # no proxies between us and 127.0.0.1
        for number in ORDERS:
            response = session.get(f"{url}/orders/{number}")
            print(f"  {response.status_code}  {response.text}")


# The hooks


def sign(request: Any) -> Args:
    signed = request.copy()
    signed.headers["Authorization"] = "Bearer open-sesame"
    return Args(request=signed)


def retry(proceed: Callable[[], Any]) -> Any:
    for _ in range(3):
        response = proceed()  # each try goes through what is inside: other around hooks, then `send`
        if response.status_code != 503:
            break
    return response


def redact(result: str) -> str:
    return re.sub(r"\b(?:\d{4}-){3}(\d{4})\b", r"****-\1", result)


async def tell_apart(url: str) -> None:
    """Two tasks share one httpx client; only the one in the block is signed and tried again."""

    def token(request: Any) -> None:
        request.headers["Authorization"] = "Bearer open-sesame"

    async def again(proceed: Callable[[], Awaitable[Any]]) -> Any:
        response = await proceed()
        return await proceed() if response.status_code == 503 else response

    async with httpx.AsyncClient(trust_env=False) as client:

        async def inside() -> str:
            with weave("httpx:AsyncClient.send", pre=token, around=again, scope="context"):
                return f"in the block: {(await client.get(f'{url}/orders/1')).status_code}"

        async def outside() -> str:
            return f"outside: {(await client.get(f'{url}/orders/2')).status_code}"

        print("  " + ", ".join(await asyncio.gather(inside(), outside())))


def main() -> None:
    plain = requests.Session.send.__code__, requests.Response.text
    with service() as url:
        print("Plain:")
        orders(url)
        Service.tried.clear()
        print("Woven:")
        with (
            weave("requests.sessions:Session.send", pre=sign, around=retry),
            weave("requests.models:Response.text", post=redact),
        ):
            orders(url)
        print("The service saw:", ", ".join(Service.log))
        if httpx is not None:
            print("Two tasks of httpx:")
            asyncio.run(tell_apart(url))
        else:
            print("(httpx is not installed; its part is left out)")
    now = requests.Session.send.__code__, requests.Response.text
    print("Hooks off. Is everything the object that it was?", all(a is b for a, b in zip(now, plain, strict=True)))


if __name__ == "__main__":
    main()
