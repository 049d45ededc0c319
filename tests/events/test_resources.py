"""Files, connections, programs and imports: subscribers are notified before, and can forbid them."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aspecthook import events, hooks
from tests.events.programs import ROOT, printed

pytestmark = pytest.mark.usefixtures("no_trace")


# Files and connections


def test_subscriber_forbids_opening_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"

    def forbid(path: object, mode: str | None) -> None:
        if str(path).endswith("secret"):
            raise PermissionError(f"{mode}: not this one")

    with hooks(events.file_opening).add("on", forbid):
        with pytest.raises(PermissionError, match="w: not this one"):
            path.write_text("x")
        with pytest.raises(PermissionError, match="None: not this one"):
            os.open(path, os.O_CREAT)
        (tmp_path / "other").write_text("y")
    assert [one.name for one in tmp_path.iterdir()] == ["other"]
    path.write_text("x")
    assert path.exists()


def test_file_opening_and_audit_open_are_both_notified() -> None:
    told: list[str] = []
    with hooks(events.file_opening).add("on", lambda path: told.append("file")):
        with hooks(events.audit("open")).add("on", lambda args: told.append("audit")):
            os.close(os.open(__file__, os.O_RDONLY))
        os.close(os.open(__file__, os.O_RDONLY))
    assert told == ["file", "audit", "file"]


class Disguised(str):
    """A path that says it ends otherwise."""

    __slots__ = ()

    def endswith(self, *_: object) -> bool:  # type: ignore[override]
        return False

    def __str__(self) -> str:
        return "harmless.txt"

    __fspath__ = __str__


@pytest.mark.parametrize("case", ["str", "bytes", "Path", "subclass", "link", "link to a link", "descriptor's path"])
def test_guard_of_the_docs_sees_the_file_behind_each_name(tmp_path: Path, case: str) -> None:
    """`open(b"secret.key")`, a link and a subclass of str passed it."""
    source = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    body = source[source.index("def no_keys") : source.index("for disguise in")]
    space: dict[str, Any] = {"os": os}
    exec(body, space)
    key, link, other = tmp_path / "secret.key", tmp_path / "link.txt", tmp_path / "other.txt"
    key.write_text("key")
    link.symlink_to(key)
    other.symlink_to(link)
    with key.open() as opened:
        names: dict[str, Any] = {
            "str": str(key),
            "bytes": os.fsencode(key),
            "Path": key,
            "subclass": Disguised(key),
            "link": link,
            "link to a link": str(other),
            "descriptor's path": f"/proc/self/fd/{opened.fileno()}",
        }
        if case == "descriptor's path" and not Path(names[case]).exists():
            pytest.skip("this system has no such paths")
        with hooks(events.file_opening).add("on", space["no_keys"]):
            for opening in (open, io.open, lambda name: os.open(name, os.O_RDONLY)):
                with pytest.raises(PermissionError, match=r"^secret\.key is not to be opened$"):
                    opening(names[case])
            with open(os.dup(opened.fileno())) as again:  # what is open already
                assert again.read() == "key"


def test_connection_is_notified_before_it_is_made() -> None:
    told: list[Any] = []

    def forbid(socket: Any, address: Any) -> None:
        told.append((socket, address))
        raise PermissionError("offline")

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = server.getsockname()
        with hooks(events.socket_connecting).add("on", forbid), socket.socket() as client:
            with pytest.raises(PermissionError, match="offline"):
                client.connect(address)
            with pytest.raises(PermissionError, match="offline"):
                client.connect_ex(address)
            assert told == [(client, address)] * 2
        told.clear()
        with socket.create_connection(address, timeout=30) as client:
            assert client.getpeername() == address


# Programs


def test_program_is_notified_before_it_starts() -> None:
    told: list[Any] = []
    command = [sys.executable, "-c", "print(1)"]
    event = events.subprocess_starting
    with hooks(event).add("on", lambda executable, command, cwd, env: told.append((executable, command, cwd, env))):
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "A": "b"}, capture_output=True, check=True)
    assert done.stdout.strip() == b"1"
    assert told == [(sys.executable, command, ROOT, {**os.environ, "A": "b"})]


STARTS = {
    "os.system": ("os.system('exit 3')", "[(None, 'exit 3', None, None)]"),
    "os.popen": ("os.popen('exit 3').close()", "[('/bin/sh', ['/bin/sh', '-c', 'exit 3'], None, None)]"),
    "os.posix_spawn": (
        "os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', 'exit 3'], {'A': 'b'}), 0)",
        "[('/bin/sh', ['sh', '-c', 'exit 3'], None, {'A': 'b'})]",
    ),
    # Popen may do it by os.posix_spawn, and pty.spawn by os.exec in a child.
    "subprocess": (
        "subprocess.call(['/bin/sh', '-c', 'exit 3'], close_fds=False)",
        "[('/bin/sh', ['/bin/sh', '-c', 'exit 3'], None, None)]",
    ),
    "pty.spawn": ("pty.spawn(['/bin/sh', '-c', 'exit 3'])", "[(None, ['/bin/sh', '-c', 'exit 3'], None, None)]"),
    "os.spawnv, in the child": ("os.spawnv(os.P_WAIT, '/bin/sh', ['sh', '-c', 'exit 3'])", "[]"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="starts a POSIX shell")
@pytest.mark.parametrize("case", STARTS)
def test_program_is_notified_once(case: str) -> None:
    """`os.system` and `os.posix_spawn` were not told."""
    statement, told = STARTS[case]
    program = f"""
