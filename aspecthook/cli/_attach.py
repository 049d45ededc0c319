"""Attaching to a running process: a script is sent to it (PEP 768), which connects to us.

The invariant: the process is attached as long as the connection is open. It detaches itself when that is closed, also
if we are killed.
"""

from __future__ import annotations

import inspect
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self, final

import aspecthook
from aspecthook._errors import plural, printable
from aspecthook.weave._pointcut import Pointcut

from . import _arrival
from ._config import read_config
from ._program import signals
from ._remote import AttachError, check, send
from ._report import View

# The main thread of the process runs it between two bytecodes, and must not be kept from its work.
_SCRIPT = """\
try:
    import _thread
    _thread.start_new_thread(exec, ({guarded!a}, {names!a}))
except Exception:
    pass
"""
_GUARDED = """\
try:
    exec(source)
except BaseException as error:
    try:
        with open(folder + "/error", "w") as file:
            file.write(f"{type(error).__name__}: {error}")
    except OSError:
        pass
"""
_RESEND_AFTER = 1.0  # seconds after which the script is sent again: another one may have been sent over it
_SAY_AFTER = 2.0  # seconds after which we say that we wait
_DETACH_WITHIN = 10.0  # seconds in which a process detaches itself


@final
class Attached:
    """A process that is attached to, until the `with` block ends.

    ``answer`` is what the process has answered to the request, ``folder`` where it writes. ``left`` are the functions
    that still had code of ours when it was detached, ``ever_wove`` says whether any function was woven.

    Args:
        process: Its number.
        request: What it is asked to do; see `_attached`.
        wait: How many seconds to wait for it.
        say: Takes a line for the user.
    """

    def __init__(self, process: int, request: Mapping[str, Any], *, wait: float, say: Callable[[str], None]) -> None:
        owner = check(process)
        self.process = process
        self.left: list[str] = []
        self.ever_wove = False
        self._say = say
        self._sent = 0  # how often the script was
        self._connections: list[_Connection] = []
        self.folder = Path(tempfile.mkdtemp(prefix="aspecthook-"))  # which nobody else can read
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listen(owner, loads=request["do"] != "detach")
            self._reach(wait)
            self.answer = self._ask(request)
        except BaseException:
            self.close()
            raise

    # Attaching

    def _listen(self, owner: int, *, loads: bool) -> None:
        try:
            self._listener.bind(str(self.folder / "socket"))
        except OSError as error:
            raise AttachError(f"{self.folder} is no place for a socket: {error}; set TMPDIR to a shorter one") from None
        self._listener.listen()
        self._listener.setblocking(False)
        script = self.folder / "script.py"
        script.touch(0o600)
        script.write_text(_script(str(self.folder), loads=loads), "utf-8")
        if owner != os.geteuid():  # we are root, and lend it to whom it is for
            for one in (script, self.folder / "socket", self.folder):
                os.chown(one, owner, -1)
        try:
            os.stat(f"/proc/{self.process}/root{script}")
        except FileNotFoundError:
            if not os.path.exists(f"/proc/{self.process}/root"):
                raise AttachError(f"process {self.process} has ended") from None
            if sys.platform == "linux":
                raise AttachError(
                    f"process {self.process} does not see our files: run aspecthook in the same container, or set "
                    f"TMPDIR to a folder that both see"
                ) from None
        except PermissionError:  # why it is not permitted is said as we send the script
            pass

    def _reach(self, wait: float) -> None:
        """Send the script until the process has connected."""
        begin = monotonic()
        told = False
        while not self._connections:
            waited = monotonic() - begin
            error = self.folder / "error"
            if error.exists():
                raise AttachError(f"process {self.process}: {error.read_text('utf-8', 'replace')}")
            if waited >= wait:
                raise AttachError(
                    f"process {self.process} has not come to where it can be attached to in {wait:g} s; {_WAITS}"
                )
            if waited >= _SAY_AFTER and not told:
                told = True
                self._say(f"waiting for process {self.process}: {_WAITS}")
            if waited >= self._sent * _RESEND_AFTER:
                send(self.process, str(self.folder / "script.py"))
                self._sent += 1
            self._receive(min(_RESEND_AFTER, wait - waited, 0.1))

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        first = self._connections[0]
        first.send({"version": aspecthook.__version__, **request})
        while first.open:
            for answer in self._receive(1.0):
                if "error" in answer:
                    raise AttachError(f"process {self.process}: {answer['error']}")
                if "woven" in answer or "detached" in answer:
                    return answer
        raise AttachError(f"process {self.process} has ended")

    # Attached

    @property
    def is_attached(self) -> bool:
        """Whether the process is attached."""
        return self._connections[0].open

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended without coming off first."""
        return self._connections[0].gone

    def wait(self, seconds: float) -> None:
        """Wait so long for messages of the process and its children, and show what they say."""
        for answer in self._receive(seconds):
            if answer.get("why"):
                self._say(f"process {self.process} was detached by {answer['why']}")

    def _receive(self, seconds: float) -> list[dict[str, Any]]:
        """Return the messages that have come."""
        poll = select.poll()
        sources = {one.socket.fileno(): one for one in self._connections if one.open}
        for number in (*sources, self._listener.fileno()):
            poll.register(number, select.POLLIN)
        answers: list[dict[str, Any]] = []
        for number, _ in poll.poll(max(0.0, seconds * 1000)):
            source = sources.get(number)
            if source is not None:
                answers += source.receive()
            else:
                self._connections.append(_Connection(self._listener.accept()[0]))
        for answer in answers:
            self.left += answer.get("left", [])
            self.ever_wove = self.ever_wove or bool(answer.get("woven") or answer.get("off"))
            for note in answer.get("notes", []):
                self._say(note)
        return answers

    # Detaching

    def detach(self) -> bool:
        """Detach the process and its children. Return whether all have confirmed it, or ended."""
        for one in self._connections:
            one.end()
        until = monotonic() + _DETACH_WITHIN
        while any(one.open for one in self._connections) and monotonic() < until:
            self._receive(0.1)
            for one in self._connections:
                one.end()  # a child may just have come
        return all(one.off or one.gone for one in self._connections)

    def close(self) -> None:
        """Close the connections, and remove the files."""
        if self._sent and not self._connections:
            self._revoke()
        for one in self._connections:
            one.socket.close()
        self._listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _revoke(self) -> None:
        """Send a script that does nothing over one that has not been run: Python would complain if it was gone."""
        try:
            send(self.process, os.devnull)
        except AttachError:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_WAITS = (
    "its main thread has to run Python code for that, and may be waiting in C code (for a request, a lock, another "
    "thread, or a long computation)"
)


@final
class _Connection:
    """A connection of the process, or of a child of it."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.open = True
        self.off = False  # it has said that it is detached
        self._data = b""
        self._ended = False

    @property
    def gone(self) -> bool:
        """Whether it has ended without a word: with its process."""
        return not self.open and not self.off

    def send(self, message: Mapping[str, Any]) -> None:
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # the other side has said what it has to say, and left
            pass

    def receive(self) -> list[dict[str, Any]]:
        """Return the messages that are complete."""
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        self.open = bool(data)
        *lines, self._data = (self._data + data).split(b"\n")
        answers: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.off = self.off or any("off" in answer for answer in answers)
        return answers

    def end(self) -> None:
        """Close our direction of the connection, at which the other side detaches."""
        if self.open and not self._ended:
            self._ended = True
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:  # the other side has left first
                pass


