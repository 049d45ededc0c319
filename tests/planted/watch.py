"""A plugin of pytest for the runs with a planted bug: write down what starts and what fails, as it happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

COPY = "ASPECTHOOK_PLANTED_COPY"
WATCHED = "watched.txt"


def _write(word: str, test: str) -> None:
    # Opened for each line, so that nothing is lost when a run that hangs is killed.
    with Path(os.environ[COPY], WATCHED).open("a") as file:
        file.write(f"{word} {test}\n")


def pytest_sessionstart() -> None:
    """Raise if the package that is imported is not the one in the copy."""
    import aspecthook

    found, copy = Path(aspecthook.__file__).resolve(), Path(os.environ[COPY]).resolve()
    if not found.is_relative_to(copy):
        raise SystemExit(f"{found} is imported, which is not in the copy {copy}")


def pytest_runtest_logstart(nodeid: str) -> None:
    _write("started", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _write("failed", report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write("failed", report.nodeid)


def pytest_runtest_logfinish(nodeid: str) -> None:
    _write("finished", nodeid)
