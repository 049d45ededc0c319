"""Audit events (PEP 578): one permanent dispatcher for all, which costs an empty call while nobody has subscribed.

The invariant: the dispatcher's code is that of an empty function while the table is empty, and one look into the table
otherwise, however many names it has.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from functools import partial
from os import fsdecode
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, final

from aspecthook._errors import HookTypeError, MountError, brief

from ._pre_inside import PreInside
from ._quiet import notify
from ._wiring import Plug, Several, wired, wired_copy

if TYPE_CHECKING:
    import socket as sockets

    from aspecthook._typing import Event

    # Any: each audit event has arguments of its own.
    AuditEvent = Event[..., list[Any]]

# Any: likewise.
Listener: TypeAlias = Callable[..., Any]

_table: dict[str, tuple[Listener, ...]] = {}


# The interpreter calls this also while it empties its modules, so that all it needs is a default.
def _dispatch(
    name: str, args: tuple[Any, ...], table: dict[str, tuple[Listener, ...]] = _table, notify: Listener = notify
) -> None:
    for listener in table.get(name, ()):
        notify(listener, listener, *args)


# The codes of the dispatcher; its globals are its own, which nobody empties.


def _silent(name: str, args: tuple[Any, ...]) -> None: ...


def _looking(name: str, args: tuple[Any, ...]) -> None:
    if name in _table:
        _dispatch(name, args)


def _answering(name: str, args: tuple[Any, ...]) -> None:
    if name == "aspecthook.listening":
        args[0].append(name)


_GLOBALS = {"__name__": __name__, "__builtins__": vars(builtins), "_table": _table, "_dispatch": _dispatch}
_hook: FunctionType | None = None


def _install(label: str) -> FunctionType:
    """Return the dispatcher, which is installed once; under the lock.

    Raises:
        MountError: Another audit hook refuses it, which `sys.addaudithook` does not report.
    """
    global _hook  # noqa: PLW0603  # there is one, for good
    if _hook is None:
        hook = FunctionType(_answering.__code__, _GLOBALS, "audit_hook")
        heard: list[str] = []
        cause: Exception | None = None
        try:
            sys.addaudithook(hook)
            sys.audit("aspecthook.listening", heard)
        except Exception as error:
            cause = error
        hook.__code__ = _silent.__code__
        if not heard:
            raise MountError(
                f"{label} cannot be connected: an audit hook that was there before refuses others; add the first "
                f"subscriber before that hook"
            ) from cause
        _hook = hook
    return _hook


@final
class Audited(Plug):
    """The plug of an audit event: a row in the table."""

    __slots__ = ("_label", "_listener", "_name")

    def __init__(self, name: str, listener: Listener, label: str = "") -> None:
        self._name = name
        self._listener = listener
        self._label = label or f"aspecthook.events:{listener.__name__}"

    def connect(self) -> None:
        """Add the listener to the table."""
        hook = _install(self._label)
        row = _table.get(self._name, ())
        if self._listener not in row:
            _table[self._name] = (*row, self._listener)
        hook.__code__ = _looking.__code__

    def disconnect(self) -> None:
        """Remove the listener from the table."""
        left = tuple([one for one in _table.get(self._name, ()) if one is not self._listener])
        if left:
            _table[self._name] = left
        else:
            _table.pop(self._name, None)
        if not _table and _hook is not None:
            _hook.__code__ = _silent.__code__


_events: dict[str, Any] = {}


def audit(name: str) -> AuditEvent:
    """Return the event of an audit event of any name: always the same one for the same name.

    Python raises audit events (PEP 578) before it does what others may want to know of, or to forbid; programs raise
    their own with `sys.audit`. A subscriber gets the arguments as ``args``. If it raises, the exception goes to the
    caller, and what was about to be done is not done. Subscribers are not notified of what they do themselves.

    Args:
        name: Such as ``"os.remove"``; Python's documentation lists all in the "Audit events table".

    Raises:
        HookTypeError: The name is not a string.

    Example:
        >>> import sys
        >>> @audit("shop.sell").on
        ... def forbid(args):
        ...     item, age = args
        ...     if age < 18:
        ...         raise PermissionError(item)
        >>> sys.audit("shop.sell", "cider", 20)
        >>> sys.audit("shop.sell", "cider", 16)
        Traceback (most recent call last):
          ...
        PermissionError: cider
        >>> hooks(audit("shop.sell")).remove(forbid)
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # not all callers are type-checked
        raise HookTypeError(f"{brief(name)} is not the name of an audit event; give a string such as 'os.remove'")
    found = _events.get(name)
    if found is None:
        label = f"aspecthook.events:audit({name!r})"
        made = wired_copy(_raised, label, partial(Audited, name, label=label))
        found = _events.setdefault(name, made)
    given: AuditEvent = found
    return given


def _raised(*args: Any) -> None:
    """An audit event is raised."""


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
            if name in _INSIDE and _caller() == _INSIDE[name]:
                return
            known: dict[str, Any] = dict(zip(words, args, strict=False))
            if isinstance(known["command"], bytes):  # from `os.system`
                known["command"] = fsdecode(known["command"])
            notify(event, event, *[known.get(word) for word in ("executable", "command", "cwd", "env")])

        return Audited(name, listener, "aspecthook.events:subprocess_starting")

    return Several(*[plug(name, words) for name, words in _STARTS.items()])


def _caller() -> object:
    """Return the name of the module that raises the audit event."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not _looking.__code__:
        frame = frame.f_back
    return frame.f_back.f_globals.get("__name__") if frame is not None and frame.f_back is not None else None


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
