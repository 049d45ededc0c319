"""A run of a function of any kind, of which an aspect that watches calls sees the turns and the end.

A function or a coroutine has one turn. A generator has one for each item, and does not run between them: what an aspect
sets up for a turn, such as the current span, must not be seen by whoever takes the items.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Protocol, final

from aspecthook._core.law.call import Call, Site
from aspecthook._watching import Unwatched, failure, is_watched
from aspecthook.weave._steps import AsyncSteps, Steps

from ._aspect import AnyHook

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class Run(Protocol):
    """One run: a context manager for each turn, and what is called at the end."""

    def __enter__(self) -> object: ...

    # Any: what a context manager is given.
    def __exit__(self, *error: Any) -> object: ...

    def end(self, result: Any, exc: BaseException | None, /) -> None:
        """Take the result, or the exception that the run has failed with."""
        ...


def observed(site: Site, begin: Callable[[Call], Run]) -> AnyHook:
    """Return a hook for any kind of function that begins a run for each call that is watched."""
    style = site.signature.style

    def begun(call: Call) -> Run:
        with Unwatched():
            return begin(call)

    def ended(run: Run, result: Any, exc: BaseException | None) -> None:
        with Unwatched():
            run.end(result, failure(style, exc))

    def whole(call: Call) -> Generator[None, Any, None]:
        if not is_watched():
            yield
            return
        run = begun(call)
        try:
            with run:
                result = yield
        except BaseException as exc:
            ended(run, None, exc)
            raise
        ended(run, result, None)

    def stream(call: Call, proceed: AnyHook) -> Any:
        if not is_watched():
            return proceed()
        run = begun(call)
        return Steps(proceed(), partial(_turn, run), partial(ended, run))

    def astream(call: Call, proceed: AnyHook) -> Any:
        if not is_watched():
            return proceed()
        run = begun(call)
        return AsyncSteps(proceed(), partial(_aturn, run), partial(ended, run))

    return {"generator": stream, "async generator": astream}.get(style, whole)


@final
class Stopwatch:
    """A run that measures its turns, and passes on how many seconds they took, and the exception, at the end."""

    __slots__ = ("_clock", "_ended", "_spent", "_start")

    def __init__(self, clock: Callable[[], float], ended: Callable[[float, BaseException | None], None]) -> None:
        self._clock = clock
        self._ended = ended
        self._spent = 0.0

    def __enter__(self) -> None:
        self._start = self._clock()

    def __exit__(self, *_: object) -> None:
        self._spent += self._clock() - self._start

    def end(self, _: Any, exc: BaseException | None, /) -> None:
        """Pass the sum on."""
        self._ended(self._spent, exc)


def _turn(run: Run, step: Callable[..., Any], *args: Any) -> Any:
    with run:
        return step(*args)


async def _aturn(run: Run, step: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    with run:
        return await step(*args)
