"""Times contenders side by side, so that whatever slows the machine down slows all of them alike."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from pyperf import perf_counter

Timer = Callable[[int], float]

# A statement is written out so many times in the timed loop that the loop itself no longer shows.
UNROLLED = 10

# CPython's stack of Python frames comes in chunks of 16 KiB. A call that starts just before the end of one takes a new
# chunk and gives it back again, each time, which costs microseconds; so each round runs at another depth.
DEPTHS = 97
STRIDE = 41


class Effort(NamedTuple):
    """How many rounds a process runs, how long a sample lasts (seconds), and how far sizes are cut down."""

    rounds: int
    sample: float
    cut: int


@dataclass(frozen=True)
class Contender:
    """A statement to be timed, and the names that it uses."""

    name: str
    statement: str
    names: dict[str, Any] = field(default_factory=dict)
    per_statement: int = 1  # how many calls (or items) one statement stands for
    clock: Callable[[], float] = perf_counter

    def timer(self) -> Timer:
        """Compile the timed loop; in one loop for all, contenders would spoil each other's inline caches."""
        asynchronous = self.statement.startswith("await ")
        given = "".join(f", {name}={name}" for name in self.names)
        body = f"\n        {self.statement}" * UNROLLED
        source = (
            f"{'async ' if asynchronous else ''}def run(loops{given}):\n"
            f"    rounds = repeat(None, loops)\n    begun = perf_counter()\n"
            f"    for _ in rounds:{body}\n    return perf_counter() - begun\n"
        )
        namespace = {**self.names, "repeat": repeat, "perf_counter": self.clock}
        exec(compile(source, f"<{self.name}>", "exec"), namespace)
        run: Any = namespace["run"]
        return _driven(run) if asynchronous else run


def _driven(run: Callable[[int], Any]) -> Timer:
    """Drive a coroutine that never really waits, without the cost of an event loop."""

    def drive(loops: int) -> float:
        try:
            run(loops).send(None)
        except StopIteration as stop:
            return float(stop.value)
        raise RuntimeError("the timed coroutine waited for something")

    return drive


@contextmanager
def without_gc() -> Iterator[None]:
    """Keep the garbage collector out of the samples, as `timeit` does."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def race(contenders: Sequence[Contender], effort: Effort) -> dict[str, list[float]]:
    """Time all contenders in turn, round after round; give each one's seconds per call, one entry a round.

    What first calls leave behind (code just linked, garbage, caches that have yet to adapt) is felt for many rounds, so
    that a race is run twice, with timers made anew, and only the second one counts.
    """
    _run(contenders, effort._replace(rounds=effort.rounds // 2))
    times = _run(contenders, effort)
    return {contender.name: row for contender, row in zip(contenders, times, strict=True)}


def _run(contenders: Sequence[Contender], effort: Effort) -> list[list[float]]:
    timers = [contender.timer() for contender in contenders]
    times: list[list[float]] = [[] for _ in contenders]
    with without_gc():
        loops = [_calibrated(timer, effort.sample) for timer in timers]
        for number in range(effort.rounds):
            for step in range(len(timers)):
                place = (number + step) % len(timers)  # no contender always runs after the same neighbour
                calls = loops[place] * UNROLLED * contenders[place].per_statement
                taken = _deeper(number * STRIDE % DEPTHS, timers[place], loops[place])
                times[place].append(taken / calls)
    return times


def _deeper(levels: int, timer: Timer, loops: int) -> float:
    """Run a sample some frames deeper in the stack."""
    return _deeper(levels - 1, timer, loops) if levels else timer(loops)


def _calibrated(timer: Timer, sample: float) -> int:
    """Find how many loops fill a sample; the runs that this takes are the warm-up as well."""
    loops = 1
    while (taken := timer(loops)) < sample / 2:
        loops *= 2
    timer(loops)
    return max(1, round(loops * sample / taken))


def shots(prepared: dict[str, Callable[[], Callable[[], object]]], rounds: int) -> dict[str, list[float]]:
    """Time what can be done only once: each preparation gives the act to be timed, in turn, round after round."""
    times: dict[str, list[float]] = {name: [] for name in prepared}
    for _ in range(rounds):
        for name, prepare in prepared.items():
            act = prepare()
            begun = perf_counter()
            act()
            times[name].append(perf_counter() - begun)
    return times


def repeated(acts: dict[str, Callable[[], object]], effort: Effort) -> dict[str, list[float]]:
    """Time acts that can be repeated, in turn, with the garbage collector at work as it is in a program."""
    counts = {name: max(1, int(effort.sample / _once(act))) for name, act in acts.items()}
    times: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(effort.rounds):
        for name, act in acts.items():
            begun = perf_counter()
            for _ in repeat(None, counts[name]):
                act()
            times[name].append((perf_counter() - begun) / counts[name])
    return times


def grown(act: Callable[[], object]) -> int:
    """Return the bytes that an act leaves behind, as tracemalloc sees them."""
    gc.collect()
    tracemalloc.start()
    try:
        act()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _once(act: Callable[[], object]) -> float:
    act()
    begun = perf_counter()
    act()
    return perf_counter() - begun
