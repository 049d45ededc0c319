"""Time-outs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from threading import Thread
from typing import Any, final

from aspecthook._core.law.call import Site
from aspecthook.weave._steps import AsyncSteps

from ._aspect import AnyHook, Aspect, is_async, is_generator, needed, number, refused

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def timeout(seconds: float, *, thread: bool = False) -> Aspect:
    """Raise `TimeoutError` in the caller if a call takes too long.

    What is async is cancelled, on asyncio and on trio; an async generator has the time for each of its items. A sync
    function cannot be interrupted: it is refused, unless it may run in another thread.

    Args:
        seconds: How long a call may take.
        thread: Run each call of a sync function in a thread of its own, with a copy of the context. When the time is
            up, that thread runs on, and what it returns is dropped.

    Raises:
        HookOptionError: The number of seconds is not above zero.

    Example:
        >>> import asyncio
        >>> from aspecthook import weave
        >>> async def fetch():
        ...     await asyncio.Event().wait()
        >>> with weave(fetch, aspect=timeout(0.01)):
        ...     asyncio.run(fetch())
        Traceback (most recent call last):
          ...
        TimeoutError: ...:fetch has taken more than 0.01 s
    """
    seconds = number("timeout", "seconds", seconds)

    def make(site: Site) -> AnyHook:
        message = f"{site.label} has taken more than {seconds:g} s"

        async def limited(step: Callable[..., Awaitable[Any]], *args: Any) -> Any:
            async with _limit(seconds, message):
                return await step(*args)

        async def call_async(proceed: AnyHook) -> Any:
            return await limited(proceed)

        def stream(proceed: AnyHook) -> AsyncSteps:
            return AsyncSteps(proceed(), limited)

        def call(proceed: AnyHook) -> Any:
            return _in_thread(proceed, seconds, message)

        if is_async(site):
            needed("anyio", "timeout")
            return stream if is_generator(site) else call_async
        if is_generator(site):
            raise refused("timeout", site, "nothing can interrupt it; weave the functions that it calls")
        if not thread:
            raise refused(
                "timeout",
                site,
                f"nothing can interrupt it; timeout({seconds:g}, thread=True) runs each call in a thread of its own, "
                "which runs on when the time is up",
            )
        return call

    return Aspect("timeout", make, seconds=seconds, thread=thread)


@asynccontextmanager
async def _limit(seconds: float, message: str) -> AsyncGenerator[None]:
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    # Not anyio's on asyncio: that cancels again and again, also what a task does to clean up.
    limit: Any = _Scope(seconds) if task is None else asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise TimeoutError(message) from error
        raise


@final
class _Scope:
    """A scope of anyio with the methods of `asyncio.timeout`."""

    def __init__(self, seconds: float) -> None:
        self._manager = needed("anyio", "timeout").fail_after(seconds)

    async def __aenter__(self) -> None:
        self._scope = self._manager.__enter__()

    async def __aexit__(self, *error: Any) -> Any:
        return self._manager.__exit__(*error)

    def expired(self) -> bool:
        """Whether the time is up."""
        return bool(self._scope.cancelled_caught)


def _in_thread(function: Callable[[], Any], seconds: float, message: str) -> Any:
    from concurrent.futures import Future

    outcome: Future[Any] = Future()
    context = copy_context()

    def run() -> None:
        try:
            outcome.set_result(context.run(function))
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=run, name=message.partition(" ")[0], daemon=True).start()
    try:
        return outcome.result(seconds)
    except TimeoutError:
        if not outcome.done():
            raise TimeoutError(message) from None
        return outcome.result()  # the function's own, or it has just ended
