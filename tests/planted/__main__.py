"""Plant each bug in a copy of the package, and see whether the test kit and our own tests find it.

Each bug has a fresh copy and child processes of its own, one after another. A child that takes too long has hung, and
the bug is found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .bugs import AREAS, BUGS, Bug
from .imported import COPY

ROOT = Path(__file__).parents[2]

# What the tests read of the repository besides the package and themselves.
_BESIDE = ("benchmarks", "docs", "examples", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "constraints.txt")

# The core's own tests that take seconds; run after those that are likely to find the bug.
FAST_TESTS = (
    "tests/core/test_order.py",
    "tests/core/test_answers.py",
    "tests/core/test_conditions.py",
    "tests/core/test_asks.py",
    "tests/core/test_errors.py",
    "tests/core/test_instances.py",
    "tests/core/test_generators.py",
    "tests/core/test_async.py",
    "tests/core/test_inplace.py",
    "tests/properties",
)

# In seconds. A test that hangs ends after two minutes by itself; both are long for a machine that is busy.
_KIT_LIMIT = 300
_TESTS_LIMIT = 900

# The goals, in percent.
_TESTS_GOAL = 100
_KIT_GOAL_IN_REACH = 95
_KIT_GOAL = 85


@dataclass(frozen=True)
class Answer:
    """Whether a child process has found the bug, how long it took, and what it said."""

    found: bool
    seconds: float
    said: str

    def __str__(self) -> str:
        return f"{'yes' if self.found else 'NO':<3} {self.seconds:5.1f} s"


class PlantingError(Exception):
    """A bug that cannot be planted, or a child that could not do its work."""


def planted(bug: Bug, source: str) -> str:
    """Return the source with the bug in it.

    Raises:
        PlantingError: The text to be replaced does not occur exactly once.
    """
    count = source.count(bug.old)
    if count != 1:
        raise PlantingError(f"{bug.name}: the old text occurs {count} times in aspecthook/{bug.file}, not once")
    return source.replace(bug.old, bug.new)


@contextmanager
def copy_with(bug: Bug | None) -> Iterator[Path]:
    """Make a copy of the package and the tests, with the bug in it, for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="aspecthook-planted-") as name:
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


def _run(copy: Path, arguments: Sequence[str], limit: float) -> tuple[int | None, float, str]:
    """Run Python in the copy; return its exit status (None: it was stopped), the seconds it took and what it said."""
    settings = {"PYTHONPATH": str(copy), COPY: str(copy), "PYTHONHASHSEED": "0", "HYPOTHESIS_PROFILE": "brief"}
    began = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=copy,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # what it starts itself is to end with it
    )
    try:
        said, _ = child.communicate(timeout=limit)
        status: int | None = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        said, _ = child.communicate()
        status = None
    except BaseException:  # Ctrl-C does not reach a session of its own
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    return status, time.monotonic() - began, said


def ask_kit(copy: Path, bug: Bug | None) -> Answer:
    """Ask whether the test kit finds the bug."""
    status, seconds, said = _run(copy, ["-m", "tests.planted.kit"], _KIT_LIMIT)
    if status is None:
        return Answer(True, seconds, "hangs")
    return Answer(status != 0, seconds, (said.strip().splitlines() or [""])[-1])


def ask_tests(copy: Path, bug: Bug | None, default: Sequence[str] = FAST_TESTS) -> Answer:
    """Ask whether our own tests find the bug: first the likely files, then the fast ones of the core.

    Raises:
        PlantingError: pytest could not run them.
    """
    likely = bug.tests if bug is not None else sorted({path for one in BUGS for path in one.tests})
    files = [*dict.fromkeys((*likely, *default))]
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "tests.planted.imported", "-n", "0", "--timeout", "120"]
    status, seconds, said = _run(copy, ["-m", "pytest", *options, *files], _TESTS_LIMIT)
    if status is None:
        return Answer(True, seconds, "hangs")
    if status in (4, 5) and "Error while loading conftest" not in said:
        raise PlantingError(f"pytest could not run {' '.join(files)}:\n{said}")
    lines = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    hangs = "hangs: " if "Timeout" in said else ""
    return Answer(status != 0, seconds, hangs + (lines[0].partition(" ")[2] if lines else f"exit status {status}"))


