"""Attaching to a running process: a script is sent to it (PEP 768), which connects to us.

The invariant: the process is attached as long as the connection is open. It detaches itself when that is closed, also
if we are killed.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, final

import aspecthook
from aspecthook._errors import AspecthookError, plural, printable

from . import _arrival
from ._program import signals
from ._report import View

_TRACE = "start the program under it: aspecthook trace 'shop.*:*' -- app.py"
# The main thread of the process runs it between two bytecodes, and must not be kept from its work.
_SCRIPT = """\
try:
    import _thread
    _thread.start_new_thread(exec, ("try: exec(source)\\nexcept BaseException: pass", {names!a}))
except Exception:
    pass
"""
_RESEND_AFTER = 1.0  # seconds after which the script is sent again: another one may have been sent over it
_DETACH_WITHIN = 10.0  # seconds in which a process detaches itself
_WAITS = (
    "its main thread has to run Python code for that, and may be waiting in C code (for a request, a lock, another "
    "thread, or a long computation)"
)


class AttachError(AspecthookError, RuntimeError):
    """A process that cannot be attached to; the message says why, and what to do instead."""


def _owner(process: int) -> int:
    """Return the effective user of a process, which its files below /proc need not belong to."""
    status = Path(f"/proc/{process}/status")
    if status.exists():
        return int(re.findall(r"^Uid:\s+\d+\s+(\d+)", status.read_text("utf-8", "replace"), re.MULTILINE)[0])
    ps = ["ps", "-o", "uid=", "-p", str(process)]
    return int(subprocess.run(ps, capture_output=True, text=True, check=False).stdout or os.geteuid())


def _send(process: int, script: str) -> None:
    """Send a script to a process, whose main thread runs it as soon as it can; an `AttachError` says what to do."""
    try:
        getattr(sys, "remote_exec")(process, script)
    except (OSError, RuntimeError) as error:
        raise AttachError(_why(process, error)) from error


def _why(process: int, error: BaseException) -> str:
    with suppress(PermissionError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return f"there is no process {process}; see ps -x"
    if "not enabled" in str(error):
        return (
            f"process {process} or this one was started with -X disable-remote-debug or PYTHON_DISABLE_REMOTE_DEBUG; "
            f"start it without, or {_TRACE}"
        )
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, PermissionError):
            return (
                f"the operating system does not let you into process {process}: {inner}; run aspecthook as its user or "
                f"as root, or see ptrace(2), 'kernel.yama.ptrace_scope'"
            )
        inner = inner.__cause__ or inner.__context__
    return (
        f"process {process} cannot be attached to: {error}; it has to run the same Python as this one, "
        f"{os.path.realpath(sys.executable)}; otherwise {_TRACE}"
    )


@final
class Attached:
    """A process that is attached to. Its children share the connection, which ends with the last of them.

    Args:
        process: Its number.
        connection: To the process.
        folder: Where it writes.
    """

    def __init__(self, process: int, connection: socket.socket, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.open = True
        self.wove = False  # whether any function was woven so far
        self._connection = connection
        self._data = b""

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send the request, and return the answer."""
        with suppress(OSError):  # the other side has said what it has to say, and left
            self._connection.sendall(json.dumps({"version": aspecthook.__version__, **request}).encode() + b"\n")
        while self.open:
            for answer in self.receive(1.0):
                if answer.get("error"):
                    raise AttachError(f"process {self.process}: {answer['error']}")
                if "woven" in answer or "detached" in answer:
                    return answer
        raise AttachError(f"process {self.process} has ended")

    def receive(self, seconds: float) -> list[dict[str, Any]]:
        """Wait so long for messages, show what is for the user, and return them."""
        self._connection.settimeout(max(0.001, seconds))
        try:
            data = self._connection.recv(65536)
        except TimeoutError:
            return []
        except ConnectionError:
            data = b""
        self.open = bool(data)
        *lines, self._data = (self._data + data).split(b"\n")
        answers: list[dict[str, Any]] = [json.loads(line) for line in lines]
        for answer in answers:
            self.wove = self.wove or bool(answer.get("woven") or answer.get("off"))
            if "note" in answer:
                _say(answer["note"])
        return answers

    def detach(self) -> bool:
        """Close our direction of the connection, at which all detach. Return whether they have, or ended."""
        with suppress(OSError):  # the other side has left first
            self._connection.shutdown(socket.SHUT_WR)
        until = monotonic() + _DETACH_WITHIN
        while self.open and monotonic() < until:
            self.receive(0.1)
        return not self.open


