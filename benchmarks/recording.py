"""What a recorded call costs over the bare call, beside cProfile, VizTracer and two hooks with clocks written by hand.

Each records the same calls in the same rounds, into memory, and is switched on for its own samples alone. What they
keep differs: cProfile counts and adds up times; VizTracer keeps the times of each call and, with `log_func_args`, texts
of its arguments; a tape keeps the times of each call, its exception, and the arguments and the result themselves.
"""

from __future__ import annotations

import cProfile
import gc
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import perf_counter, time
from typing import Any

from aspecthook import weave
from aspecthook.record import record

from . import targets
from .results import Contest, Goal
from .timing import Effort

try:
    from viztracer import VizTracer
except ImportError:  # no wheels for this Python
    VizTracer = None

CALLS = 1_000
ROOT = Path(__file__).resolve().parents[1]
STARTED = "its first line"
KEPT, TIMES, STREAMED = "record", "record, times alone", "record, to a file"


def recording(effort: Effort) -> list[Contest]:
    """Record a call of a function with two parameters; and what a call costs that is not recorded, beside others."""
    function, other = targets.define("def recorded(x, y):\n    return x + y"), targets.add
    contenders: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "two hooks with clocks, by hand": lambda: _by_hand(function),
        KEPT: lambda: record(function),
        TIMES: lambda: record(function, arguments=False),
        STREAMED: lambda: _streamed(function),
        "cProfile": lambda: cProfile.Profile(builtins=False),
    }
    if VizTracer is not None:
        contenders["VizTracer"] = lambda: _viztracer(log_func_args=False)
        contenders["VizTracer, log_func_args"] = lambda: _viztracer(log_func_args=True)
    times = _over_bare(contenders, _loop(function), effort)
    goals = [Goal(KEPT, 1e-6), Goal(TIMES, 0.35e-6)]
    if VizTracer is not None:
        goals.append(Goal(KEPT, 1.1, "VizTracer, log_func_args"))
    idle: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "record of another function": lambda: record(function),
        "cProfile": contenders["cProfile"],
    }
    # A tenth of a call of noise is none.
    beside = _timed(idle, _loop(other), effort)
    return [
        Contest("record", "A recorded call, over the bare call", "ns", times, goals=goals),
        Contest("record", "A call that is not recorded", "ns", beside, goals=[Goal(next(iter(idle)), 1.1, "bare")]),
    ]


def tracing(effort: Effort) -> list[Contest]:
    """Measure how much later than under `python` the first line of a program runs, and how much later it is over."""
    script = Path(sys.executable).with_name("aspecthook")  # what people type; `python -m` loads more
    traced = [sys.executable, str(script), "trace", "json:dumps", "--"]
    times: dict[str, list[float]] = {STARTED: [], "its end and the table": []}
    with tempfile.TemporaryDirectory() as folder:
        app = Path(folder) / "app.py"
        app.write_text("import time\nprint(time.time())\n")
        for _ in range(max(10, effort.rounds // 2)):
            (first, end), (first_traced, end_traced) = _run([sys.executable, str(app)]), _run([*traced, str(app)])
            times[STARTED].append(first_traced - first)
            times["its end and the table"].append(end_traced - end)
    title = "A program under `aspecthook trace`, over `python`"
    return [Contest("trace", title, "ms", times, goals=[Goal(STARTED, 0.1)])]


def _run(command: list[str]) -> tuple[float, float]:
    begun = time()
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT)
    return float(done.stdout) - begun, time() - begun


def _loop(function: Any) -> Callable[[], float]:
    def run(many: range = range(CALLS)) -> float:
        begun = perf_counter()
        for _ in many:
            function(1, 2)
        return (perf_counter() - begun) / CALLS

    return run


def _timed(
    contenders: dict[str, Callable[[], AbstractContextManager[object]]], run: Callable[[], float], effort: Effort
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"bare": [], **{name: [] for name in contenders}}
    for _ in range(effort.rounds):
        times["bare"].append(min(run() for _ in range(3)))
        for name, make in contenders.items():
            gc.collect()
            with make():
                run()
                times[name].append(min(run() for _ in range(3)))
    return times


def _over_bare(
    contenders: dict[str, Callable[[], AbstractContextManager[object]]], run: Callable[[], float], effort: Effort
) -> dict[str, list[float]]:
    times = _timed(contenders, run, effort)
    bare = times.pop("bare")
    return {name: [one - two for one, two in zip(row, bare, strict=True)] for name, row in times.items()}


@contextmanager
def _by_hand(function: Any) -> Iterator[None]:
    note, clock = list[float]().append, perf_counter

    def begin() -> None:
        note(clock())

    def end() -> None:
        note(clock())

    with weave(function, pre=begin, always=end):
        yield


@contextmanager
def _streamed(function: Any) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, record(function, to=Path(folder) / "calls.jsonl"):
        yield


@contextmanager
def _viztracer(*, log_func_args: bool) -> Iterator[None]:
    assert VizTracer is not None
    tracer = VizTracer(log_func_args=log_func_args, ignore_c_function=True, verbose=0)
    tracer.start()
    try:
        yield
    finally:
        tracer.stop()
        tracer.clear()
