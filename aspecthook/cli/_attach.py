"""Attaching to a running process: scripts are sent to it (PEP 768), which answer by files in a folder.

The invariant: the process is detached when this command ends, and ends what is recorded by itself if we are killed.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import aspecthook
from aspecthook._errors import AspecthookError, plural, printable

from . import _arrival
from ._program import handling, heard, signals
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
    if not _runs(process):
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


def _runs(process: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def _folder(process: int) -> Generator[Path]:
    """Make the folder in which the process writes, and which nobody else can read."""
    if not hasattr(sys, "remote_exec"):
        version = sys.version.split()[0]
        raise AttachError(f"attaching needs Python 3.14 or later, and this is Python {version}; {_TRACE}")
    if sys.platform == "win32":
        raise AttachError(f"attaching needs Linux or macOS; {_TRACE}")
    folder = Path(tempfile.mkdtemp(prefix="aspecthook-"))
    try:
        (folder / "calls").mkdir()
        _hand_over(process, folder, folder / "calls")
        root = f"/proc/{process}/root"
        if os.path.exists(f"{root}/") and not os.path.exists(f"{root}{folder}"):
            raise AttachError(
                f"process {process} does not see our files: run aspecthook in the same container, or set TMPDIR to a "
                f"folder that both see"
            )
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hand_over(process: int, *paths: Path) -> None:
    """Make the user of the process the owner of these files, if we are root."""
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, _owner(process), -1)


def _ask(process: int, place: Path, within: float = inf, **request: Any) -> dict[str, Any]:
    """Send a process what to do, and return its answer.

    Args:
        process: Its number.
        place: Where the script and the answer go, without suffixes.
        within: How many seconds to wait for the answer.
        request: What it is to do.
    """
    script, begun, answer = (place.with_suffix(suffix) for suffix in (".py", ".begun", ".json"))
    script.touch(0o600)
    script.write_text(_script(str(place), {"version": aspecthook.__version__, **request}), "utf-8")
    _hand_over(process, script)
    begin, times = monotonic(), 0
    try:
        while not answer.exists():
            waited = monotonic() - begin
            if waited >= within:
                raise AttachError(f"process {process} does not answer")
            if times and not _runs(process):
                raise AttachError(f"process {process} has ended")
            if waited >= times * _RESEND_AFTER and not begun.exists():
                _send(process, str(script))
                times += 1
                if times == 3:
                    _say(f"waiting for process {process}: {_WAITS}")
            sleep(0.02)
    except BaseException:
        with suppress(AttachError):  # Python would complain of a script that is gone when it is to be run
            _send(process, os.devnull)
        raise
    found: dict[str, Any] = json.loads(answer.read_text("utf-8"))
    if found.get("error"):
        raise AttachError(f"process {process}: {found['error']}")
    return found


def _script(place: str, request: Mapping[str, Any]) -> str:
    import wrapt

    homes = {module.__name__: str(Path(module.__file__ or "").parent) for module in (wrapt, aspecthook)}
    source = f"{inspect.getsource(_arrival)}\n\narrive({place!a}, {homes!a}, {request!a})\n"
    return _SCRIPT.format(names={"__name__": "aspecthook arrives", "source": source})


def attach(
    process: int, request: Mapping[str, Any], *, seconds: float | None, lines: int, outputs: Iterable[str]
) -> int:
    """Trace a process until it ends, until Ctrl-C, or for some time. Return the exit status.

    Args:
        process: Its number.
        request: What is traced (``targets``), and the ``options`` of `record`.
        seconds: That time.
        lines: How many lines of the tree are shown.
        outputs: The files to write.
    """
    # SIGTERM and SIGHUP are taken for Ctrl-C.
    with handling(heard(signals("SIGTERM", "SIGHUP")), signal.default_int_handler), _folder(process) as folder:
        view, off = View(str(folder / "calls"), lines), folder / f"off-{process}"
        ends = f"for {seconds:g} s" if seconds else "Ctrl-C ends it"
        woven = 0
        try:
            answer = _ask(process, folder / "attach", do="attach", command=os.getpid(), **request)
            woven = answer["woven"]
            _say(f"attached to process {process}: {plural(woven, 'function')} woven; {ends}")
            if answer["why"]:
                _say(f"nothing is woven yet: {answer['why']}")
            until = monotonic() + (seconds or inf)
            while _runs(process) and not off.exists() and (rest := until - monotonic()) > 0:
                sleep(min(rest, 0.2))
                view.look()
        except KeyboardInterrupt:
            pass
        ended = not _runs(process)
        left = _detach_all(process, folder) if (folder / "attach.begun").exists() else []
        whys = [json.loads(path.read_text("utf-8")) for path in folder.glob("off-*")]
        woven = max([woven, *[one["woven"] for one in whys]])
        for why in {one["why"] for one in whys if one["why"]}:
            _say(f"process {process} was detached by {why}")
        if woven:
            view.report(request["targets"], outputs)
        else:
            _say(f"nothing was woven in process {process}, and nothing is written")
        for one in left:
            _say(f"process {one} has not said that it is detached; it will be at its next recorded call")
        if not left:
            _say(f"process {process} has ended" if ended else f"detached from process {process}")
        return 0 if woven and not left else 1


def _detach_all(process: int, folder: Path) -> list[int]:
    """Detach from a process and from the children that it has forked. Return those that have not answered."""
    left: list[int] = []
    headers = [json.loads(path.open("rb").readline() or "{}") for path in (folder / "calls").glob("*.jsonl")]
    for one in {process, *[header.get("process", process) for header in headers]}:
        if _runs(one) and not (folder / f"off-{one}").exists():
            try:
                place = folder / f"detach-{one}"
                _ask(one, place, _DETACH_WITHIN, do="detach", folder=str(folder), why="")
            except AttachError:
                left += [one] if _runs(one) else []
    return left


def detach(process: int) -> int:
    """Remove everything that was attached to a process. Return the exit status."""
    with _folder(process) as folder:
        removed = _ask(process, folder / "detach", do="detach", folder=None, why="aspecthook detach")["detached"]
    done = f"{plural(removed, 'attachment')} removed from" if removed else "nothing is attached to"
    _say(f"{done} process {process}")
    return 0 if removed else 1


def _say(text: str) -> None:
    with suppress(OSError):  # the terminal is gone
        print(f"aspecthook: {printable(text)}", file=sys.stderr, flush=True)
