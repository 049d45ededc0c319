"""Limits: so many calls in some time."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from aspecthook._core.law.call import Site
from aspecthook._errors import AspecthookError, plural

from ._aspect import AnyHook, Aspect, is_async, needed, number, wait_by

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class LimitError(AspecthookError, RuntimeError):
    """A call was refused by `limited`. Its ``retry_after`` is the number of seconds until there is room.

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

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


LimitError.__module__ = "aspecthook.aspects"  # what users import


def limited(
    rate: int,
    *,
    per: float = 1.0,
    wait: bool = True,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] | None = None,
) -> Aspect:
    """Limit how often a function is called. Async functions wait without blocking their loop.

    To limit how many calls run at once, write an around hook that yields inside ``with semaphore:``.

    Args:
        rate: The number of calls that may begin in any `per` seconds.
        per: The length of that time, in seconds.
        wait: Whether a call waits until there is room; if not, it raises `LimitError`.
        clock: A function that returns the time, in seconds.
        sleep: A function that waits, instead of `time.sleep` and the sleep of the running loop.

    Raises:
        HookOptionError: A setting has an invalid value.

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
    rate = int(number("limited", "rate", rate, whole=True))
    per = number("limited", "per", per)

    def make(site: Site) -> AnyHook:
        begun: list[float] = []  # when the last calls began, or will
        lock = Lock()

        @contextmanager
        def place() -> Generator[float]:
            """Take a place for a block that waits so many seconds for it, and give it back if the block fails."""
            with lock:
                now = begin = clock()
                while begun and begun[0] + per <= now:
                    del begun[0]
                if len(begun) >= rate:
                    begin = begun[-rate] + per
                if begin > now and not wait:
                    called = f"{site.label} is limited to {plural(rate, 'call')} in {per:g} s"
                    raise LimitError(f"{called}; try again in {begin - now:.3g} s", begin - now)
                insort(begun, begin)
            try:
                yield begin - now
            except BaseException:
                with lock, suppress(ValueError):  # it may be so long ago that it has been dropped
                    begun.remove(begin)
                raise

        def hook() -> Generator[None]:
            with place() as delay:
                if delay:
                    (sleep or time.sleep)(delay)
            yield

        async def async_hook() -> AsyncGenerator[None]:
            with place() as delay:
                if delay:
                    await wait_by(sleep or needed("anyio", "limited").sleep, delay)
            yield

        return async_hook if is_async(site) else hook

    return Aspect("limited", make, rate=rate, per=per, wait=wait)
