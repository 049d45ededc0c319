"""Threads for tests that need several at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


def at_once(*works: Callable[[], object], within: float = 60, switching: float | None = None) -> None:
    """Run works in threads that begin together, and end within so many seconds; raise what the first of them raised.

    The interpreter switches between them each `switching` seconds, if that is given.
    """
    barrier = threading.Barrier(len(works))
    raised: list[BaseException] = []

    def begin(work: Callable[[], object]) -> None:
        try:
            barrier.wait(within)
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=begin, args=(work,), daemon=True) for work in works]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(switching or interval)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(within)
    finally:
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads)
    if raised:
        raise raised[0]
