"""Which tests run which lines: measured once, in the unchanged copy, one test file after another."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from coverage import CoverageData

from .sites import Mutant


@dataclass
class Measured:
    """What a test file runs.

    Attributes:
        path: The test file.
        seconds: How long each of its test functions takes.
        tests: The test functions that run a line of a file of the package; none for one that an import or another
            process runs.
    """

    path: str
    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))

    def covering(self, mutant: Mutant) -> set[str] | None:
        """Return the test functions that run the statement of a mutant, or None if nothing here runs it."""
        found = [tests for line in mutant.lines if (tests := self.tests.get((mutant.site.file, line))) is not None]
        return set().union(*found) if found else None


def read(path: str, copy: Path, data: Sequence[Path], report: Path) -> Measured:
    """Read what was measured of a test file: data of coverage.py, and a report with the durations of the tests."""
    measured = Measured(path)
    module = path.removesuffix(".py").replace("/", ".")
    known: dict[str, set[str]] = defaultdict(set)  # the tests of each name
    for case in ElementTree.parse(report).iter("testcase"):
        name = re.sub(r"\[.*", "", case.get("name", ""), flags=re.DOTALL)
        of_class = case.get("classname", "").removeprefix(module).lstrip(".").replace(".", "::")
        test = f"{of_class}::{name}" if of_class else name
        known[name].add(test)
        measured.seconds[test] = measured.seconds.get(test, 0.0) + float(case.get("time", 0))
    for one in data:
        found = CoverageData(basename=str(one))
        found.read()
        for file in found.measured_files():
            # One of another process is named by its whole path.
            name = file.removeprefix(f"{copy}/")
            for line, contexts in found.contexts_by_lineno(file).items():
                for context in contexts:
                    measured.tests[name, line] |= known.get(context.rpartition(".")[2], set())
    return measured


def order(mutant: Mutant, files: Sequence[Measured]) -> list[tuple[Measured, list[str]]]:
    """Return the tests that run a mutant, by file: first where many run it and take a short time.

    A line that imports run, or other processes alone, has all tests of all files that run it.
    """
    covering = {one.path: tests for one in files if (tests := one.covering(mutant)) is not None}
    if mutant.imported:
        covering = {path: set() for path in covering}
    elif any(covering.values()):
        covering = {path: tests for path, tests in covering.items() if tests}
    chosen = [(one, sorted(covering[one.path] or one.seconds)) for one in files if one.path in covering]
    return sorted(chosen, key=lambda pair: -len(pair[1]) / (1 + seconds(*pair)))


def seconds(measured: Measured, tests: Sequence[str]) -> float:
    """Return how long some tests of a file take."""
    return sum(measured.seconds[test] for test in tests)
