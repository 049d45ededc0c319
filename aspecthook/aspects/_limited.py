"""Limits: so many calls in some time, and so many at once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from threading import BoundedSemaphore, Lock
from typing import Any, final

from aspecthook._core.law.call import Site
from aspecthook._errors import HookOptionError, plural

from ._aspect import AnyHook, Aspect, count, is_async, needed, number, wait_by
from ._errors import LimitError

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def limited(
    rate: int | None = None,
    *,
    per: float = 1.0,
    concurrency: int | None = None,
    wait: bool = True,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] | None = None,
) -> Aspect:
    """Limit how often a function is called, and how many calls run at once.

    Async functions wait without blocking their loop; the calls at once are counted for each loop.

    Args:
        rate: At most so many calls begin in any `per` seconds.
        per: The length of that time, in seconds.
        concurrency: At most so many calls run at once.
        wait: Whether a call waits until there is room; if not, it raises `LimitError`.
        clock: What tells the time, in seconds.
        sleep: What waits, instead of `time.sleep` and of the sleep of the loop that runs.

    Raises:
        HookOptionError: A setting has a value that it cannot have.

    Example:
        >>> from aspecthook import weave
        >>> def search(word):
        ...     return [word]
        >>> with weave(search, aspect=limited(2, per=60, wait=False)):
        ...     search("tea"), search("mate"), search("coffee")
        Traceback (most recent call last):
          ...
        aspecthook.aspects.LimitError: ...:search is limited to 2 calls in 60 s; try again in ... s
    """
    if rate is None and concurrency is None:
        raise HookOptionError("limited: give a rate, as in limited(10, per=1), or concurrency=, or both")
    rate = None if rate is None else count("limited", "rate", rate)
    slots = None if concurrency is None else count("limited", "concurrency", concurrency)
    per = number("limited", "per", per)
    anyio = needed("anyio", "limited")

    def make(site: Site) -> AnyHook:
        window = None if rate is None else _Window(site.label, rate, per, clock)
        busy = f"{site.label} is limited to {plural(slots or 0, 'call')} at once"

        def take() -> float:
            return 0.0 if window is None else window.take(wait=wait)

        def hook() -> Generator[None]:
            if semaphore is not None and not semaphore.acquire(blocking=wait):
                raise LimitError(busy)
            try:
                if delay := take():
                    (sleep or time.sleep)(delay)
                yield
            finally:
                if semaphore is not None:
                    semaphore.release()

        async def hook_async() -> AsyncGenerator[None]:
            free = None
            if slots is not None:
                free = of_loop.get(None)
                if free is None:
                    of_loop.set(free := anyio.Semaphore(slots, fast_acquire=True))
                if wait:
                    await free.acquire()
                else:
                    try:
                        free.acquire_nowait()
                    except anyio.WouldBlock:
                        raise LimitError(busy) from None
            try:
                if delay := take():
                    await wait_by(sleep or anyio.sleep, delay)
                yield
            finally:
                if free is not None:
                    free.release()

        semaphore = None if slots is None else BoundedSemaphore(slots)
        of_loop = anyio.lowlevel.RunVar("semaphore")
        return hook_async if is_async(site) else hook

    return Aspect("limited", make, rate=rate, per=per, concurrency=slots, wait=wait)


@final
class _Window:
    """The last calls, as many as may begin in some time: a call may begin when the first of them is old enough."""

    def __init__(self, label: str, rate: int, per: float, clock: Callable[[], float]) -> None:
        self._label, self._rate, self._per = label, rate, per
        self._clock = clock
        self._begun: deque[float] = deque(maxlen=rate)
        self._lock = Lock()

    def take(self, *, wait: bool) -> float:
        """Take a place and return in how many seconds the call may begin."""
        with self._lock:
            now = begin = self._clock()
            if len(self._begun) == self._rate:
                begin = max(now, self._begun[0] + self._per)
            if begin > now and not wait:
                raise LimitError(
                    f"{self._label} is limited to {plural(self._rate, 'call')} in {self._per:g} s; try again in "
                    f"{begin - now:.3g} s",
                    begin - now,
                )
            self._begun.append(begin)
            return begin - now
