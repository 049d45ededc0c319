"""Aspects whose state is shared by the calls of several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from aspecthook import weave
from aspecthook.aspects import LimitError, cached, limited, timed
from tests.aspects.conftest import Clock, Targets


def at_once(work: Callable[[int], object], threads: int = 8) -> None:
    """Run a function in several threads that begin together."""
    barrier = threading.Barrier(threads)

    def run(number: int) -> None:
        barrier.wait()
        work(number)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def test_every_call_is_counted_once() -> None:
    target, call = Targets().all["function"]
    timings, results = timed(), cached(maxsize=3)
    with weave(target, aspect=timings), weave(target, aspect=results):
        at_once(lambda number: [call(n % 7) for n in range(200)])
        [row] = timings.table()
    assert row.calls == 1600


def test_no_more_calls_begin_than_the_rate_allows() -> None:
    targets = Targets()
    target, call = targets.all["function"]
    refused: list[int] = []

    def work(number: int) -> None:
        for n in range(50):
            try:
                call(n)
            except LimitError:
                refused.append(n)

    with weave(target, aspect=limited(100, per=60, wait=False, clock=Clock())):
        at_once(work)
    assert len(targets.calls) == 100 and len(refused) == 300
