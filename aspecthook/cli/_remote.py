"""Sending a script to the main thread of another process (PEP 768), and why that cannot be done."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from aspecthook._errors import AspecthookError

_TRACE = "aspecthook trace 'shop.*:*' -- app.py"


class AttachError(AspecthookError, RuntimeError):
    """A process that cannot be attached to; the message says why, and what to do instead."""


def check(process: int) -> int:
    """Return the user that a process belongs to.

    Raises:
        AttachError: It cannot be attached to.
    """
    if not hasattr(sys, "remote_exec"):
        raise AttachError(
            f"attaching needs Python 3.14 or later, and this is Python {sys.version_info[0]}.{sys.version_info[1]}; "
            f"start the program under it: {_TRACE}"
        )
    if not getattr(sys, "is_remote_debug_enabled")():
        raise AttachError("this Python has remote debugging disabled; unset PYTHON_DISABLE_REMOTE_DEBUG")
    if not hasattr(socket, "AF_UNIX"):
        raise AttachError(f"attaching needs Linux or macOS; start the program under it: {_TRACE}")
    owner = _owner(process)
    if owner is None:
        raise AttachError(f"there is no process {process}; see ps -x")
    if process == os.getpid():
        raise AttachError(f"process {process} is this very command; give the number of another one")
    if os.geteuid() not in (owner, 0):
        raise AttachError(f"process {process} belongs to {_name(owner)}; run aspecthook as that user, or as root")
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


def _name(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


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
            f"process {process} was started with -X disable-remote-debug or PYTHON_DISABLE_REMOTE_DEBUG; start it "
            f"without, or as: {_TRACE}"
        )
    file, version = _python(process)
    if version is None:
        return f"process {process} is no Python program that can be attached to ({file or error})"
    if version < (3, 14):
        older = f"{version[0]}.{version[1]}"
        return (
            f"process {process} runs Python {older}, and attaching needs 3.14 or later; start the program under "
            f"aspecthook: {_TRACE}"
        )
    return (
        f"process {process} runs {file}, and this is {os.path.realpath(sys.executable)}: {error}; use the same Python"
    )


def _python(process: int) -> tuple[str, tuple[int, int] | None]:
    """Return the executable of a process, and the version of Python if it is one, as far as files tell."""
    folder = Path(f"/proc/{process}")
    try:
        file = str((folder / "exe").readlink())
        mapped = (folder / "maps").read_text("utf-8", "replace")
    except OSError:
        return "", None
    found = re.search(r"/(?:lib)?python(3)\.(\d+)[a-z]*(?:\.so[.\d]*)?$", f"{file}\n{mapped}", re.MULTILINE)
    return file, (int(found[1]), int(found[2])) if found else None
