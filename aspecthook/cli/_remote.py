"""Sending a script to the main thread of another process (PEP 768), and why that cannot be done."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from aspecthook._errors import AspecthookError

_TRACE = "start the program under it: aspecthook trace 'shop.*:*' -- app.py"


class AttachError(AspecthookError, RuntimeError):
    """A process that cannot be attached to; the message says why, and what to do instead."""


def check(process: int) -> int:
    """Return the user that a process belongs to.

    Raises:
        AttachError: It cannot be attached to.
    """
    if not hasattr(sys, "remote_exec"):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise AttachError(f"attaching needs Python 3.14 or later, and this is Python {version}; {_TRACE}")
    if not hasattr(socket, "AF_UNIX"):
        raise AttachError(f"attaching needs Linux or macOS; {_TRACE}")
    owner = _owner(process)
    if owner is None:
        raise AttachError(f"there is no process {process}; see ps -x")
    if os.geteuid() not in (owner, 0):
        raise AttachError(f"process {process} belongs to user {owner}; run aspecthook as that user, or as root")
    return owner


def _owner(process: int) -> int | None:
    """Return the effective user of a process, or None if there is no such process."""
    try:
        status = Path(f"/proc/{process}/status").read_text("utf-8", "replace")  # its files may be root's all the same
    except OSError:
        if Path("/proc/self").exists():
            return None
        ps = ["ps", "-o", "uid=", "-p", str(process)]
        status = "Uid: 0 " + subprocess.run(ps, capture_output=True, text=True, check=False).stdout
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else None


def send(process: int, script: str) -> None:
    """Send a script to a process, whose main thread runs it as soon as it can.

    Raises:
        AttachError: It cannot.
    """
    try:
        getattr(sys, "remote_exec")(process, script)
    except (OSError, RuntimeError) as error:
        raise AttachError(_why(process, error)) from error


def _why(process: int, error: BaseException) -> str:
    """Return what to do about an error of `sys.remote_exec`."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, PermissionError):
            return (
                f"the operating system does not let you into process {process}: {inner}; run aspecthook as root, or "
                f"see ptrace(2), 'kernel.yama.ptrace_scope'"
            )
        inner = inner.__cause__ or inner.__context__
    if _owner(process) is None:
        return f"process {process} has ended"
    if "not enabled" in str(error):
        return (
            f"process {process} or this one was started with -X disable-remote-debug or PYTHON_DISABLE_REMOTE_DEBUG; "
            f"start it without, or {_TRACE}"
        )
    return (
        f"process {process} cannot be attached to: {error}; it has to run the same Python as this one, "
        f"{os.path.realpath(sys.executable)}; otherwise {_TRACE}"
    )