@contextmanager
def attached_to(process: int, wait: float) -> Generator[Attached]:
    """Attach to a process until the block ends.

    Args:
        process: Its number.
        wait: How many seconds to wait for it.
    """
    if not hasattr(sys, "remote_exec"):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise AttachError(f"attaching needs Python 3.14 or later, and this is Python {version}; {_TRACE}")
    if not hasattr(socket, "AF_UNIX"):
        raise AttachError(f"attaching needs Linux or macOS; {_TRACE}")
    folder = Path(tempfile.mkdtemp(prefix="aspecthook-"))  # which nobody else can read
    script = folder / "script.py"
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            try:
                listener.bind(str(folder / "socket"))
            except OSError as error:
                raise AttachError(f"{folder} is no place for a socket: {error}; set TMPDIR to a shorter one") from None
            listener.listen()
            script.touch(0o600)
            script.write_text(_script(str(folder)), "utf-8")
            (folder / "calls").mkdir()
            if os.geteuid() == 0:  # it belongs to whom it is for
                for one in (*folder.iterdir(), folder):
                    os.chown(one, _owner(process), -1)
            connection = _connect(process, listener, script, wait)
        with connection:
            yield Attached(process, connection, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _connect(process: int, listener: socket.socket, script: Path, wait: float) -> socket.socket:
    """Send the script until the process has connected."""
    root = f"/proc/{process}/root"
    if os.path.exists(f"{root}/") and not os.path.exists(f"{root}{script}"):
        raise AttachError(
            f"process {process} does not see our files: run aspecthook in the same container, or set TMPDIR to a "
            f"folder that both see"
        )
    begin = monotonic()
    try:
        times = 0
        while True:
            _send(process, str(script))
            listener.settimeout(max(0.001, min(_RESEND_AFTER, begin + wait - monotonic())))
            with suppress(TimeoutError):
                return listener.accept()[0]
            if monotonic() - begin >= wait:
                raise AttachError(
                    f"process {process} has not come to where it can be attached to in {wait:g} s; {_WAITS}"
                )
            times += 1
            if times == 2:
                _say(f"waiting for process {process}: {_WAITS}")
    except BaseException:
        with suppress(AttachError):  # Python would complain of a script that is gone when it is to be run
            _send(process, os.devnull)
        raise


def _script(folder: str) -> str:
    import wrapt

    homes = {module.__name__: str(Path(module.__file__ or "").parent) for module in (wrapt, aspecthook)}
    source = f"{inspect.getsource(_arrival)}\n\narrive({folder!a}, {homes!a})\n"
    return _SCRIPT.format(names={"__name__": "aspecthook arrives", "source": source})


def attach(
    process: int,
    request: Mapping[str, Any],
    *,
    seconds: float | None,
    wait: float,
    lines: int,
    outputs: Iterable[Path],
) -> int:
    """Trace a process until it ends, until Ctrl-C, or for some time; weave what a file names. Return the exit status.

    Args:
        process: Its number.
        request: What is traced (``targets``), the ``options`` of `record`, and the ``config`` with what is woven.
        seconds: That time. Without it, what is woven and nothing else stays until it is detached.
        wait: How many seconds to wait until the process is attached.
        lines: How many lines of the tree are shown.
        outputs: The files to write.
    """
    targets: Sequence[str] = request["targets"]
    keep = not targets and seconds is None
    with _ended_by_signals(), attached_to(process, wait) as attached:
        view = View(attached.folder / "calls", lines)
        until = inf if seconds is None else monotonic() + seconds
        ends = "Ctrl-C ends it" if seconds is None else f"for {seconds:g} s"
        try:
            answer = attached.ask({"do": "attach", "keep": keep, **request})
            if keep:
                ends = f"'aspecthook detach {process}' removes that"
            _say(f"attached to process {process}: {plural(answer['woven'], 'function')} woven; {ends}")
            if keep:
                return 0
            if answer["why"]:
                _say(f"nothing is woven yet: {answer['why']}")
            why = ""
            while attached.open and not why and (rest := until - monotonic()) > 0:
                why = "".join([one.get("why", "") for one in attached.receive(min(rest, 0.2))])
                view.look()
            if why:
                _say(f"process {process} was detached by {why}")
        except KeyboardInterrupt:
            pass
        ended = not attached.open
        detached = attached.detach()
        if attached.wove and targets:
            view.report(targets, outputs)
        elif not attached.wove:
            _say(f"nothing was woven in process {process}, and nothing is written")
        if not detached:
            _say(f"process {process} has not said that it is detached; it will be as soon as it runs")
        else:
            _say(f"process {process} has ended" if ended else f"detached from process {process}")
        return 0 if detached and attached.wove else 1


def detach(process: int, *, wait: float) -> int:
    """Remove everything that was attached to a process. Return the exit status."""
    with attached_to(process, wait) as attached:
        removed = attached.ask({"do": "detach"})["detached"]
    if removed:
        _say(f"{plural(removed, 'attachment')} removed from process {process}")
    else:
        _say(f"nothing is attached to process {process}")
    return 0 if removed else 1


def _say(text: str) -> None:
    with suppress(OSError):  # the terminal is gone
        print(f"aspecthook: {printable(text)}", file=sys.stderr, flush=True)


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Take SIGTERM and SIGHUP for Ctrl-C."""
    before = {one: signal.signal(one, signal.default_int_handler) for one in signals("SIGTERM", "SIGHUP")}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
