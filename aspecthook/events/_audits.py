"""Audit events (PEP 578) under any name: one permanent dispatcher, which costs an empty call without subscribers.

The invariant: the dispatcher's code is that of an empty function while the table is empty, and one look into the table
otherwise, however many names it has.
"""

from __future__ import annotations

import builtins
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

from aspecthook._errors import HookTypeError, MountError, brief

from ._slots import Notify, notify
from ._wired import Plug, wired

if TYPE_CHECKING:
    from aspecthook._typing import Event

    # Any: each audit event has arguments of its own.
    AuditEvent = Event[..., list[Any]]

_table: dict[str, Notify] = {}


# The codes of the dispatcher. It has globals of its own, which stay when the interpreter empties its modules.


def _silent(name: str, args: tuple[Any, ...]) -> None: ...


def _looking(name: str, args: tuple[Any, ...]) -> None:
    listener = _table.get(name)
    if listener is not None:
        notify(listener, *args)


def _answering(name: str, args: tuple[Any, ...]) -> None:
    if name == "aspecthook.listening":
        args[0].append(name)


_GLOBALS = {"__name__": __name__, "__builtins__": vars(builtins), "_table": _table, "notify": notify}
_hook: FunctionType | None = None


def _install(name: str) -> FunctionType:
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
                f"aspecthook.events:audit({name!r}) cannot be connected: an audit hook that was there before refuses "
                f"others; add the first subscriber before that hook"
            ) from cause
        _hook = hook
    return _hook


def _plug(name: str, listener: Notify) -> Plug:
    """Return the plug of an audit event: a row in the table."""

    def connect() -> None:
        hook = _install(name)
        _table[name] = listener
        hook.__code__ = _looking.__code__

    def disconnect() -> None:
        _table.pop(name, None)
        if not _table and _hook is not None:
            _hook.__code__ = _silent.__code__

    return Plug(connect, disconnect)


_events: dict[str, Any] = {}


def audit(name: str) -> AuditEvent:
    """Return the event for one of Python's audit events; the same name always gives the same event.

    Python raises audit events (PEP 578) before actions that others may want to log or forbid; programs raise their own
    with `sys.audit`. A subscriber gets the arguments as ``args``. If it raises, the exception goes to the caller, and
    the action does not happen. Subscribers are not notified of their own actions. This prevents mistakes, but it is
    not a sandbox: hostile code can get around it.

    Args:
        name: A name such as ``"open"``, ``"socket.connect"``, ``"subprocess.Popen"`` or ``"import"``. Python's
            documentation lists all names and their arguments in the "Audit events table".

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

        @wired(f"audit({name!r})", lambda event: [_plug(name, event)])
        def raised(*args: Any) -> None:
            """An audit event is raised."""

        found = _events.setdefault(name, raised)
    given: AuditEvent = found
    return given