import os, pty, subprocess
told = []
@events.subprocess_starting.on
def note(executable, command, cwd, env): told.append((executable, command, cwd, env))
{statement}
print(told)
"""
    assert printed(program)[-1] == told


@pytest.mark.skipif(sys.platform == "win32", reason="starts a POSIX shell")
@pytest.mark.parametrize(
    "statement",
    [
        "os.system('echo started')",
        "os.posix_spawn('/bin/sh', ['sh', '-c', 'echo started'], {})",
        "os.execv('/bin/sh', ['sh', '-c', 'echo started'])",
        "pty.spawn(['/bin/sh', '-c', 'echo started'])",
        "print(os.spawnv(os.P_WAIT, '/bin/sh', ['sh', '-c', 'echo started']))",
    ],
)
def test_program_is_forbidden(statement: str) -> None:
    program = f"""
import os, pty
@events.subprocess_starting.on
def forbid(command):
    os.system("echo never told of what it does itself")
    raise PermissionError(str(command))
try: {statement}
except PermissionError as error: print(error)
"""
    lines = printed(program)
    forbidden = "127" if "spawnv" in statement else "echo started" if "system" in statement else "['"
    assert lines[-1].startswith(forbidden) and "started" not in lines
    assert lines.count("never told of what it does itself") == 1


# Imports


@pytest.mark.parametrize(
    "statement",
    [
        "import colorsys",
        "from colorsys import rgb_to_hsv",
        "__import__('colorsys')",
        "importlib.import_module('colorsys')",
    ],
)
def test_import_is_notified_once_and_forbidden(statement: str) -> None:
    program = f"""
import importlib
told = []
@events.module_importing.on
def forbid(name):
    told.append(name)
    if len(told) == 1: raise ImportError("not this one")
try: {statement}
except ImportError as error: print(error, "colorsys" in sys.modules)
{statement}
{statement}
hooks(events.module_importing).clear()
del sys.modules["colorsys"]
{statement}
print(told)
"""
    assert printed(program) == ["not this one False", "['colorsys', 'colorsys']"]


def test_relative_import_and_extension_module_have_their_full_name() -> None:
    program = """
import importlib
told = []
events.module_importing.on(lambda name: told.append(name))
sys.modules.pop("_json", None)
importlib.import_module(".dom", "xml")
importlib.import_module("_json")
for wrong in (("not.there",), (".relative",), ("...far", "xml")):
    try: importlib.import_module(*wrong)
    except (ImportError, TypeError) as error: print(type(error).__name__)
print([name for name in told if name in ("xml.dom", "_json", "not.there") or "relative" in name or "far" in name])
"""
    errors = ["ModuleNotFoundError", "TypeError", "ImportError"]
    assert printed(program) == [*errors, "['xml.dom', '_json', 'not.there']"]
