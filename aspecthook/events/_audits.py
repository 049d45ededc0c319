"""The audit events of PEP 578: one permanent dispatcher for all, that costs an empty call while nobody listens.

The invariant: the dispatcher's code is that of an empty function while the table is empty, and a look into the table
while it is not, however many names are in it.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from os import fsdecode
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, final

from aspecthook._errors import HookTypeError, MountError, brief

from ._pre_inside import Inside
from ._quiet import tell
from ._wiring import Plug, Several, wired, wired_copy

if TYPE_CHECKING:
    import socket as sockets

    from aspecthook._typing import Event

    # Any: each audit event has arguments of its own.
    AuditEvent = Event[..., list[Any]]

# Any: likewise.
Told: TypeAlias = Callable[..., Any]

_table: dict[str, tuple[Told, ...]] = {}


def _dispatch(name: str, args: tuple[Any, ...], table: dict[str, tuple[Told, ...]] = _table, tell: Told = tell) -> None:
    # All that is needed here is bound: it runs while the interpreter empties its modules, too.
    for told in table.get(name, ()):
        tell(told, told, *args)


# The dispatcher's three codes; it has globals of its own, which nobody empties.


def _silent(name: str, args: tuple[Any, ...]) -> None: ...


def _looking(name: str, args: tuple[Any, ...]) -> None:
    if name in _table:
        _dispatch(name, args)


def _answering(name: str, args: tuple[Any, ...]) -> None:
    if name == "aspecthook.listening":
        args[0].append(name)


_GLOBALS = {"__name__": __name__, "__builtins__": vars(builtins), "_table": _table, "_dispatch": _dispatch}
_hook: FunctionType | None = None


def _installed(label: str) -> FunctionType:
    """Give the dispatcher, which is installed once; under the lock.

    Raises:
        MountError: Another audit hook keeps it out, about which `sys.addaudithook` says nothing.
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
                f"{label} cannot be connected: an audit hook that was there before lets no other in; add the first "
                f"subscriber before that hook"
            ) from cause
        _hook = hook
    return _hook


@final
class Audited:
    """The plug of an audit event: its name is in the table."""

    __slots__ = ("_label", "_name", "_told")

    def __init__(self, name: str, told: Told, label: str) -> None:
        self._name = name
        self._told = told
        self._label = label

    def prepare(self) -> None:
        """Need nothing."""

    def connect(self) -> None:
        """Be in the table."""
        hook = _installed(self._label)
        told = _table.get(self._name, ())
        if self._told not in told:
            _table[self._name] = (*told, self._told)
        hook.__code__ = _looking.__code__

    def disconnect(self) -> None:
        """Be in it no more."""
        left = tuple([one for one in _table.get(self._name, ()) if one is not self._told])
        if left:
            _table[self._name] = left
        else:
            _table.pop(self._name, None)
        if not _table and _hook is not None:
            _hook.__code__ = _silent.__code__

    @property
    def displaced(self) -> bool:
        """Whether it is another's: an audit hook cannot be taken off, nor anything put over it."""
        return False


def _audited(name: str) -> Callable[[Told], Plug]:
    return lambda event: Audited(name, event, f"aspecthook.events:{event.__name__}")


_events: dict[str, Any] = {}


