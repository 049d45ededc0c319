"""Time-outs, by the cancellation of asyncio and of anyio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, final

from aspecthook._core.law.call import Site
from aspecthook.weave._steps import astepped

from ._aspect import AnyHook, Aspect, is_async, is_generator, needed, number, refused

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


def timeout(seconds: float) -> Aspect:
    """Raise `TimeoutError` in the caller if a call takes too long.

    The call is cancelled, on asyncio and on trio; for an async generator, the limit holds for each item. A sync
    function is refused, since nothing can interrupt it.

    Args:
        seconds: The time that a call may take.

    Raises:
        HookOptionError: The number of seconds is not positive.

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
        if not is_async(site):
            raise refused("timeout", site, "nothing can interrupt it; weave the async function that it is called by")
        needed("anyio", "timeout")

        async def in_time(step: Callable[..., Awaitable[Any]], *args: Any) -> Any:
            limit = _limit(seconds)
            try:
                async with limit:
                    return await step(*args)
            except TimeoutError as error:
                if limit.expired():
                    raise TimeoutError(f"{site.label} has taken more than {seconds:g} s") from error
                raise

        async def call(proceed: AnyHook) -> Any:
            return await in_time(proceed)

        def stream(proceed: AnyHook) -> AsyncGenerator[Any, Any]:
            return astepped(proceed(), in_time)

        return stream if is_generator(site) else call

    return Aspect("timeout", make, seconds=seconds)


# Any: that of asyncio, or a `_Scope`.
def _limit(seconds: float) -> Any:
    """Return an async block that is cancelled after so many seconds."""
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    # Not anyio's on asyncio: that cancels again and again, also what a task does to clean up.
    return _Scope(seconds) if task is None else asyncio.timeout(seconds)


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
