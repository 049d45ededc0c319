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
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType, FunctionType
from typing import Any, final

from aspecthook import __version__
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import mount_of
from aspecthook._errors import AspecthookError, WarningsTo, WeaveError, qualified
from aspecthook.record import record
from aspecthook.weave._pointcut import Pointcut
from aspecthook.weave._reasons import why_unknown, why_waiting

from ._names import of_main

_FORK_WAITS = 1.0  # seconds, for a thread of ours that is at work

# In the order in which they came; replaced in one step.
_attachments: tuple[Attachment, ...] = ()


def serve(connection: socket.socket, folder: str) -> None:
    """Do what the other side asks for; in a thread of our own, which may end before that is over."""
    request = _receive(connection)
    if request is not None and request["version"] == __version__ and request["do"] == "attach":
        Attachment(connection, folder, request).begin()
        return
    with connection:
        if request is None:
            pass
        elif request["version"] != __version__:
            error = f"it has aspecthook {__version__}, and this is {request['version']}; use the same version"
            _send(connection, {"error": error})
        else:
            found = _attachments
            for one in found:
                one.detach()
            _send(connection, {"detached": len(found), "left": [name for one in found for name in one.left]})


@final
class Attachment:
    """What one `aspecthook attach` has put into this process, and the thread that waits for its end."""

    def __init__(self, connection: socket.socket, folder: str, request: dict[str, Any]) -> None:
        self._connection = connection
        self._folder = folder
        self._request = request
        self._woven = ExitStack()
        # The code that each function had before; what has no Python code is counted.
        self._codes: weakref.WeakKeyDictionary[FunctionType, CodeType] = weakref.WeakKeyDictionary()
        self._others: set[int] = set()
        self.left: list[str] = []  # the functions that still had our code when it was over
        self._notes: list[str] = []
        self._why = ""  # it ends before the other side has left
        self._parks = False  # our thread is to end, since the program forks
        self._parked = False  # it has ended
        self._wake = socket.socketpair()  # a byte wakes our thread
        self._handle: Any = None  # of that thread, to join it: `threading` would show it to the program
        self._ready = _thread.allocate_lock()  # held until all is woven
        self._over = _thread.allocate_lock()  # held until nothing is left
        self._ready.acquire()
        self._over.acquire()

    # In our thread

    def begin(self) -> None:
        """Weave, and stay until the other side leaves."""
        _add(self)
        try:
            with WarningsTo(self._note):
                self._weave()
            _send(self._connection, {"woven": self._count(), "why": self._why_none(), "notes": self._taken_notes()})
        except Exception as error:  # also one of the modules that a file names
            words = "; ".join([str(error), *getattr(error, "__notes__", ())])
            lead = "" if isinstance(error, AspecthookError) else f"{type(error).__name__}: "
            self._end({"error": f"{lead}{words}", "notes": self._taken_notes()})
        else:
            if self._request["keep"]:
                self._connection.close()
            else:
                self._start(self._stay)
        finally:
            self._ready.release()

    def _weave(self) -> None:
        request = self._request
        if request["config"] is not None:
            self._weave_config(request["config"])
        if request["targets"]:
            calls = os.path.join(self._folder, "calls", "")
            tape = record(*map(of_main, request["targets"]), where=self._note_code, to=calls, **request["options"])
            self._woven.callback(tape.stop)
            atexit.register(self._woven.close)  # it writes the calls that have not ended

    def _count(self) -> int:
        """Return how many functions have been woven so far."""
        return len(self._codes) + len(self._others)

    def _why_none(self) -> str:
        """Return why nothing is woven, if so.

        Raises:
            WeaveError: It never will be.
        """
        if self._count():
            return ""
        terms = [term for target in self._request["targets"] for term in Pointcut(target).terms]
        never = [why for term in terms if (why := why_unknown(term)) is not None]
        if terms and len(never) == len(terms):
            self._notes.clear()  # they say the same
            raise WeaveError(f"nothing is woven: {'; '.join(never)}")
        return "; ".join(map(why_waiting, terms))

    def _weave_config(self, file: str) -> None:
        from ._config import apply, read_config

        folder = str(os.path.dirname(file))  # it may have modules that the file names
        sys.path.append(folder)
        try:
            for weaving in apply(read_config(file)):
                self._woven.callback(weaving.remove)
                for mount in weaving.mounts:
                    function = mount.ref()
                    if function is not None:
                        self._codes[function] = mount.code()
        finally:
            for place in [place for place, one in enumerate(sys.path) if one is folder]:  # the program may have it too
                del sys.path[place]

    def _note_code(self, function: object) -> bool:
        if isinstance(function, FunctionType):
            self._codes.setdefault(function, function.__code__)
        else:
            self._others.add(id(function))
        return True

    def _stay(self) -> None:
        """Wait until the other side leaves, or the program forks."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.register(self._wake[0], select.POLLIN)
        ended = False
        while not ended and not self._parks:
            ready = [number for number, _ in poll.poll()]
            if self._wake[0].fileno() in ready:
                self._wake[0].recv(64)
            if self._notes:
                _try_send(self._connection, {"notes": self._taken_notes()})
            ended = bool(self._why) or (self._connection.fileno() in ready and _is_closed(self._connection))
        if ended:
            self._end({})

    def _end(self, answer: dict[str, Any]) -> None:
        """Remove everything, and say so."""
        self._remove()
        if not _try_send(self._connection, {"off": self._count(), "left": self.left, "why": self._why, **answer}):
            shutil.rmtree(self._folder, ignore_errors=True)  # the other side was killed, and has left it
        self._connection.close()

    # In any thread

    def _remove(self) -> None:
        atexit.unregister(self._woven.close)
        try:
            self._woven.close()
        except Exception as error:  # the rest is removed all the same, and the other side says so
            self._notes.append(f"{type(error).__name__}: {error}")
        self.left = [qualified(function) for function, code in list(self._codes.items()) if _is_left(function, code)]
        _drop(self)
        for one in self._wake:
            one.close()
        self._over.release()

    def detach(self) -> None:
        """Remove everything, and return when nothing is left."""
        if self._request["keep"]:
            if _drop(self):
                self._remove()
        else:
            self._why = "aspecthook detach"
            self._wake_up()
            self._over.acquire()
            self._over.release()

    def _wake_up(self) -> None:
        try:
            self._wake[1].send(b".")
        except OSError:  # it is over
            pass

    def _note(self, message: str, _: type[Warning]) -> bool:
        """Take a warning, which the program must not see as long as there is another side."""
        taken = not self._request["keep"] or self._ready.locked()
        if taken:
            self._notes.append(message)
            self._wake_up()
        return taken

    def _taken_notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes

    # Forks. A thread of ours would make Python warn of them, and a child would not have it.

    def park(self) -> None:
        """End our thread, before a fork."""
        if self._ready.acquire(timeout=_FORK_WAITS):
            self._ready.release()
        if self._handle is not None:
            self._parks = True
            self._wake_up()
            self._handle.join(_FORK_WAITS)
            self._parks = self._parked = self._handle.is_done()

    def unpark(self) -> None:
        """Start our thread again, in the parent."""
        if self._parked:
            self._parks = self._parked = False
            self._start(self._stay)

    def follow(self) -> None:
        """Go on in a child, with a connection of its own."""
        if self._request["keep"]:
            return
        self._parks = self._parked = False
        for one in (self._connection, *self._wake):
            one.close()
        self._wake = socket.socketpair()
        self._over = _thread.allocate_lock()
        self._over.acquire()
        self._start(self._follow)

    def _start(self, what: Callable[[], None]) -> None:
        try:
            self._handle = getattr(_thread, "start_joinable_thread")(what, daemon=True)
        except RuntimeError:  # there are too many threads
            self._end({})

    def _follow(self) -> None:
        try:
            self._connection = socket.socket(socket.AF_UNIX)
            self._connection.connect(os.path.join(self._folder, "socket"))
        except OSError:  # the other side has left meanwhile
            self._end({})
        else:
            self._stay()


def _is_left(function: FunctionType, code: CodeType) -> bool:
    """Whether a function has code of ours without having hooks; somebody else may have given it another code."""
    return (
        function.__code__ is not code
        and mount_of(function) is None
        and function.__code__.co_filename.startswith("<aspecthook ")
    )


def _is_closed(connection: socket.socket) -> bool:
    try:
        return not connection.recv(64)
    except OSError:
        return True


@under_lock
def _add(attachment: Attachment) -> None:
    global _attachments  # noqa: PLW0603  # one tuple, replaced under the lock
    _attachments = (*_attachments, attachment)


@under_lock
def _drop(attachment: Attachment) -> bool:
    global _attachments  # noqa: PLW0603  # likewise
    known = attachment in _attachments
    _attachments = tuple([one for one in _attachments if one is not attachment])
    return known


def _receive(connection: socket.socket) -> dict[str, Any] | None:
    """Return the request, or None if the other side has left."""
    data = b""
    while not data.endswith(b"\n"):
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    request: dict[str, Any] = json.loads(data)
    return request


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _try_send(connection: socket.socket, message: dict[str, Any]) -> bool:
    """Send a message. Return whether there still is another side."""
    try:
        _send(connection, message)
    except OSError:
        return False
    return True


def _before_fork() -> None:
    for one in _attachments:
        one.park()


def _after_fork_in_parent() -> None:
    for one in _attachments:
        one.unpark()


def _after_fork_in_child() -> None:
    for one in _attachments:
        one.follow()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