def _script(folder: str, *, loads: bool) -> str:
    homes: dict[str, str] = {}
    if loads:
        import wrapt

        homes = {module.__name__: str(Path(module.__file__ or "").parent) for module in (wrapt, aspecthook)}
    source = f"{inspect.getsource(_arrival)}\n\narrive({folder!a}, {homes!a})\n"
    names = {"__name__": "aspecthook arrives", "source": source, "folder": folder}
    return _SCRIPT.format(guarded=_GUARDED, names=names)


# The commands


def attach(
    process: int,
    targets: Sequence[str],
    options: Mapping[str, Any],
    *,
    config: str | None,
    seconds: float | None,
    wait: float,
    lines: int,
    outputs: Iterable[Path],
    otlp: str | None,
) -> int:
    """Trace a process until it ends, until Ctrl-C, or for some time; weave what a file names. Return the exit status.

    Args:
        process: Its number.
        targets: What is traced.
        options: Those of `record`.
        config: A file of what is woven: until it is detached, if there is no time.
        seconds: That time.
        wait: How many seconds to wait until the process is attached.
        lines: How many lines of the tree are shown.
        outputs: The files to write, each in the format that its suffix names.
        otlp: The address of a collector of OpenTelemetry.
    """
    for target in targets:
        Pointcut(target)
    if config is not None:
        read_config(config)
    common = {"do": "attach", "options": options}
    if config is not None and seconds is None:
        request: dict[str, Any] = {**common, "targets": [], "config": config, "keep": True}
        with Attached(process, request, wait=wait, say=_say) as attached:
            _say(f"{_woven(attached)}; 'aspecthook detach {process}' removes that")
        if not targets:
            return 0
        config = None
    request = {**common, "targets": targets, "config": config, "keep": False}
    with _ended_by_signals(), Attached(process, request, wait=wait, say=_say) as attached:
        view = View(attached.folder / "calls", lines)
        until = inf if seconds is None else monotonic() + seconds
        try:
            _say(f"{_woven(attached)}; {'Ctrl-C ends it' if seconds is None else f'for {seconds:g} s'}")
            if targets and attached.answer["why"]:
                _say(f"nothing is woven yet: {attached.answer['why']}")
            while attached.is_attached and (rest := until - monotonic()) > 0:
                attached.wait(min(rest, 0.2))
                view.look()
        except KeyboardInterrupt:
            pass
        detached = attached.detach()
        if targets and not attached.ever_wove:
            _say(f"nothing was woven in process {process}, and nothing is written")
            return max(1, _say_how(attached, detached=detached))
        if targets:
            view.report(targets, outputs=outputs, otlp=otlp, service=f"process {process}")
        return _say_how(attached, detached=detached)


