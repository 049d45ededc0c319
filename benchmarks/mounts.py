"""What one of thousands of mount points costs: in a package decorated throughout, and in a program woven throughout."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import count
from time import process_time
from types import ModuleType
from typing import Any

from aspecthook import Weaving, hookable, weave

from . import targets
from .results import Contest, Goal
from .timing import Effort, grown

FEW, MANY, IN_MODULE = 1_000, 16_000, 100
_numbers = count(1)


def mounts(effort: Effort) -> list[Contest]:
    """Decorate functions; weave them by one pointcut, call each of them once, and remove the hooks; count the bytes."""
    few, many = FEW // effort.cut, MANY // effort.cut
    acts = ("weave by one pointcut", "first call", "remove")
    times: dict[str, list[float]] = {"@hookable": []}
    times.update({f"{act}, of {size:,}": [] for act in acts for size in (few, many)})
    _woven(_Functions(10))  # compiles the templates
    for _ in range(max(2, effort.rounds // 10)):
        decorated = _Functions(many)
        times["@hookable"].append(_timed(decorated.decorate) / many)
        for size in (few, many):
            functions = _Functions(size)
            for act, step in zip(acts, (functions.weave, functions.call, functions.remove), strict=True):
                times[f"{act}, of {size:,}"].append(_timed(step) / size)
    goals = [Goal("@hookable", 8e-6)]
    for act, limit in (("weave by one pointcut", 60e-6), ("first call", 15e-6)):
        most = f"{act}, of {many:,}"
        goals += [Goal(most, limit), Goal(most, 1.5, f"{act}, of {few:,}")]
    return [Contest("mounts", "Each of many functions", "µs", times, goals=goals), _memory(many)]


class _Functions:
    """Functions in modules of a hundred."""

    def __init__(self, many: int) -> None:
        lead = f"many_{next(_numbers)}"
        size = min(many, IN_MODULE)
        source = "\n".join(f"def work_{place}(x, y=1):\n    return x + y" for place in range(size))
        self.modules = [ModuleType(f"{lead}_{number}") for number in range(many // size)]
        for module in self.modules:
            exec(source, vars(module))
            sys.modules[module.__name__] = module
        self.pointcut = f"{lead}_*:*"
        spaces = [vars(module).items() for module in self.modules]
        self.functions: list[Any] = [value for space in spaces for name, value in space if name.startswith("work_")]
        self.weaving: Weaving | None = None

    def decorate(self) -> None:
        for function in self.functions:
            hookable(function)

    def weave(self) -> None:
        self.weaving = weave(self.pointcut, pre=targets.nothing)

    def call(self) -> None:
        for function in self.functions:
            function(1)

    def remove(self) -> None:
        assert self.weaving is not None
        self.weaving.remove()
        for module in self.modules:
            del sys.modules[module.__name__]


def _woven(functions: _Functions) -> None:
    functions.weave()
    functions.call()


def _timed(act: Callable[[], object]) -> float:
    """Return the seconds of something that is done once, with the garbage collector at work as it is in a program.

    Those of this process alone: it takes too long for the others to be quiet all the while.
    """
    gc.collect()
    begun = process_time()
    act()
    return process_time() - begun


def _memory(many: int) -> Contest:
    """Return the bytes of a mount point, as tracemalloc sees them; the function itself is left out."""
    idle, woven = "an idle mount point", "a woven function that has been called"
    decorated, called = _Functions(many), _Functions(many)
    sizes = {idle: grown(decorated.decorate), woven: grown(lambda: _woven(called))}
    called.remove()
    times = {name: [size / many] for name, size in sizes.items()}
    return Contest("mounts", f"Each of {many:,} functions", "bytes", times, goals=[Goal(idle, 1000), Goal(woven, 2500)])
