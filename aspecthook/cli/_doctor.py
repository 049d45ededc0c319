"""What `aspecthook doctor` prints: versions, optional packages, and what would not work here."""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib import metadata

from aspecthook._values import columns

# What each extra is for, as users ask for it.
_EXTRAS = {
    "trace": "the command",
    "aspects": "ready-made aspects",
    "otel": "OpenTelemetry",
    "testing": "the test kit",
    "train": "the training runner",
    "tensorboard": "TensorBoard",
    "torch": "PyTorch",
}


def report() -> Iterator[str]:
    """Yield the lines of the report."""
    without = " without the GIL" if not getattr(sys, "_is_gil_enabled", lambda: True)() else ""
    yield f"aspecthook {_version('aspecthook')}, wrapt {_version('wrapt')}"
    yield f"Python {platform.python_version()}{without}, {sys.executable}"
    yield ""
    rows: list[tuple[str, str, str]] = []
    for extra, purpose in _EXTRAS.items():
        packages = _packages(extra)
        missing = [name for name in packages if _version(name) is None]
        if not packages:
            state = "not an extra of the version that is installed"
        elif missing:
            state = f"needs {', '.join(missing)}: pip install 'aspecthook[{extra}]'"
        else:
            state = ", ".join(f"{name} {_version(name)}" for name in packages)
        rows.append((extra, purpose, state))
    yield from columns(rows, left=3)
    yield ""
    wrong = [*problems()]
    yield from wrong or ["nothing found that would not work here"]


def problems() -> Iterator[str]:
    """Yield what would not work in this environment, each with what to do."""
    if platform.python_implementation() != "CPython":
        yield f"hooks: they work in place on the code of CPython, and this is {platform.python_implementation()}"
    elif not _hooks_work():
        yield "hooks: a hook on a new function was not called; another tool replaces the code of functions"
    if _version("wrapt") is None:
        yield "weaving of C functions: wrapt is not installed: pip install wrapt"
    if sys.flags.ignore_environment or sys.flags.no_site:
        yield "trace, run, list: Python was started with -I, -E or -S, with which children begin without hooks"
    try:
        with tempfile.TemporaryDirectory():
            pass
    except OSError as error:
        yield f"trace: there is no folder for temporary files ({error}); set TMPDIR to one that can be written"
    if sys.version_info < (3, 14):
        yield "attach: a running process can be attached to with Python 3.14 and later; use aspecthook trace"
    elif not sysconfig.get_config_var("Py_REMOTE_DEBUG") or "PYTHON_DISABLE_REMOTE_DEBUG" in os.environ:
        yield "attach: remote debugging is disabled in this Python; use aspecthook trace"
    elif not hasattr(socket, "AF_UNIX"):
        yield "attach: it needs Linux or macOS; use aspecthook trace"


def _hooks_work() -> bool:
    from aspecthook import hookable, hooks

    seen: list[int] = []

    @hookable
    def probe(n: int) -> int:
        return n

    hooks(probe).add("post", seen.append)
    probe(1)
    return seen == [1]


def _packages(extra: str) -> list[str]:
    """Return the packages that an extra requires here."""
    try:
        required = metadata.requires("aspecthook") or []
    except metadata.PackageNotFoundError:
        return []
    found = [one for one in required if re.search(rf"extra == ['\"]{extra}['\"]", one)]
    names = [match.group() for one in found if (match := re.match(r"[\w.-]+", one))]
    return [name for name in names if name != "aspecthook"]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
