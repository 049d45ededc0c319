"""The side of `aspecthook attach` that is in the process: it records or weaves, until the other side leaves.

The invariant: an attachment ends with its connection, in whatever way that ends, and then nothing of it is left. Only
what is woven from a file may stay without a connection, until `aspecthook detach`.
"""

from __future__ import annotations

import _thread
import atexit
import json
import os
import select
import shutil
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, final

from aspecthook import __version__
from aspecthook._errors import AspecthookError, WarningsTo, WeaveError
from aspecthook.record import record
from aspecthook.weave._pointcut import Pointcut
from aspecthook.weave._reasons import why_unknown, why_waiting

from ._names import of_main

_FORK_WAITS = 1.0  # seconds, for a thread of ours that is at work
_attachments: list[Attachment] = []


def serve(connection: socket.socket, folder: str) -> None:
    """Do what the other side asks for; in a thread of our own, which may end before that is over."""
    with connection.makefile() as lines:
        line = lines.readline()
    request: dict[str, Any] = json.loads(line or "{}")  # there is none if the other side has left
    version = request.get("version")
    if version != __version__:
        error = f"it has aspecthook {__version__}, and this is {version}; use the same version"
        _send(connection, {"error": error})
        connection.close()
    elif request["do"] == "attach":
        Attachment(connection, folder, request).begin()
    else:
        found = _attachments.copy()
        for one in found:
            one.end(why="aspecthook detach")
        _send(connection, {"detached": len(found)})
        connection.close()


@final
class Attachment:
    """What one `aspecthook attach` has put into this process, and the thread that waits for its end.

    Children of a fork have it too, with a thread of their own. They share the connection, so that the other side has
    seen the end of it when the last of them has detached.
    """

    def __init__(self, connection: socket.socket, folder: str, request: dict[str, Any]) -> None:
        self._connection = connection
        self._folder = folder
        self._request = request
        self._woven = ExitStack()
        self._functions: set[int] = set()  # the ids of what was woven, to count it
        self._lock = _thread.allocate_lock()  # held while something is woven or removed
        self._wake = socket.socketpair()  # a byte wakes our thread
        self._thread: Any = None  # a handle of it: `threading` would show it to the program
        self._parks = False  # our thread is to end, since the program forks

    def begin(self) -> None:
        """Weave, and start the thread that stays until the other side leaves."""
        _attachments.append(self)
        error = ""
        with self._lock:
            try:
                with WarningsTo(self._note):
                    why = self._weave()
                _send(self._connection, {"woven": len(self._functions), "why": why})
                if self._request["keep"]:
                    self._connection.close()
                else:
                    self._start()
            except Exception as exc:  # also one of the modules that a file names
                words = "; ".join([str(exc), *getattr(exc, "__notes__", ())])
                error = words if isinstance(exc, AspecthookError) else f"{type(exc).__name__}: {words}"
        if error:
            self.end(error)

    def _weave(self) -> str:
        """Weave what is asked for. Return why that is nothing so far, if so.

        Raises:
            WeaveError: It will never be more than nothing.
        """
        targets: list[str] = self._request["targets"]
        terms = [term for target in targets for term in Pointcut(target).terms]
        never = [why for term in terms if (why := why_unknown(term)) is not None]
        if terms and len(never) == len(terms):
            raise WeaveError(f"nothing is woven: {'; '.join(never)}")
        if self._request["config"] is not None:
            from ._config import apply

            for weaving in apply(self._request["config"]):
                self._woven.callback(weaving.remove)
                self._functions.update(map(id, weaving.mounts))
        if targets:
            calls = os.path.join(self._folder, "calls", f"{os.getpid()}.jsonl")
            tape = record(*map(of_main, targets), where=self._count, to=calls, **self._request["options"])
            self._woven.callback(tape.stop)
            atexit.register(self._woven.close)  # it writes the calls that have not ended
        return "" if self._functions else "; ".join(map(why_waiting, terms))

    def _count(self, function: object) -> bool:
        self._functions.add(id(function))
        return True

    def _note(self, message: str, _: type[Warning]) -> bool:
        """Take a warning, which the program must not see as long as there is another side."""
        return _send(self._connection, {"note": message})

    def _start(self) -> None:
        def stay() -> None:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            poll = select.poll()
            poll.register(self._connection, select.POLLIN)  # it has nothing to read but its end
            poll.register(self._wake[0], select.POLLIN)
            poll.poll()
            if not self._parks:
                self.end()
                self._close()

        self._thread = getattr(_thread, "start_joinable_thread")(stay, daemon=True)

    def _wake_up(self) -> None:
        with suppress(OSError):  # it is over
            self._wake[1].send(b".")

    def end(self, error: str = "", why: str = "") -> None:
        """Remove everything and say so, once."""
        with self._lock:
            if self not in _attachments:
                return
            atexit.unregister(self._woven.close)
            try:
                self._woven.close()
            except Exception as exc:  # the rest is removed all the same
                error = f"{type(exc).__name__}: {exc}"
            _attachments.remove(self)
            if not _send(self._connection, {"off": len(self._functions), "why": why, "error": error}):
                shutil.rmtree(self._folder, ignore_errors=True)  # the other side was killed, and has left it
            if self._thread is None:
                self._close()
            else:
                self._wake_up()

    def _close(self) -> None:
        for one in (self._connection, *self._wake):
            one.close()

    def park(self) -> None:
        """End our thread before a fork: Python would warn of it, and a child would not have it."""
        if self._lock.acquire(timeout=_FORK_WAITS):
            self._lock.release()
        if self._thread is not None:
            self._parks = True
            self._wake_up()
            self._thread.join(_FORK_WAITS)

    def unpark(self) -> None:
        """Start our thread again after a fork."""
        if self._thread is not None and self._thread.is_done():
            self._parks = False
            for one in self._wake:
                one.close()
            self._wake = socket.socketpair()  # a child has one of its own
            try:
                self._start()
            except RuntimeError:  # there are too many threads
                self._thread = None
                self.end()

    def unpark_in_child(self) -> None:
        """Do so in the child."""
        self._lock = _thread.allocate_lock()  # another thread of the parent may have held it
        self.unpark()


def _send(connection: socket.socket, message: dict[str, Any]) -> bool:
    """Send a message. Return whether there still is another side."""
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        return False
    return True


def _at_fork(step: Callable[[Attachment], None]) -> Callable[[], None]:
    def call() -> None:
        for one in _attachments.copy():
            step(one)

    return call


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_at_fork(Attachment.park),
        after_in_parent=_at_fork(Attachment.unpark),
        after_in_child=_at_fork(Attachment.unpark_in_child),
    )
