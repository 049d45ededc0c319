"""Limits: so many calls in some time, and so many at once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from threading import BoundedSemaphore, Lock
from typing import Any, final

from aspecthook._core.law.call import Site
from aspecthook._errors import AspecthookError, HookOptionError, plural

from ._aspect import AnyHook, Aspect, is_async, needed, number, wait_by

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class LimitError(AspecthookError, RuntimeError):
    """A call that `limited` has refused. Its ``retry_after`` is in how many seconds there is room; None: unknown.

    Example:
        >>> from aspecthook import weave
        >>> from aspecthook.aspects import LimitError, limited
        >>> def search(word):
        ...     return [word]
        >>> with weave(search, aspect=limited(1, per=60, wait=False)):
        ...     found = search("tea")
        ...     try:
        ...         search("mate")
        ...     except LimitError as error:
        ...         print(error.retry_after > 50)
        True
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


LimitError.__module__ = "aspecthook.aspects"  # what users import


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
    rate = None if rate is None else int(number("limited", "rate", rate, whole=True))
    slots = None if concurrency is None else int(number("limited", "concurrency", concurrency, whole=True))
    per = number("limited", "per", per)
    anyio = needed("anyio", "limited")

    def make(site: Site) -> AnyHook:
        window = None if rate is None else _Window(site.label, rate, per, clock, wait=wait)
        room = None if slots is None else _Room(site.label, slots, wait=wait)

        def hook() -> Generator[None]:
            with nullcontext() if room is None else room.enter():
                if window is not None and (delay := window.take()):
                    (sleep or time.sleep)(delay)
                yield

        async def async_hook() -> AsyncGenerator[None]:
            async with nullcontext() if room is None else room.enter_async():
                if window is not None and (delay := window.take()):
                    await wait_by(sleep or anyio.sleep, delay)
                yield

        return async_hook if is_async(site) else hook

    return Aspect("limited", make, rate=rate, per=per, concurrency=slots, wait=wait)


@final
class _Room:
    """Room for so many calls at once; for async calls, in each loop."""

    def __init__(self, label: str, slots: int, *, wait: bool) -> None:
        self._busy = f"{label} is limited to {plural(slots, 'call')} at once"
        self._slots, self._wait = slots, wait
        self._semaphore = BoundedSemaphore(slots)
        self._anyio = needed("anyio", "limited")
        self._of_loop: Any = self._anyio.lowlevel.RunVar("semaphore")

    @contextmanager
    def enter(self) -> Generator[None]:
        """Wait until there is room, or raise a `LimitError`; make room again at the end of the block."""
        if not self._semaphore.acquire(blocking=self._wait):
            raise LimitError(self._busy)
        try:
            yield
        finally:
            self._semaphore.release()

    @asynccontextmanager
    async def enter_async(self) -> AsyncGenerator[None]:
        """Do the same in the loop that runs."""
        semaphore = self._of_loop.get(None)
        if semaphore is None:
            semaphore = self._anyio.Semaphore(self._slots, fast_acquire=True)
            self._of_loop.set(semaphore)
        try:
            await semaphore.acquire() if self._wait else semaphore.acquire_nowait()
        except self._anyio.WouldBlock:
            raise LimitError(self._busy) from None
        try:
            yield
        finally:
            semaphore.release()


@final
class _Window:
    """The last calls, as many as may begin in some time: a call may begin when the first of them is old enough."""

    def __init__(self, label: str, rate: int, per: float, clock: Callable[[], float], *, wait: bool) -> None:
        self._label, self._rate, self._per, self._wait = label, rate, per, wait
        self._clock = clock
        self._begun: deque[float] = deque(maxlen=rate)
        self._lock = Lock()

    def take(self) -> float:
        """Take a place and return in how many seconds the call may begin."""
        with self._lock:
            now = begin = self._clock()
            if len(self._begun) == self._rate:
                begin = max(now, self._begun[0] + self._per)
            if begin > now and not self._wait:
                raise LimitError(
                    f"{self._label} is limited to {plural(self._rate, 'call')} in {self._per:g} s; try again in "
                    f"{begin - now:.3g} s",
                    begin - now,
                )
            self._begun.append(begin)
            return begin - now
