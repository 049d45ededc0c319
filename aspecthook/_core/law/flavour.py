"""The flavour of a hook: what calling it returns (a value, an awaitable, a generator), and where such a hook can work.

The invariant: a hook that could never work on its target, because of its flavour, is refused when it is added.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Literal, TypeAlias, cast

from aspecthook._errors import HookTypeError, article

from .asks import Asks
from .call import Site
from .callables import unwrap
from .kinds import Kind
from .signature import ASYNC_GENERATOR, COROUTINE, GENERATOR

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Flavour: TypeAlias = Literal["plain", "async", "generator", "async generator"]

# Marks a sync around hook that returns what `proceed()` returns, awaitable or not: those of the kit serve every target.
HANDS_ON = "__aspecthook_hands_on__"


def flavour_of(function: Callable[..., object]) -> Flavour:
    """Return whether calling this returns a value, an awaitable, a generator or an async generator."""
    inner = function if type(function) is FunctionType else unwrap(function)
    if type(inner) is not FunctionType:
        return "plain" if isinstance(inner, (type, BuiltinFunctionType)) else _flavour_of_object(inner)
    flags = inner.__code__.co_flags
    # `unittest.mock` and `inspect.markcoroutinefunction` mark functions whose calls return coroutines.
    if flags & COROUTINE or hasattr(inner, "_is_coroutine") or hasattr(inner, "_is_coroutine_mark"):
        return "async"
    if flags & ASYNC_GENERATOR:
        return "async generator"
    return "generator" if flags & GENERATOR else "plain"


def _flavour_of_object(value: Any) -> Flavour:
    import inspect

    if inspect.iscoroutinefunction(value):  # an AsyncMock is marked as one, and so is what wrapt makes
        return "async"
    call: Any = getattr(cast("type[object]", type(value)), "__call__", None)  # noqa: B004  # the function, not whether there is one
    if type(call) is not FunctionType and hasattr(value, "__wrapped__"):
        return flavour_of(value.__wrapped__)  # a `functools.lru_cache` returns what the function inside it returns
    known = isinstance(call, (FunctionType, MethodType, partial, staticmethod))
    return flavour_of(cast("Callable[..., object]", call)) if known else "plain"


def a_function(flavour: Flavour) -> str:
    """Return a flavour as messages call such a function."""
    word = {"plain": "plain", "async": "coroutine"}.get(flavour, flavour)
    return f"{article(word)} {word} function"


def check_flavour(
    kind: Kind, function: Callable[..., object], flavour: Flavour, asks: Asks, site: Site, who: object
) -> None:
    """Refuse a hook that could never work on this target.

    Raises:
        HookTypeError: An async hook on a sync target, a generator where a value is needed, an item hook on a function.
    """
    style, label = site.signature.style, site.label
    if kind == "item" and "generator" not in style:
        raise HookTypeError(f"{who} would never run: {label} is not a generator and yields no items; use post")
    if kind == "on" and site.signature.emission is None:
        raise HookTypeError(
            f"{who} would never run: {label} is not an event; use pre or post, or declare it with @event"
        )
    if flavour in ("async", "async generator") and style in ("function", "generator"):
        raise HookTypeError(
            f"{who} is async, but {label} is a sync {style}, which cannot await it; make the hook a plain function"
        )
    if kind == "around":
        _check_around(function, flavour, any(what == "proceed" for _, what in asks), site, who)
    elif flavour in ("generator", "async generator"):
        raise HookTypeError(
            f"{who} contains a yield, so calling it would run nothing; only an around hook may be a generator"
        )


def _check_around(function: Callable[..., object], flavour: Flavour, proceeds: bool, site: Site, who: object) -> None:
    style, label = site.signature.style, site.label
    generator = flavour in ("generator", "async generator")
    if flavour == "async" and style == "async generator":
        raise HookTypeError(
            f"{who} is a coroutine function around the async generator {label}, which needs a stream; write an "
            f"async generator function (`async for item in proceed(): yield item`), or return proceed()"
        )
    if flavour == "plain" and proceeds and style == "coroutine" and not _hands_on(function):
        raise HookTypeError(
            f"{who} asks for `proceed` and is sync, but {label} is async: nothing has run yet when proceed() "
            f"returns, so nothing could be caught or timed; write `async def` with `await proceed()`, or a "
            f"generator function with one `yield`, which works for both"
        )
    if not proceeds and not generator:
        raise HookTypeError(
            f"{who} neither asks for `proceed` nor yields, so {label} would never run; ask for `proceed` and call it, "
            f"or write a generator function with one `yield`"
        )
    if proceeds and generator and flavour != style:
        raise HookTypeError(
            f"{who} both asks for `proceed` and contains a yield, on a {style}; do one of the two: call `proceed()` "
            f"and return, or yield once"
        )


def _hands_on(function: Any) -> bool:
    """Whether a sync function may return a coroutine of `proceed`: it is marked, or wraps an async function."""
    inner: Any = function.__func__ if isinstance(function, MethodType) else function
    if HANDS_ON in getattr(inner, "__dict__", {}):
        return True
    while "__wrapped__" in (attributes := getattr(function, "__dict__", {})):
        function = attributes["__wrapped__"]
    return callable(function) and flavour_of(function) == "async"
