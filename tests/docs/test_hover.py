"""An editor shows for the attributes of a hookable function what they do, in a sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .test_docs import ROOT

pytest.importorskip("pyright")

PROGRAM = '''
from aspecthook import event, hookable, hooks

@hookable
def price(item: str, qty: int = 1) -> float:
    """The price of some of it."""
    return qty * 2.0

@hookable
async def fetch(url: str) -> bytes:
    return b""

@event
def changed(celsius: float) -> str | None: ...

class Shop:
    @hookable
    def open(self, hour: int) -> bool:
        return True

price
price.pre
price.post
price.around
price.exception
price.item
price.always
price.hooks
hooks(price).pre
fetch.post
Shop().open.pre
changed.on
'''


class LanguageServer:
    """Pyright's language server: JSON-RPC through pipes."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyright.langserver", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        )
        self._requests = 0
        capabilities = {"textDocument": {"hover": {"contentFormat": ["markdown"]}}}
        folders = [{"uri": folder.as_uri(), "name": folder.name}]
        self.ask("initialize", processId=None, rootUri=None, workspaceFolders=folders, capabilities=capabilities)
        self.tell("initialized")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        assert length, "the language server has ended"
        return json.loads(self._process.stdout.read(length))

    def tell(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> Any:
        self._requests += 1
        self._send({"id": self._requests, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:  # a request of the server's own: nothing is configured
                self._send({"id": message["id"], "result": None})
            elif message.get("id") == self._requests:
                return message["result"]

    def close(self) -> None:
        self.ask("shutdown")
        self.tell("exit")
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def hover(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Return a function that returns the text that is shown over the last word of a line of the program."""
    module = tmp_path_factory.mktemp("shop") / "shop.py"
    module.write_text(PROGRAM)
    settings = {"include": [module.name], "extraPaths": [str(ROOT)]}
    (module.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    lines = PROGRAM.splitlines()
    server = LanguageServer(module.parent)
    document = {"uri": module.as_uri(), "languageId": "python", "version": 1, "text": PROGRAM}
    server.tell("textDocument/didOpen", textDocument=document)

    def shown(line: str) -> str:
        position = {"line": lines.index(line), "character": len(line) - 1}
        found = server.ask("textDocument/hover", textDocument={"uri": module.as_uri()}, position=position)
        return re.sub(r"\s+", " ", found["contents"]["value"])

    yield shown
    server.close()


@pytest.mark.parametrize(
    ("line", "type_", "sentence"),
    [
        ("price", "price: Hookable[(item: str, qty: int = 1), float]", "The price of some of it."),
        ("price.pre", "pre: Adds[PreAnswer[float]]", "Add a hook that runs before the function: `@f.pre` or"),
        ("price.post", "post: Adds[PostAnswer[float]]", "Add a hook that runs after the function has returned:"),
        (
            "price.around",
            "around: AddsAround[AroundAnswer[float]]",
            "Add a hook that runs instead of the function:",
        ),
        (
            "price.exception",
            "exception: AddsExcept[ExceptAnswer[float]]",
            "Add a hook that runs when the function",
        ),
        ("price.item", "item: NoGenerator", "Add a hook that runs for each item of a generator:"),
        ("price.always", "always: Always", "Add a hook that runs when the call ends, however it ends:"),
        ("price.hooks", "hooks: MountPoint", "The mount point: the hooks of the function,"),
        ("hooks(price).pre", "pre: KindHooks", "Add a hook of this kind, as `@f.pre` or"),
        (
            "fetch.post",
            "post: Adds[Soon[PostAnswer[bytes]]]",
            "Add a hook that runs after the function has returned: `@f.post` or",
        ),
        ("Shop().open.pre", "pre: Adds[PreAnswer[bool]]", "Add a hook that runs before the function: `@f.pre` or"),
        ("changed.on", "on: On", "Add a subscriber, which runs when the event is called: `@e.on` or"),
    ],
)
def test_an_editor_shows_what_it_does(hover: Callable[[str], str], line: str, type_: str, sentence: str) -> None:
    assert f"{type_} ``` --- {sentence}" in hover(line)
