"""What it costs to add and remove hooks, to call for the first time after that, and to carry 10,000 of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain, repeat
from random import Random
from typing import Any

from . import targets
from .results import Contest, Goal
from .timing import Contender, Effort, race, repeated, shots

MANY = 10_000


def attach(effort: Effort) -> list[Contest]:
    """Add and remove one hook of a shape that is known."""
    quiet, called, hook = targets.target(), targets.target(), targets.hook("x")

    def add_remove() -> None:
        quiet.pre(hook)
        quiet.hooks.remove(hook)

    def add_call_remove() -> None:
        called.pre(hook)
        called(1, 2)
        called.hooks.remove(hook)

    times = repeated({"add, remove": add_remove, "add, call, remove": add_call_remove}, effort)
    goals = [Goal("add, remove", 20e-6), Goal("add, call, remove", 25e-6)]
    return [Contest("attach", "One pre hook, shape known", "µs", times, goals=goals)]


def first(effort: Effort) -> list[Contest]:
    """Call functions for the first time whose parameters have names that were never seen, with shapes known and new."""
    contests: list[Contest] = []
    for title, limit, new in (("Names never seen, shape known", 60e-6, False), ("A new shape", 300e-6, True)):
        prepared: dict[str, Callable[[], Callable[[], object]]] = {
            "first call, 1 pre": partial(_first_call, new=new),
            "first call, 1 pre + 1 post": partial(_first_call, targets.hook("result"), new=new),
        }
        if new:
            prepared["add, call, remove"] = _whole
        times = shots(prepared, effort.rounds)
        contests.append(Contest("first", title, "µs", times, goals=[Goal(name, limit) for name in times]))
    return contests


def _first_call(*post: Any, new: bool) -> Callable[[], object]:
    function = targets.target_of_new_names()
    function.pre(targets.hook("x"))
    for hook in post:
        function.post(hook)
    if new:
        targets.forget_shapes()
    return lambda: function(1, 2)


def _whole() -> Callable[[], object]:
    function, hook = targets.target_of_new_names(), targets.hook("x")
    targets.forget_shapes()

    def whole() -> None:
        function.pre(hook)
        function(1, 2)
        function.hooks.remove(hook)

    return whole


def many(effort: Effort) -> list[Contest]:
    """Add 10,000 hooks one by one, then call; and what each of them then costs in a call."""
    count = MANY // effort.cut
    lots = targets.like_hooks("x", count)
    prepared: dict[str, Callable[[], Callable[[], object]]] = {
        "in the order they are added": lambda: _load(lots, repeat({})),
        "with random priorities": lambda: _load(lots, _random_priorities()),
        "each after= the one before it": lambda: _load(lots, _one_after_another(lots)),
    }
    times = shots(prepared, max(1, effort.rounds // 25))
    limit = 2.0 / effort.cut
    adding = Contest(
        "many", f"{count:,} hooks added one by one, and one call", "s", times, goals=[Goal(n, limit) for n in times]
    )
    return [adding, _each(lots, effort)]


def _load(hooks: list[Any], options: Any) -> Callable[[], object]:
    function = targets.target()

    def load() -> None:
        for hook, chosen in zip(hooks, options, strict=False):
            function.pre(hook, **chosen)
        function(1, 2)

    return load


def _random_priorities() -> Any:
    random = Random(1)
    return ({"priority": random.randrange(101)} for _ in repeat(None))


def _one_after_another(hooks: list[Any]) -> Any:
    return chain([{}], ({"after": hook} for hook in hooks))


def _each(lots: list[Any], effort: Effort) -> Contest:
    """Return the time of one hook within a call that runs `count` of them."""
    contenders = []
    for count in (10, len(lots)):
        function = targets.target()
        for hook in lots[:count]:
            function.pre(hook)
        contenders.append(Contender(f"a hook of {count:,}", "f(1, 2)", {"f": function}, count))
    times = race(contenders, effort)
    few, lot = times
    return Contest("many", "One hook's share of a call", "ns", times, few, [Goal(lot, 1.1, few)])
