"""Copies of the repository, and runs of pytest in them: each in a fork of a process that has imported pytest already.

A fork has neither the package nor the tests imported, so that it sees the copy as it is. What a run costs is then the
package, the test files it is asked for, and their tests.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import coverage
import pytest

# What the tests import as a rule, and no mutant changes: imported once, for all forks.
for _name in ("asyncio", "hypothesis.stateful", "unittest.mock", "wrapt", "xml.etree.ElementTree"):
    import_module(_name)

ROOT = Path(__file__).parents[2]

_COPIED = ("aspecthook", "tests", "_aspecthook_pytest.py", "pyproject.toml")
_LINKED = ("benchmarks", "docs", "examples", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "constraints.txt")

_OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "-p", "tests.planted.watch", "--timeout", "120")
_OPTIONS += ("-m", "not (stress or torch or wide)", "--tb", "line")
_OPTIONS += ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # Hypothesis is imported before


def make_copy(copy: Path) -> None:
    """Copy the package and the tests, and link what the tests read besides."""
    copy.mkdir()
    for name in _COPIED:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, copy / name)
    for name in _LINKED:
        (copy / name).symlink_to(ROOT / name)


def run(copy: Path, tests: Sequence[str], limit: float, *options: str, measured: Path | None = None) -> tuple[int, str]:
    """Run pytest on some tests of a copy, and return its exit status and its output.

    Args:
        copy: The copy.
        tests: Files, or tests in files.
        limit: After how many seconds it has hung; it is ended then, and its status is -9.
        options: More options of pytest.
        measured: Where to put the measured coverage, if it is to be measured.
    """
    said = copy / "said.txt"
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            status = _in_child(copy, [*_OPTIONS, *options, *tests], said, measured)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    ends = time.monotonic() + limit
    done = 0
    while not done and time.monotonic() < ends:
        time.sleep(0.02)
        done, status = os.waitpid(pid, os.WNOHANG)
    try:
        os.killpg(pid, signal.SIGKILL)  # what hangs, and what a test has left running
    except ProcessLookupError:
        pass
    if not done:
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said.read_text(errors="replace")


def _in_child(copy: Path, arguments: list[str], said: Path, measured: Path | None) -> int:
    os.setsid()  # what it starts itself is to end with it
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(copy)
    os.environ |= {
        "ASPECTHOOK_PLANTED_COPY": str(copy),
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",  # a mutant must leave no code for the next one
        "HYPOTHESIS_PROFILE": "brief",
        "CI": "1",  # Hypothesis draws the same examples in each run
    }
    sys.dont_write_bytecode = measured is None
    sys.path[0] = str(copy)
    sys.argv = ["pytest", *arguments]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    sys.modules["__main__"] = pytest
    if measured is None:
        return int(pytest.main(arguments))
    cov = coverage.Coverage(data_file=str(measured), data_suffix=True, config_file=str(copy / "pyproject.toml"))
    cov.set_option("run:dynamic_context", "test_function")
    with cov.collect():
        status = int(pytest.main(arguments))
    cov.save()
    return status
