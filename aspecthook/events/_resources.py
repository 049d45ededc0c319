"""Files, connections, programs and imports: events made of audit events, whose subscribers can forbid them."""

from __future__ import annotations

import sys
from functools import partial
from os import fsdecode
from typing import TYPE_CHECKING, Any

from ._audits import Audited, Listener, caller
from ._pre_inside import PreInside
from ._quiet import notify
from ._wiring import Plug, Several, wired

if TYPE_CHECKING:
    import socket as sockets


@wired(partial(Audited, "open"))
def file_opening(path: str | bytes | int, mode: str | None, flags: int) -> None:
    """A file is about to be opened, by `open` or `os.open`; a subscriber that raises forbids it.

    This prevents mistakes. It is no sandbox: code that wants to can get around it.

    Args:
        path: The path as given.
        mode: The mode as given to `open`; None from `os.open`.
        flags: The flags of the system call.

    Example:
        >>> import os
        >>> @file_opening.on
        ... def forbid(path, mode):
        ...     if not isinstance(path, int) and os.path.realpath(os.fsdecode(path)).endswith(".key"):
        ...         raise PermissionError(f"{path} is not to be opened")
        >>> open("secret.key")
        Traceback (most recent call last):
          ...
        PermissionError: secret.key is not to be opened
        >>> hooks(file_opening).remove(forbid)
    """


@wired(partial(Audited, "socket.connect"))
def socket_connecting(socket: sockets.socket, address: Any) -> None:
    """A socket is about to connect; a subscriber that raises forbids it.

    Args:
        socket: The socket.
        address: The address as given; for the internet a tuple of host and port.

    Example:
        >>> import socket
        >>> @socket_connecting.on
        ... def offline(address):
        ...     raise PermissionError(f"no network: {address}")
        >>> with socket.socket() as one:
        ...     one.connect(("127.0.0.1", 9))
        Traceback (most recent call last):
          ...
        PermissionError: no network: ('127.0.0.1', 9)
        >>> hooks(socket_connecting).remove(offline)
    """


# The audit events of programs that start, and what each of their arguments is.
_STARTS = {
    "subprocess.Popen": ("executable", "command", "cwd", "env"),
    "os.system": ("command",),
    "os.posix_spawn": ("executable", "command", "env"),
    "os.spawn": ("mode", "executable", "command", "env"),  # on Windows alone
    "os.exec": ("executable", "command", "env"),
    "os.startfile": ("command",),
    "pty.spawn": ("command",),
}
# `subprocess` and `pty` start programs by these and raise an audit event of their own before.
_INSIDE = {"os.posix_spawn": "subprocess", "os.exec": "pty"}


def _starts(event: Listener) -> Plug:
    """Return the plug for all audit events of programs that start."""

    def plug(name: str, words: tuple[str, ...]) -> Audited:
        def listener(*args: Any) -> None:
            if name in _INSIDE and caller() == _INSIDE[name]:
                return
            known: dict[str, Any] = dict(zip(words, args, strict=False))
            if isinstance(known["command"], bytes):  # from `os.system`
                known["command"] = fsdecode(known["command"])
            notify(event, event, *[known.get(word) for word in ("executable", "command", "cwd", "env")])

        return Audited(name, listener, "aspecthook.events:subprocess_starting")

    return Several(*[plug(name, words) for name, words in _STARTS.items()])


@wired(_starts)
def subprocess_starting(executable: Any, command: Any, cwd: Any, env: Any) -> None:
    """A program is about to start; a subscriber that raises forbids it.

    Called for all ways that Python audits: `subprocess` (and so asyncio and `os.popen`), `os.system`,
    `os.posix_spawn`, `os.startfile`, `pty.spawn`, the `os.spawnv` family, and the `os.execv` family, which replaces
    this process. On POSIX `os.spawnv` forks and then calls `os.execv`, so that subscribers run in the child. Not called
    for what `multiprocessing` or a C library starts.

    Args:
        executable: The program as `subprocess.Popen` determines it; None if a shell does, as for `os.system`.
        command: The arguments, a list; for a shell a string, as given.
        cwd: The working directory as given; None for that of this process.
        env: The environment as given; None for that of this process.

    Example:
        >>> import subprocess
        >>> @subprocess_starting.on
        ... def forbid(command):
        ...     raise PermissionError(command)
        >>> subprocess.run(["rm", "-r", "build"])
        Traceback (most recent call last):
          ...
        PermissionError: ['rm', '-r', 'build']
        >>> hooks(subprocess_starting).remove(forbid)
    """


def _imports(event: Listener) -> Plug:
    """Return the plug for the audit event and for `importlib.import_module`, which CPython audits from 3.15 on."""

    def listener(name: str, filename: object = None, *_: object) -> None:
        # An extension module is audited a second time, with its file, as it is loaded.
        if filename is None:
            event(name)

    def import_module(name: str, package: str | None) -> None:
        if name.startswith("."):
            if not package:
                return  # `import_module` refuses it
            from importlib.util import resolve_name

            name = resolve_name(name, package)
        if name not in sys.modules:
            notify(listener, listener, name)

    audited = Audited("import", listener, "aspecthook.events:module_importing")
    if sys.version_info >= (3, 15):
        return audited
    return Several(audited, PreInside("importlib:import_module", import_module))


@wired(_imports)
def module_importing(name: str) -> None:
    """A module is about to be imported for the first time; a subscriber that raises forbids it.

    Called once for each ``import`` statement, ``__import__`` and `importlib.import_module`; not for the packages on the
    way of a dotted name.

    Args:
        name: The full name of the module.

    Example:
        >>> @module_importing.on
        ... def forbid(name):
        ...     if name.partition(".")[0] == "telnetlib3":
        ...         raise ImportError(f"{name} is not to be used here")
        >>> import telnetlib3
        Traceback (most recent call last):
          ...
        ImportError: telnetlib3 is not to be used here
        >>> hooks(module_importing).remove(forbid)
    """