_QUESTIONS: dict[str, Callable[[Path, Bug | None], Answer]] = {"kit": ask_kit, "tests": ask_tests}


def _ask(bug: Bug | None, questions: Sequence[str], *, verbose: bool) -> dict[str, Answer]:
    """Ask each question of one copy, and print the answers."""
    with copy_with(bug) as copy:
        answers = {question: _QUESTIONS[question](copy, bug) for question in questions}
    if answers:
        _report(bug, answers, verbose=verbose)
    return answers


def _report(bug: Bug | None, answers: dict[str, Answer], *, verbose: bool) -> None:
    name, area = (bug.name, bug.area) if bug is not None else ("(no bug)", "")
    answered = "   ".join(f"{question} {answer}" for question, answer in answers.items())
    beyond = "" if bug is None or bug.reach else "   beyond reach"
    print(f"{name:<58} {area:<11} {answered}{beyond}", flush=True)
    for question, answer in answers.items():
        if verbose and answer.found:
            print(f"    {question}: {answer.said[:160]}", flush=True)


def _percent(answers: list[Answer]) -> float:
    return 100 * sum(answer.found for answer in answers) / len(answers)


def _totals(seen: dict[Bug, dict[str, Answer]], questions: Sequence[str]) -> bool:
    """Print the totals, and return whether every goal is met."""
    met = True
    for question in questions:
        for where, goal, reach in (
            ("of all", _TESTS_GOAL if question == "tests" else _KIT_GOAL, False),
            ("of those in reach", _TESTS_GOAL if question == "tests" else _KIT_GOAL_IN_REACH, True),
        ):
            answers = [row[question] for bug, row in seen.items() if bug.reach or not reach]
            if answers:
                reached = _percent(answers)
                met = met and reached >= goal
                found = sum(answer.found for answer in answers)
                print(f"{question:<6} find {found} of {len(answers)} {where}: {reached:.0f} %, the goal is {goal} %")
        missed = [bug.name for bug, row in seen.items() if not row[question].found]
        print(f"       not found: {', '.join(missed) or 'none'}")
    return met


def _chosen(words: Sequence[str]) -> list[Bug]:
    unknown = sorted({*words} - {*AREAS} - {bug.name for bug in BUGS})
    if unknown:
        raise PlantingError(f"no bug and no area is called {unknown[0]!r}; --list shows them")
    return [bug for bug in BUGS if not words or bug.name in words or bug.area in words]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.planted",
        description=__doc__,
        epilog=f"Areas: {', '.join(AREAS)}. The exit status is 1 if a goal is missed, 2 if a bug cannot be planted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="NAME", help="bugs or areas; all bugs if none is named")
    parser.add_argument("--kit", action="store_true", help="ask only whether the test kit finds them")
    parser.add_argument("--tests", action="store_true", help="ask only whether our own tests find them")
    parser.add_argument("--list", action="store_true", help="list the bugs and what each replaces, and run nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what has found each bug")
    return parser.parse_args()


def _list(bugs: Sequence[Bug]) -> None:
    for bug in bugs:
        print(f"{bug.name} ({bug.area}, aspecthook/{bug.file}{'' if bug.reach else ', beyond reach'})")
        for sign, text in (("-", bug.old), ("+", bug.new)):
            print("\n".join(f"    {sign} {line}" for line in text.strip("\n").splitlines()))


def main() -> int:
    """Run what the command line asks for, and return the exit status."""
    arguments = _arguments()
    try:
        bugs = _chosen(arguments.words)
        if arguments.list:
            _list(bugs)
            return 0
        questions = [one for one in _QUESTIONS if getattr(arguments, one)] or list(_QUESTIONS)
        for bug in bugs:  # before the first child starts
            planted(bug, (ROOT / "aspecthook" / bug.file).read_text())
        seen: dict[Bug, dict[str, Answer]] = {}
        # Without a bug nothing must be found; the tests take minutes then, so only with all bugs.
        control = [one for one in questions if one == "kit" or not arguments.words]
        if wrong := [answer.said for answer in _ask(None, control, verbose=arguments.verbose).values() if answer.found]:
            raise PlantingError(f"something is found where no bug is planted: {'; '.join(wrong)}")
        for bug in bugs:
            seen[bug] = _ask(bug, questions, verbose=arguments.verbose)
        return 0 if _totals(seen, questions) else 1
    except PlantingError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