def audit(name: str) -> AuditEvent:
    """Give the event of an audit event of any name: always the same one for the same name.

    Python and its libraries raise audit events (PEP 578) before they do what others may want to know of, or to forbid;
    programs may raise their own with `sys.audit`. A subscriber is given the arguments as ``args``; what it raises goes
    to whoever is about to do it, who then does not. Subscribers are not told of what they themselves do meanwhile.

    Args:
        name: Such as ``"os.remove"``; all are listed in the "Audit events table" of Python's documentation.

    Raises:
        HookTypeError: It is no string.

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
        raise HookTypeError(f"{brief(name)} names no audit event; give a string such as 'os.remove'")
    found = _events.get(name)
    if found is None:
        label = f"aspecthook.events:audit({name!r})"
        made = wired_copy(_happening, label, lambda event: Audited(name, event, label))
        found = _events.setdefault(name, made)
    given: AuditEvent = found
    return given


def _happening(*args: Any) -> None:
    """An audit event is raised."""


@wired(_audited("open"))
def file_opening(path: str | bytes | int, mode: str | None, flags: int) -> None:
    """A file is about to be opened, by `open` or `os.open`; a subscriber that raises forbids it.

    This keeps programs from mistakes. It is no sandbox: whoever wants to can get round it.

    Args:
        path: As it was given.
        mode: As it was given to `open`; None from `os.open`.
        flags: Those of the system.

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


@wired(_audited("socket.connect"))
def socket_connecting(socket: sockets.socket, address: Any) -> None:
    """A socket is about to connect; a subscriber that raises forbids it.

    Args:
        socket: The socket.
        address: As it was given: for the internet a tuple of host and port.

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


# The audit events that tell of a program, and what each of their arguments is.
_STARTS = {
    "subprocess.Popen": ("executable", "command", "cwd", "env"),
    "os.system": ("command",),
    "os.posix_spawn": ("executable", "command", "env"),
    "os.spawn": ("mode", "executable", "command", "env"),  # on Windows alone
    "os.exec": ("executable", "command", "env"),
    "os.startfile": ("command",),
    "pty.spawn": ("command",),
}
# How some of these do it: the first audit event has told of it already.
_INSIDE = {"os.posix_spawn": "subprocess", "os.exec": "pty"}


def _starts(event: Told) -> Plug:
    """Connect the event to all audit events that tell of a program."""

    def plug(name: str, words: tuple[str, ...]) -> Audited:
        def told(*args: Any) -> None:
            if name in _INSIDE and _caller() == _INSIDE[name]:
                return
            known: dict[str, Any] = dict(zip(words, args, strict=False))
            if isinstance(known["command"], bytes):  # as `os.system` has it
                known["command"] = fsdecode(known["command"])
            tell(event, event, *[known.get(word) for word in ("executable", "command", "cwd", "env")])

        return Audited(name, told, "aspecthook.events:subprocess_starting")

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

    Told of all ways that Python audits: `subprocess` (and so asyncio and `os.popen`), `os.system`, `os.posix_spawn`,
    `os.startfile`, `pty.spawn`, `os.spawnv` and the like, and `os.execv` and the like, which put the program in the
    place of this process. On POSIX `os.spawnv` forks and then does that: it is told in the child. Nobody is told of
    what `multiprocessing` starts, nor of what a C library starts by itself.

    Args:
        executable: The program, as `subprocess.Popen` works it out; None where others do, as for `os.system`.
        command: Its arguments, a list; a string for a shell, as it was given.
        cwd: As it was given; None for this process's own.
        env: As it was given; None for this process's own.

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


def _imports(event: Told) -> Plug:
    """Connect the event to the audit event, and to what CPython before 3.15 forgets to audit."""

    def told(name: str, filename: object = None, *_: object) -> None:
        # The file of an extension module is audited a second time, as it is loaded.
        if filename is None:
            event(name)

    def import_module(name: str, package: str | None) -> None:
        if name.startswith("."):
            if not package:
                return  # it will be refused
            from importlib.util import resolve_name

            name = resolve_name(name, package)
        if name not in sys.modules:
            tell(told, told, name)

    audited = Audited("import", told, "aspecthook.events:module_importing")
    if sys.version_info >= (3, 15):
        return audited  # what is imported by a call is audited there too
    return Several(audited, Inside("importlib:import_module", import_module))


@wired(_imports)
def module_importing(name: str) -> None:
    """A module that is not there yet is about to be imported; a subscriber that raises forbids it.

    Told of ``import`` statements, ``__import__`` and `importlib.import_module`, once each; not of the packages that a
    dotted name goes through.

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
