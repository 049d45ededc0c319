"""Change one small thing in the core or in weaving at a time, and see whether a test fails.

A random sample of the places that can be changed is drawn; for each, one mutant is made by an operator of cosmic-ray,
and the tests that run the changed line are run, in a copy of the repository, until one fails. What survives is either
equivalent (no call and no look shows it) or shows that a test is missing.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path

from .covering import Measured, order, read, seconds
from .equivalent import reason
from .forks import ROOT, make_copy, run
from .sites import ROOMS, Mutant, sample, sites

# The tests of the two rooms, and of those that stand on them. What runs a mutant's line decides which of them run.
TESTS = ("core", "weave", "properties", "copies", "plugins", "events", "test_own.py")

# It compares two texts of the law, which a mutant of either fails without a call.
NOT_ASKED = ("tests/core/test_law.py",)

# In seconds, and as often as long as without a mutant: a run that takes longer has hung.
_START, _SLOWER = 60.0, 10.0

# What pytest says if a mutant keeps it from importing a test file.
_NOT_IMPORTED = ("ERROR collecting", "while loading conftest")

# The goal, in percent.
_GOAL = 95


@dataclass(frozen=True)
class Result:
    """What became of a mutant.

    Attributes:
        mutant: The mutant.
        killer: The test that failed; None if none did.
        files: How many test files were run.
    """

    mutant: Mutant
    killer: str | None
    files: int

    @property
    def state(self) -> str:
        if self.killer is not None:
            return "killed"
        return "equivalent" if reason(self.mutant) else "survived"


class Worker:
    """A process that tests mutants in a copy of its own."""

    copy: Path
    measured: Sequence[Measured]

    @classmethod
    def begin(cls, copies: Queue[Path], measured: Sequence[Measured]) -> None:
        cls.copy = copies.get()
        cls.measured = measured

    @classmethod
    def measure(cls, path: str) -> Measured:
        """Return which lines the tests of a file run."""
        name = path.replace("/", "-")
        report, data = cls.copy / f"{name}.xml", cls.copy / f"{name}.data"
        # A few fail while they are measured: they look at what their process imports, or count what stays in memory.
        status, said = run(cls.copy, [path], 3600, "--maxfail=0", f"--junitxml={report}", measured=data)
        if status not in (0, 1, 5):
            raise RuntimeError(f"{path} cannot be measured:\n{said}")
        return read(path, cls.copy, sorted(cls.copy.glob(f"{data.name}.*")), report)

    @classmethod
    def test(cls, number: int, mutant: Mutant) -> Result:
        """Test a mutant."""
        file = cls.copy / mutant.site.file
        before = file.stat().st_mtime_ns
        old = file.read_text()
        file.write_text(mutant.source)
        os.utime(
            file, ns=(number, number * 10**9)
        )  # or compiled code of the same second would pass for that of this text
        try:
            for files, (measured, tests) in enumerate(order(mutant, cls.measured), 1):
                limit = _START + _SLOWER * seconds(measured, tests)
                status, said = run(cls.copy, [f"{measured.path}::{test}" for test in tests], limit)
                if status in (4, 5) and not any(word in said for word in _NOT_IMPORTED):
                    raise RuntimeError(f"{measured.path}: {tests} could not be run:\n{said}")
                if status != 0:
                    return Result(mutant, _killer(status, said, measured.path), files)
            return Result(mutant, None, len(order(mutant, cls.measured)))
        finally:
            file.write_text(old)
            os.utime(file, ns=(before, before))


def _killer(status: int, said: str, path: str) -> str:
    """Return what has killed a mutant: the test that failed, or the file that could not be imported or hung."""
    for line in said.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            return line.partition(" ")[2].partition(" - ")[0]
    return f"{path} (exit status {status})"


def interval(killed: int, of: int) -> tuple[float, float]:
    """Return Wilson's interval, in percent, which holds the share of all mutants in 95 of 100 samples."""
    z, share = 1.96, killed / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    width = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return 100 * (middle - width), 100 * (middle + width)


def _run(arguments: argparse.Namespace, folder: Path) -> list[Result]:
    copies = [folder / f"copy-{number}" for number in range(arguments.workers)]
    for copy in copies:
        make_copy(copy)
    found = sites(ROOT, arguments.words or ROOMS)
    mutants = list(sample(ROOT, found, arguments.size, arguments.seed))
    print(f"{len(mutants)} mutants, drawn from {len(found)} sites with the seed {arguments.seed}", flush=True)
    tests = sorted({path for word in TESTS for path in _test_files(ROOT / "tests" / word)} - {*NOT_ASKED})
    measured = [one for _, one in _work(copies, [(path,) for path in tests], Worker.measure, [])]
    print(f"{len(measured)} test files pass without a mutant", flush=True)
    results = []
    for number, result in _work(copies, list(enumerate(mutants, 1)), Worker.test, measured):
        results.append(result)
        print(f"{number:4} {result.state:<10} {result.mutant} [{result.files}] {result.killer or ''}", flush=True)
        if result.state == "survived":
            print(result.mutant.diff, flush=True)
    return results


def _work(copies, arguments, function, measured):
    """Yield what a function says to each of the arguments, as soon as it is known, with its number."""
    context = get_context("fork")
    queue = context.Queue()
    for copy in copies:
        queue.put(copy)
    with ProcessPoolExecutor(len(copies), context, initializer=Worker.begin, initargs=(queue, measured)) as pool:
        going = {pool.submit(function, *one): number for number, one in enumerate(arguments, 1)}
        try:
            for done in as_completed(going):
                yield going[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _test_files(path: Path) -> list[str]:
    files = [path] if path.is_file() else path.rglob("test_*.py")
    return [file.relative_to(ROOT).as_posix() for file in files]


def _report(results: Sequence[Result]) -> bool:
    """Print a table by room, and return whether the goal is met."""
    for room in (*ROOMS, "aspecthook"):
        counts = Counter(result.state for result in results if result.mutant.site.file.startswith(f"{room}/"))
        of = counts["killed"] + counts["survived"]
        if of:
            low, high = interval(counts["killed"], of)
            share = f"{100 * counts['killed'] / of:.1f} % ({low:.1f} to {high:.1f})"
            print(f"{room:<18} {dict(counts)}: killed {share} of those that are not equivalent")
    return 100 * counts["killed"] >= _GOAL * of


def main() -> int:
    """Run what the command line asks for, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "words", nargs="*", metavar="PATH", help="what to mutate (aspecthook/_core and aspecthook/weave)"
    )
    parser.add_argument("--size", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--workers", type=int, default=2, help="how many copies are tested at a time (2)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="aspecthook-mutants-", ignore_cleanup_errors=True) as name:
        results = _run(arguments, Path(name))
    return 0 if _report(results) else 1


if __name__ == "__main__":
    sys.exit(main())
