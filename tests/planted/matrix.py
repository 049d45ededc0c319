"""The kill matrix: which tests find which planted bugs.

Each result is a line of a file of JSON lines, written as it comes: a run that is cut short goes on where it ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from hashlib import sha256
from pathlib import Path
from typing import Any

from .runs import run
from .table import ROOT, Bug, planted

RESULTS = ROOT / "build" / "planted" / "matrix.jsonl"
REPORT = RESULTS.with_name("matrix.txt")

Line = dict[str, Any]


def fill(bugs: Sequence[Bug], tests_of: Callable[[Bug], Sequence[str]], jobs: int) -> list[Line]:
    """Return a result for each bug, and one for each of their paths without a bug; run what the file does not have."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    known = {line["key"]: line for line in lines}
    paths = dict.fromkeys(path for bug in bugs for path in tests_of(bug))
    wanted = {_key(bug, tests): (bug, tests) for bug, tests in _wanted(bugs, paths, tests_of)}
    missing = {key: work for key, work in wanted.items() if key not in known}
    print(
        f"{len(wanted) - len(missing)} results are in {RESULTS.relative_to(ROOT)}, {len(missing)} are missing",
        flush=True,
    )

    def result(key: str, bug: Bug | None, tests: Sequence[str]) -> Line:
        seen = run(bug, tests, first=False)
        return {
            "key": key,
            "bug": bug.name if bug is not None else None,
            "tests": [*tests],
            "ran": list(seen.ran) if bug is None else len(seen.ran),
            "failed": list(seen.failed),
            "seconds": round(seen.seconds, 1),
        }

    with ThreadPoolExecutor(jobs) as pool, RESULTS.open("a") as file:
        for number, done in enumerate(
            as_completed([pool.submit(result, key, *work) for key, work in missing.items()]), 1
        ):
            line = done.result()
            known[line["key"]] = line
            file.write(json.dumps(line) + "\n")
            file.flush()
            name = line["bug"] or f"(no bug) {line['tests'][0]}"
            print(
                f"{number:4}/{len(missing)}  {len(line['failed']):4} tests  {line['seconds']:6.1f} s  {name}",
                flush=True,
            )
    return [known[key] for key in wanted]


def _wanted(
    bugs: Sequence[Bug], paths: Iterable[str], tests_of: Callable[[Bug], Sequence[str]]
) -> Iterable[tuple[Bug | None, Sequence[str]]]:
    for path in paths:
        yield None, (path,)
    for bug in bugs:
        yield bug, tests_of(bug)


def _key(bug: Bug | None, tests: Sequence[str]) -> str:
    """Return a key that changes with the bug and with the file that it is planted in, but not with the tests."""
    source = planted(bug, (ROOT / "aspecthook" / bug.file).read_text()) if bug is not None else ""
    return sha256("\0".join([source, *tests]).encode()).hexdigest()[:16]


def report(lines: Sequence[Line], bugs: Sequence[Bug]) -> str:
    """Return what the matrix says: of the bugs, and of the test functions that were run."""
    ran = {function(test) for line in lines if line["bug"] is None for test in line["ran"]}
    broken = {test for line in lines if line["bug"] is None for test in line["failed"]}
    finders = {
        line["bug"]: sorted({function(test) for test in line["failed"] if test not in broken})
        for line in lines
        if line["bug"] is not None
    }
    parts = []
    if broken:
        parts.append(_part("tests that fail without a bug, and count for nothing", sorted(broken)))
    rooms = {room: [bug.name for bug in bugs if bug.room == room] for room in dict.fromkeys(bug.room for bug in bugs)}
    shares = [f"{room}: {sum(bool(finders[name]) for name in names)} of {len(names)}" for room, names in rooms.items()]
    parts.append(_part("bugs that are found", shares))
    parts.append(_part("bugs that no test finds", [name for name, tests in finders.items() if not tests]))
    alone = [f"{tests[0]}  ({name})" for name, tests in finders.items() if len(tests) == 1]
    parts.append(_part("tests that are the only finder of a bug", sorted(alone)))
    cover = covering(finders)
    parts.append(
        _part("the smallest set found that finds all (greedy)", [f"{count:4}  {test}" for test, count in cover])
    )
    useful = {test for tests in finders.values() for test in tests}
    parts.append(_part(f"tests that find nothing, of {len(ran)}", sorted(ran - useful)))
    return "\n".join(parts)


def _part(title: str, lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in (f"# {title}: {len(lines)}", *lines))


def function(test: str) -> str:
    """Return the test function of a test: without the parameters."""
    return test.partition("[")[0]


def covering(finders: dict[str, list[str]]) -> list[tuple[str, int]]:
    """Return tests that find all bugs together, and how many each adds: always the one that adds most."""
    left = {name for name, tests in finders.items() if tests}
    finds: dict[str, set[str]] = {}
    for name in left:
        for test in finders[name]:
            finds.setdefault(test, set()).add(name)
    chosen = []
    while left:
        best = max(sorted(finds), key=lambda test: len(finds[test] & left))
        chosen.append((best, len(finds[best] & left)))
        left -= finds[best]
    return chosen


def main(bugs: Sequence[Bug], tests_of: Callable[[Bug], Sequence[str]], jobs: int, *, fresh: bool) -> None:
    """Fill the matrix and write the report."""
    if fresh:
        Path(RESULTS).unlink(missing_ok=True)
    said = report(fill(bugs, tests_of, jobs), bugs)
    REPORT.write_text(said)
    print(said[: said.index("# tests that find nothing")])
    print(f"All of it is in {REPORT.relative_to(ROOT)}.")
