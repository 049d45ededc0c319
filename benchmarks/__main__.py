"""Measure the speed of aspecthook beside hand-written code and other libraries, and hold it against the goals."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from subprocess import PIPE, run
from time import perf_counter

from . import calls, changes, events, imports, modules, mounts, recording, training, weaving
from .results import Contest, as_data, lines, machine, save_goals, summary
from .timing import Effort

SECTIONS: dict[str, Callable[[Effort], list[Contest]]] = {
    "idle": calls.idle,
    "chains": calls.chains,
    "kinds": calls.kinds,
    "instances": calls.instances,
    "attach": changes.attach,
    "first": changes.first,
    "many": changes.many,
    "weave": weaving.weaving,
    "mounts": mounts.mounts,
    "events": events.events,
    "record": recording.recording,
    "trace": recording.tracing,
    "torch": modules.modules,
    "import": imports.imports,
    "training": training.training,
}


def main() -> None:
    """Run the sections, each in several processes, and print what they measured."""
    options = _options()
    effort = Effort(12, 0.001, 10) if options.fast else Effort(50, 0.002, 1)
    if options.worker:
        json.dump(as_data(SECTIONS[options.worker](effort)), sys.stdout)
        return
    begun = perf_counter()
    print(machine())
    print("Medians over the rounds of all processes; in each round all contenders run in turn.")
    contests: list[Contest] = []
    for section in options.sections or SECTIONS:
        found = _measured(section, options.processes or (1 if options.fast else 3), fast=options.fast)
        print(*lines(found), sep="\n", flush=True)
        contests += found
    print(*summary(contests), sep="\n")
    print(f"\nTook {perf_counter() - begun:.0f} s.")
    if options.goals:
        save_goals(contests, options.goals)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"what to measure: {', '.join(SECTIONS)}")
    parser.add_argument("--fast", action="store_true", help="a rough look, in seconds")
    parser.add_argument("--processes", type=int, help="how many processes to pool (3; with --fast 1)")
    parser.add_argument("--goals", metavar="FILE", help="keep the goals and what was measured, for benchmarks.table")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}; the sections are {', '.join(SECTIONS)}")
    return options


def _measured(section: str, processes: int, *, fast: bool) -> list[Contest]:
    """Pool several processes: where things lie in memory differs from one to the next, and so does speed."""
    pooled: list[Contest] = []
    for _ in range(processes):
        command = [sys.executable, "-m", "benchmarks", "--worker", section, *(["--fast"] if fast else [])]
        output = run(command, check=True, stdout=PIPE, text=True).stdout
        found = [Contest.read(data) for data in json.loads(output)]
        for one, other in zip(pooled, found, strict=False):
            one.add(other)
        pooled = pooled or found
    return pooled


if __name__ == "__main__":
    main()
