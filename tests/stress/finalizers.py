"""Law 5 from finalizers, which run at any allocation: also in the middle of a change, by the thread that makes it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

from aspecthook import hooks
from tests.stress.cases import for_both, run

ROUNDS = 600
SPREAD = 120  # how many allocations may lie between the start of a change and the collection that strikes it


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.me = self


class Doing(Cycle):
    """Does a work when it is collected."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self.work = work

    def __del__(self) -> None:
        self.work()


def leave_to_the_collector(number: int, work: Callable[[], object]) -> None:
    """Have a work done by a collection that comes a little later; `number` says when, and how."""
    gc.collect()
    if number % 2:
        Doing(work)
    else:
        weakref.finalize(Cycle(), work)
    gc.set_threshold(1 + number // 2 % SPREAD)


def collected() -> None:
    gc.set_threshold(700)
    gc.collect()


def crowded(function: Any) -> None:
    """Add so many hooks that a new chain is a tuple which the interpreter has to allocate, and may collect for."""
    for _ in range(30):
        hooks(function).add("pre", lambda: None, name="old")


def names(function: Any) -> list[str]:
    return [hook.name for hook in hooks(function) if hook.name != "old"]


def hooks_removed_by_the_collector_stay_off(function: Any) -> None:
    # The change that was interrupted stored what it had read before: the hook came back.
    crowded(function)
    for number in range(ROUNDS):
        gone = hooks(function).add("pre", lambda: None, name="gone")
        leave_to_the_collector(number, gone.remove)
        stays = hooks(function).add("pre", lambda: None, name="stays")
        collected()
        assert names(function) == ["stays"], names(function)
        stays.remove()
    hooks(function).clear()


def hooks_added_by_the_collector_while_a_call_links_run(function: Any) -> None:
    # The call put the chain in that it had read before, and the hook ran only after the next change.
    log: list[str] = []
    for number in range(ROUNDS):
        hook = hooks(function).add("pre", lambda: log.append("first"))
        leave_to_the_collector(number, lambda: hooks(function).add("post", lambda: log.append("added"), name="added"))
        function()
        collected()
        log.clear()
        function()
        assert log == ["first", "added"], (number, log)
        hooks(function).remove("added")
        hook.remove()


CASES = {
    "hooks_removed_by_the_collector_stay_off": for_both(hooks_removed_by_the_collector_stay_off),
    "hooks_added_while_a_call_links_run": for_both(hooks_added_by_the_collector_while_a_call_links_run),
}
if __name__ == "__main__":
    gc.freeze()  # so that collections look at nothing but what the cases make
    run(CASES)
