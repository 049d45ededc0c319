"""Make sure that what a child process tests is the patched copy of the package; a plugin of pytest does it there."""

from __future__ import annotations

import os
from pathlib import Path

COPY = "ASPECTHOOK_PLANTED_COPY"


def check() -> None:
    """Raise if the package that is imported is not the one in the copy."""
    import aspecthook

    found, copy = Path(aspecthook.__file__).resolve(), Path(os.environ[COPY]).resolve()
    if not found.is_relative_to(copy):
        raise SystemExit(f"{found} is imported, which is not in the copy {copy}")


def pytest_sessionstart() -> None:
    check()
