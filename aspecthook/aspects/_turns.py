"""A run of a function of any kind, of which an aspect that watches calls sees the turns and the end.

A function or a coroutine has one turn. A generator has one for each item, and does not run between them: what an aspect
sets up for a turn, such as the current span, must not be seen by whoever takes the items.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from aspecthook._core.law.call import Call, Site
from aspecthook._watching import Unwatched, failure, is_watched
from aspecthook.weave._steps import End, astepped, stepped

from ._aspect import AnyHook

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

# A context manager for each turn of a run.
TurnContext: TypeAlias = Callable[[], AbstractContextManager[Any]]


def observed(site: Site, begin: Callable[[Call], tuple[TurnContext, End]]) -> AnyHook:
    """Return a hook for any kind of function that begins a run for each call that is watched."""
    style = site.signature.style

    def begun(call: Call) -> tuple[TurnContext, End]:
        with Unwatched():
            context, end = begin(call)

        def ended(result: Any, exc: BaseException | None) -> None:
            with Unwatched():
                end(result, failure(style, exc))

        return context, ended

    def whole(call: Call) -> Generator[None, Any, None]:
        if not is_watched():
            yield
            return
        context, end = begun(call)
        try:
            with context():
                result = yield
        except BaseException as exc:
            end(None, exc)
            raise
        end(result, None)

    def stream(call: Call, proceed: AnyHook) -> Any:
        if not is_watched():
            return proceed()
        context, end = begun(call)

        def turn(step: Callable[..., Any], *args: Any) -> Any:
            with context():
                return step(*args)

        return stepped(proceed(), turn, end)

    def astream(call: Call, proceed: AnyHook) -> Any:
        if not is_watched():
            return proceed()
        context, end = begun(call)

        async def turn(step: Callable[..., Awaitable[Any]], *args: Any) -> Any:
            with context():
                return await step(*args)

        return astepped(proceed(), turn, end)

    return {"generator": stream, "async generator": astream}.get(style, whole)
