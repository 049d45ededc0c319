"""Change one small thing in the package at a time, and see whether a test of its room fails; by cosmic-ray.

Each room has a copy of the repository and a session of cosmic-ray, of whose mutants a sample is run. What survives is
printed: either no call and no look shows it, or a test is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec, WorkerOutcome, WorkResult

from tests.planted.runs import OPTIONS, copy_with, environment
from tests.planted.table import ROOT

# The tests of each room; training has none here, as its tests would take most of the time.
ROOMS = {
    "_core": ("core", "properties", "copies"),
    "_foreign": ("core", "weave", "properties"),
    "weave": ("weave",),
    "events": ("events",),
    "plugins": ("plugins",),
    "record": ("record",),
    "aspects": ("aspects",),
    "cli": ("cli", "training/job"),
    "testing": ("kit",),
}
SESSION = "session.sqlite"

# `|` stands in annotations, hardly anywhere else. A run of a room's tests takes a minute or two.
CONFIG = """\
[cosmic-ray]
module-path = {module}
timeout = 900.0
excluded-modules = []
test-command = {command}
[cosmic-ray.distributor]
name = "local"
[cosmic-ray.filters.operators-filter]
exclude-operators = ["core/ReplaceBinaryOperator_BitOr_.*"]
"""


def _begin(copy: Path, room: str) -> list[tuple[str, MutationSpec]]:
    """Make the session of a room, and return its mutants in the order of the source, each with its number there."""
    tests = [f"tests/{name}" for name in ROOMS[room]]
    command = shlex.join([sys.executable, "-m", "pytest", "-x", *OPTIONS, "--timeout", "120", *tests])
    module = json.dumps(f"aspecthook/{room}")
    (copy / "config.toml").write_text(CONFIG.format(module=module, command=json.dumps(command)))
    _cosmic_ray(copy, "cosmic_ray.cli", "init", "config.toml", SESSION)
    _cosmic_ray(copy, "cosmic_ray.tools.filters.operators_filter", SESSION, "config.toml")
    with use_db(copy / SESSION) as session:
        mutants = [(one.job_id, one.mutations[0]) for one in session.pending_work_items]
    return sorted(mutants, key=lambda row: (str(row[1].module_path), row[1].start_pos, row[1].operator_name))


def _cosmic_ray(copy: Path, module: str, *words: str) -> None:
    subprocess.run([sys.executable, "-m", module, *words], cwd=copy, env=environment(copy), check=True)


def _run(copy: Path, room: str, chosen: Sequence[str]) -> Counter[str]:
    """Run the chosen mutants of a room, print those that survive, and return what became of how many."""
    with use_db(copy / SESSION) as session:
        rest = [one.job_id for one in session.pending_work_items if one.job_id not in chosen]
        session.set_multiple_results(rest, WorkResult(WorkerOutcome.SKIPPED))
    _cosmic_ray(copy, "cosmic_ray.cli", "exec", "config.toml", SESSION)
    with use_db(copy / SESSION) as session:
        results = [result for _, result in session.completed_work_items if result.test_outcome is not None]
    print("\n".join(f"{room}: survived\n{one.diff}" for one in results if not one.is_killed), flush=True)
    return Counter(one.test_outcome.value for one in results if one.test_outcome is not None)


def main() -> int:
    """Run what the command line asks for, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"some of {', '.join(ROOMS)}; all unless given")
    parser.add_argument("--size", type=int, default=150, help="how many mutants (150)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many rooms are run side by side")
    given = parser.parse_args()
    rooms = [room for room in given.rooms or ROOMS if (ROOT / "aspecthook" / room).is_dir()]
    with ExitStack() as stack, ThreadPoolExecutor(given.jobs) as pool:
        copies = [stack.enter_context(copy_with(None)) for _ in rooms]
        mutants = [
            (room, one) for room, found in zip(rooms, pool.map(_begin, copies, rooms), strict=True) for one in found
        ]
        random.Random(given.seed).shuffle(mutants)
        # One of each place: ten ways to replace one `+` count once.
        places = {(one.module_path, one.start_pos): (room, job) for room, (job, one) in mutants}
        sample = [*places.values()][: given.size]
        print(f"{len(sample)} mutants of {len(places)} places, drawn with the seed {given.seed}", flush=True)
        jobs = [[job for room, job in sample if room == one] for one in rooms]
        for room, counts in zip(rooms, pool.map(_run, copies, rooms, jobs), strict=True):
            print(f"{room:<10} {counts['killed']} of {counts.total()} are found", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
