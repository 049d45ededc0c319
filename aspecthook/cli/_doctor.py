"""What `aspecthook doctor` prints: versions, optional packages, and what would not work here."""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata

from aspecthook._values import columns

_EXTRAS = ("trace", "aspects", "otel", "testing", "train", "tensorboard", "torch")


def report() -> Iterator[str]:
    """Yield the lines of the report."""
    without = " without the GIL" if not getattr(sys, "_is_gil_enabled", lambda: True)() else ""
    yield f"aspecthook {_version('aspecthook')}, wrapt {_version('wrapt')}"
    yield f"Python {platform.python_version()}{without}, {sys.executable}"
    yield ""
    yield from columns([*map(_extra, _EXTRAS)], left=2)
    yield ""
    yield from [*problems()] or ["nothing found that would not work here"]


def _extra(extra: str) -> tuple[str, str]:
    """Return an extra, and the versions of what it requires or how to install what is missing."""
    required = [] if _version("aspecthook") is None else metadata.requires("aspecthook") or []
    found = [one for one in required if re.search(rf"extra == ['\"]{extra}['\"]", one)]
    names = [match.group() for one in found if (match := re.match(r"[\w.-]+", one))]
    versions = {name: _version(name) for name in names if name != "aspecthook"}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return extra, f"needs {', '.join(missing)}: pip install {' '.join(missing)}"
    return extra, ", ".join(f"{name} {version}" for name, version in versions.items())


def problems() -> Iterator[str]:
    """Yield what would not work in this environment, each with what to do."""
    if platform.python_implementation() != "CPython":
        yield f"hooks: they work in place on the code of CPython, and this is {platform.python_implementation()}"
    if sys.version_info < (3, 14):
        yield "attach: a running process can be attached to with Python 3.14 and later; use aspecthook trace"
    elif not sysconfig.get_config_var("Py_REMOTE_DEBUG") or "PYTHON_DISABLE_REMOTE_DEBUG" in os.environ:
        yield "attach: remote debugging is disabled in this Python; use aspecthook trace"
    elif sys.platform == "win32":
        yield "attach: it needs Linux or macOS; use aspecthook trace"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
