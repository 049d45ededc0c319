"""Law 5 across `fork`: a child of a process whose other threads add, remove and call is free to do the same."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from aspecthook import hooks
from tests.stress.cases import for_both, run

FORKS = 50


def child(work: Callable[[], None]) -> int:
    """Fork, do a work in the child, and give how the child ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads, which is our case
        pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 1
    try:
        signal.alarm(120)  # a child that hangs is killed, and fails
        work()
        code = 0
    finally:
        os._exit(code)


def beside(work: Callable[[], None], other: Callable[[], object]) -> None:
    """Do a work in many children, one after another, while four threads do another work over and over."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            other()

    threads = [threading.Thread(target=repeat, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(FORKS):
            status = child(work)
            assert status == 0, f"child {number} ended with {status}"
    finally:
        over.set()
    for thread in threads:
        thread.join()


def churn(function: Any) -> None:
    hook = hooks(function).add("pre", lambda: None)
    function()
    hook.remove()


def a_child_adds_calls_and_removes(function: Any) -> None:
    def work() -> None:
        log: list[int] = []
        hook = hooks(function).add("post", lambda: log.append(1))
        function()
        assert log == [1], log
        hook.remove()
        function()
        assert log == [1], log
        hooks(function).clear()
        assert len(hooks(function)) == 0

    beside(work, partial(churn, function))


def a_child_calls_hooks_that_count(function: Any) -> None:
    # From 3.14 on, a child was forked with the lock of the counts held by a thread that it does not have.
    parent = os.getpid()
    log: list[int] = []

    def note() -> None:
        # Without the GIL a child cannot use a list that another thread was just changing: it stays locked there.
        if os.getpid() != parent:
            log.append(1)

    function.pre(every=1)(note)
    function.pre(every=2)(lambda: None)
    function.pre(times=10**9)(lambda: None)

    def work() -> None:
        function()
        function()
        assert log == [1, 1], log

    beside(work, function)
    hooks(function).clear()


CASES = {
    "a_child_adds_calls_and_removes": for_both(a_child_adds_calls_and_removes),
    "a_child_calls_hooks_that_count": for_both(a_child_calls_hooks_that_count),
}
if __name__ == "__main__":
    run(CASES)
