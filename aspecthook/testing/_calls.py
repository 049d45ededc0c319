"""Calls of a target of any style, and what can be known of it without a call."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple

from aspecthook._errors import HookTypeError
from aspecthook._values import shortened

from ._mount import MountPoint


def blank_of(mount: MountPoint) -> FunctionType:
    """Make a function that takes what the target takes: a scratch copy, which nobody calls."""
    function: Any = mount.function
    code = mount.code()
    cells = tuple([CellType() for _ in code.co_freevars])
    blank = FunctionType(code, {"__name__": "scratch"}, code.co_name, getattr(function, "__defaults__", None), cells)
    blank.__kwdefaults__ = getattr(function, "__kwdefaults__", None)
    return blank


def values_of(mount: MountPoint, given: Given) -> tuple[object, ...] | None:
    """Return what the parameters are given in a call, defaults filled in; None if the arguments do not fit."""
    try:
        found = inspect.signature(blank_of(mount)).bind(*given.bound, *given.args, **given.kwargs)
    except TypeError:
        return None
    found.apply_defaults()
    return tuple([found.arguments[name] for name in mount.site().signature.names])


def bound_of(target: object) -> tuple[object, ...]:
    """Return what a bound method passes before its arguments; nothing for a function."""
    return (target.__self__,) if isinstance(target, MethodType) else ()


class Given(NamedTuple):
    """What a call is given."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    bound: tuple[object, ...] = ()  # what a bound method passes before the arguments

    def __repr__(self) -> str:
        return ", ".join(
            [*map(shortened, self.args), *(f"{name}={shortened(value)}" for name, value in self.kwargs.items())]
        )


# Any: an awaitable of anything.
async def finished(awaitable: Awaitable[Any]) -> Any:
    """Make a coroutine of an awaitable."""
    return await awaitable


# Any: as above.
def run_to_end(awaitable: Awaitable[Any]) -> Any:
    """Run what a call of an async target returned, in an event loop of its own; refuse where one runs already."""
    refuse_running_loop(awaitable)
    return asyncio.run(finished(awaitable))


def refuse_running_loop(awaitable: Awaitable[Any]) -> None:
    """Refuse to run an async target where an event loop runs already; close what was to be awaited."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()
    raise HookTypeError(
        "the target is async, and its calls are run in an event loop of their own, but one is running here already; "
        "check it from a plain function (`def test_...`), or with `await asyncio.to_thread(run_laws, ...)`"
    )


@contextmanager
def quiet() -> Generator[None]:
    """Keep the failures of isolated hooks out of the log: the kit plans them, and the steps of a call show them."""
    logger = logging.getLogger("aspecthook")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
