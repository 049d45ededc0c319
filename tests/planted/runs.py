"""Run tests in a copy of the package that has a bug planted in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .table import ROOT, Bug, PlantingError, planted
from .watch import COPY, WATCHED

# What the tests read of the repository besides the package and themselves.
_BESIDE = ("benchmarks", "docs", "examples", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "constraints.txt")

# In seconds, both long for a machine that is busy: a test that hangs fails after the first, and pytest is stopped after
# the second if it hangs where a test cannot be interrupted.
_TEST_LIMIT = 60
_RUN_LIMIT = 1200

_OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "tests.planted.watch", "-n", "0", "--hypothesis-seed=0")
OPTIONS = (*_OPTIONS, "-m", "not (wide or stress)")


@dataclass(frozen=True)
class Run:
    """What a run of pytest has shown.

    Attributes:
        ran: The tests that were started.
        failed: The tests that failed, and the one during which pytest had to be stopped.
        seconds: How long it took.
    """

    ran: tuple[str, ...]
    failed: tuple[str, ...]
    seconds: float


@contextmanager
def copy_with(bug: Bug | None) -> Iterator[Path]:
    """Make a copy of the package and the tests, with the bug in it, for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="aspecthook-planted-", ignore_cleanup_errors=True) as name:
        copy = Path(name)
        for folder in ("aspecthook", "tests"):
            shutil.copytree(ROOT / folder, copy / folder)
        for beside in ("_aspecthook_pytest.py", "pyproject.toml"):
            shutil.copy2(ROOT / beside, copy / beside)
        for beside in _BESIDE:
            (copy / beside).symlink_to(ROOT / beside)
        if bug is not None:
            file = copy / "aspecthook" / bug.file
            file.write_text(planted(bug, file.read_text()))
        yield copy


def environment(copy: Path) -> dict[str, str]:
    """Return the environment in which tests run in a copy, alike in each run."""
    settings = {"PYTHONPATH": str(copy), COPY: str(copy), "PYTHONHASHSEED": "0", "HYPOTHESIS_PROFILE": "brief"}
    return {**os.environ, **settings, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run(bug: Bug | None, tests: Sequence[str], *, first: bool) -> Run:
    """Run tests against a copy with the bug in it.

    Args:
        bug: The bug, or None for the package as it is.
        tests: Files and folders of tests, in the order in which they are run.
        first: Whether to stop at the first test that fails.

    Raises:
        PlantingError: pytest could not run them.
    """
    # pytest 9 drops a file that a folder behind it has too, and its place with it: so no folder is named.
    files = list(dict.fromkeys(file for path in tests for file in _files(path)))
    arguments = ["-m", "pytest", *OPTIONS, "--timeout", str(_TEST_LIMIT), *["-x"] * first, *files]
    with copy_with(bug) as copy, (copy / "said.txt").open("w+") as said:
        began = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=copy,
            env=environment(copy),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,  # what it starts itself is to end with it
        )
        try:
            status: int | None = child.wait(_RUN_LIMIT)
        except subprocess.TimeoutExpired:
            status = None
        finally:  # Ctrl-C does not reach a session of its own
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
        seconds = time.monotonic() - began
        seen = _seen(copy)
        failed = seen["failed"]
        if status not in (0, 1, 5):
            failed += [test for test in seen["started"] if test not in seen["finished"]]
            if not failed:
                # The package cannot be imported any more, not even by a conftest.
                failed = ["(pytest itself)"]
                if bug is None:
                    said.seek(0)
                    raise PlantingError(f"pytest could not run {' '.join(tests)}:\n{said.read()}")
        return Run(tuple(dict.fromkeys(seen["started"])), tuple(dict.fromkeys(failed)), seconds)


def _files(path: str) -> list[str]:
    if not (ROOT / path).exists():
        raise PlantingError(f"there is no {path}")
    if path.endswith(".py"):
        return [path]
    return sorted(str(file.relative_to(ROOT)) for file in (ROOT / path).rglob("test_*.py"))


def _seen(copy: Path) -> dict[str, list[str]]:
    seen: dict[str, list[str]] = {"started": [], "failed": [], "finished": []}
    watched = copy / WATCHED
    for line in watched.read_text().splitlines() if watched.exists() else ():
        word, _, test = line.partition(" ")
        seen[word].append(test)
    return seen
