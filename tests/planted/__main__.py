"""Plant each bug in a copy of the package, and see which of our tests find it.

Without `--matrix`, the tests of a bug stop at the first that fails. With it they all run, and build/planted/matrix.txt
says which tests find nothing, which are the only finders of a bug, and a small set that finds all.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from . import matrix
from .runs import run
from .table import BUGS, ROOT, Bug, PlantingError, planted


def _chosen(words: Sequence[str]) -> list[Bug]:
    named = {word for bug in BUGS for word in (bug.name, bug.room, bug.section)}
    if unknown := sorted({*words} - named):
        raise PlantingError(f"no bug, room or section is called {unknown[0]!r}; --list shows them")
    return [bug for bug in BUGS if not words or not {*words}.isdisjoint((bug.name, bug.room, bug.section))]


def _list(bugs: Sequence[Bug]) -> None:
    for bug in bugs:
        print(f"{bug.name} ({bug.room}, {bug.section}, aspecthook/{bug.file})")
        for sign, text in (("-", bug.old), ("+", bug.new)):
            print("\n".join(f"    {sign} {line}" for line in text.splitlines()))


def _first(bugs: Sequence[Bug], tests_of: Callable[[Bug], Sequence[str]], jobs: int) -> bool:
    """Print which test is the first to find each bug, and return whether all are found."""
    missed = []
    with ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(run, bug, tests_of(bug), first=True): bug for bug in bugs}
        for done in as_completed(runs):
            bug, seen = runs[done], done.result()
            answer = seen.failed[0] if seen.failed else "NOT FOUND"
            print(f"{seen.seconds:6.1f} s  {bug.name:<70} {answer}", flush=True)
            missed += [bug.name] * (not seen.failed)
    print(f"{len(bugs) - len(missed)} of {len(bugs)} are found; not found: {', '.join(missed) or 'none'}")
    return not missed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.planted",
        description=__doc__,
        epilog="The exit status is 1 if a bug is not found, 2 if one cannot be planted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="NAME", help="bugs, rooms or sections; all bugs if none is named")
    parser.add_argument("--matrix", action="store_true", help="run all tests of each bug, and say who finds what")
    parser.add_argument("--fresh", action="store_true", help="forget the results that the matrix already has")
    parser.add_argument("--only", action="append", metavar="PATH", help="run these tests, and not those of the room")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many bugs are tried side by side")
    parser.add_argument("--list", action="store_true", help="list the bugs and what each replaces, and run nothing")
    return parser.parse_args()


def main() -> int:
    """Run what the command line asks for, and return the exit status."""
    arguments = _arguments()

    def tests_of(bug: Bug) -> Sequence[str]:
        return arguments.only or bug.tests

    try:
        bugs = _chosen(arguments.words)
        for bug in bugs:  # before the first child starts
            planted(bug, (ROOT / "aspecthook" / bug.file).read_text())
        if arguments.list:
            _list(bugs)
        elif arguments.matrix:
            matrix.main(bugs, tests_of, arguments.jobs, fresh=arguments.fresh)
        else:
            return 0 if _first(bugs, tests_of, arguments.jobs) else 1
        return 0
    except PlantingError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