def detach(process: int, *, wait: float) -> int:
    """Remove everything that was attached to a process. Return the exit status."""
    with Attached(process, {"do": "detach"}, wait=wait, say=_say) as attached:
        count = attached.answer["detached"]
        if not count:
            _say(f"nothing is attached to process {process}")
            return 1
        _say(f"{plural(count, 'attachment')} removed from process {process}")
        return _say_how(attached, detached=True)


def _woven(attached: Attached) -> str:
    return f"attached to process {attached.process}: {plural(attached.answer['woven'], 'function')} woven"


def _say(text: str) -> None:
    try:
        print(f"aspecthook: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:  # the terminal is gone
        pass


def _say_how(attached: Attached, *, detached: bool) -> int:
    """Print how the process was left. Return the exit status."""
    if attached.left:
        _say(f"left in process {attached.process}: {', '.join(attached.left)}; please report this")
    elif not detached:
        _say(f"process {attached.process} has not said that it is detached; it will be as soon as it runs")
    elif attached.has_ended:
        _say(f"process {attached.process} has ended")
    else:
        _say(f"detached from process {attached.process}: nothing is left there")
    return 1 if attached.left or not detached else 0


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Take SIGTERM and SIGHUP for Ctrl-C."""
    before = {one: signal.signal(one, signal.default_int_handler) for one in signals("SIGTERM", "SIGHUP")}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
