"""The side of `aspecthook attach` that is in the process: it records, until it is told to end.

No thread of ours stays in the process. It is told to end by another script, or it finds, as it records a call, that the
command is gone. The invariant: then nothing of the attachment is left.
"""

from __future__ import annotations

import _thread
import atexit
import os
import shutil
from time import monotonic, time
from typing import Any, final

from aspecthook import __version__
from aspecthook._errors import AspecthookError, WeaveError
from aspecthook.record._calls import RecordedCall
from aspecthook.record._json_lines import JsonLines
from aspecthook.record._tape import Tape, record
from aspecthook.weave._pointcut import Pointcut
from aspecthook.weave._reasons import why_unknown, why_waiting

from ._arrival import write
from ._begin import noted
from ._names import of_main

_LOOK_EVERY = 0.2  # seconds, whether the command is still there
_FORK_WAITS = 1.0  # seconds, for something that is woven or removed right now
_attachments: list[Attachment] = []
_lock = _thread.allocate_lock()  # held while something is woven or removed


def serve(folder: str, request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked for, and return the answer."""
    version = request["version"]
    if version != __version__:
        return {"error": f"it has aspecthook {__version__}, and this is {version}; use the same version"}
    if request["do"] == "attach":
        with _lock:
            return Attachment(folder, request).begin()
    ended = [one for one in _attachments.copy() if request["folder"] in (None, one.folder)]
    for one in ended:
        one.end(request["why"])
    return {"detached": len(ended)}


@final
class Attachment:
    """What one `aspecthook attach` has put into this process; children of a fork have it too."""

    def __init__(self, folder: str, request: dict[str, Any]) -> None:
        self.folder = folder
        self._request = request
        self._tape: Tape | None = None
        self._functions: set[int] = set()  # the ids of what was woven, to count it

    def begin(self) -> dict[str, Any]:
        """Weave. Return the answer."""
        _attachments.append(self)
        try:
            with noted(os.path.join(self.folder, "calls", str(os.getpid()))):
                why = self._weave()
        except Exception as exc:
            self._remove()
            words = "; ".join([str(exc), *getattr(exc, "__notes__", ())])
            return {"error": words if isinstance(exc, AspecthookError) else f"{type(exc).__name__}: {words}"}
        return {"woven": len(self._functions), "why": why}

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
        sink = _Watched(self, self._request["command"])
        self._tape = record(*map(of_main, targets), where=self._count, to=sink, **self._request["options"])
        atexit.register(self.end)  # it writes the calls that have not ended
        return "" if self._functions else "; ".join(map(why_waiting, terms))

    # As `where`, since `weave` calls it once for each function that it chooses.
    def _count(self, function: object) -> bool:
        self._functions.add(id(function))
        return True

    def end(self, why: str = "") -> None:
        """Remove everything, once, and say so."""
        with _lock:
            if self in _attachments:
                self._remove()
                write(os.path.join(self.folder, f"off-{os.getpid()}"), {"why": why, "woven": len(self._functions)})

    def end_alone(self) -> None:
        """End since the command was killed, and has left its folder."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove(self) -> None:
        _attachments.remove(self)
        atexit.unregister(self.end)
        if self._tape is not None:
            self._tape.stop()


@final
class _Watched(JsonLines):
    """The sink of an attachment: JSON lines, as long as the command is there to read them."""

    def __init__(self, attachment: Attachment, command: int) -> None:
        super().__init__(os.path.join(attachment.folder, "calls", f"{os.getpid()}.jsonl"), time())
        self._attachment, self._command, self._look_at = attachment, command, 0.0

    def write(self, call: RecordedCall) -> None:
        super().write(call)
        if monotonic() >= self._look_at:
            self._look_at = monotonic() + _LOOK_EVERY
            try:
                os.kill(self._command, 0)
            except ProcessLookupError:
                # In a thread: what is removed is called right now, and this one may hold any lock of the program.
                _thread.start_new_thread(self._attachment.end_alone, ())
            except OSError:  # it is another user's
                pass


def _before_fork() -> None:
    _lock.acquire(timeout=_FORK_WAITS)


def _after_fork() -> None:
    if _lock.locked():
        _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
