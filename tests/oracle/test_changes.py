"""Calls in the middle of a change, as signal handlers make them: they run what is there before it or after it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aspecthook import event, hookable, hooks

# What makes a target, and its change: hooks are `a`, `b` and perhaps `c`.
CHANGES: dict[str, Callable[[Any, Callable[[str], Any]], object]] = {
    "add": lambda mount, named: mount.add("pre", named("c"), name="c", before="b"),
    "add another kind": lambda mount, named: mount.add("always", named("c"), name="c"),
    "remove": lambda mount, named: mount.remove("a"),
    "remove the second": lambda mount, named: mount.remove("b"),
    "pause one": lambda mount, named: mount.set_paused(mount.members[:1], paused=True),
    "pause all": lambda mount, named: (pause := mount.paused(), pause.__enter__()),
    "clear": lambda mount, named: mount.clear(),
    "add to none": lambda mount, named: (mount.clear(), mount.add("pre", named("c"), name="c")),
}


def function(log: list[str]) -> Any:
    @hookable
    def target() -> None:
        log.append("target")

    return target


def closure(log: list[str]) -> Any:
    return hookable(lambda: log.append("target"))


def method(log: list[str]) -> Any:
    class Owner:
        @hookable
        def target(self) -> None:
            log.append("target")

    return Owner().target


def subscribed(log: list[str]) -> Any:
    @event
    def target() -> None:
        log.append("target")

    return target


@contextmanager
def called_at(place: int, act: Callable[[], object]) -> Iterator[list[int]]:
    """Act at one of the calls and returns in a block, as a handler of a signal might; count them."""
    count = [0]

    def profile(*_: object) -> None:
        count[0] += 1
        if count[0] == place:
            sys.setprofile(None)
            try:
                act()
            finally:
                sys.setprofile(profile)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


def interrupted(make: Callable[[list[str]], Any], change: str, place: int) -> tuple[list[list[str]], int]:
    """Return what calls run before a change, in the middle of it and after it, and how long it took."""
    log: list[str] = []
    target = make(log)
    mount = hooks(target)
    seen: list[list[str]] = []

    def named(name: str) -> Callable[[], None]:
        return lambda: log.append(name)

    def call() -> None:
        log.clear()
        target()
        seen.append([*log])

    mount.add("pre", named("a"), name="a")
    mount.add("pre", named("b"), name="b")
    call()
    with called_at(place, call) as count:
        _kept = CHANGES[change](mount, named)  # a pause that nobody holds ends
    call()
    return seen, count[0]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make", [function, closure, method, subscribed])
def test_a_call_in_the_middle_of_a_change_runs_what_is_there_before_or_after_it(
    make: Callable[[list[str]], Any], change: str
) -> None:
    (before, after), length = interrupted(make, change, -1)
    between = [["target"]] if change == "add to none" else []
    for place in range(1, length, 2):
        seen, _ = interrupted(make, change, place)
        assert seen[0] == before and seen[-1] == after, place
        assert len(seen) == 2 or seen[1] in (before, after, *between), place
