"""Any context manager as an around hook: `around.using`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncContextDecorator, ContextDecorator
from threading import Lock
from types import FunctionType
from typing import Any, TypeAlias, cast, final

from aspecthook._core.law.answers import Return
from aspecthook._core.law.call import Site
from aspecthook._core.law.callables import a_function, name_of, signature_of, style_of, type_of
from aspecthook._core.law.hook import Maker, Owner
from aspecthook._core.law.streams import awithin, within
from aspecthook._errors import HookTypeError, brief, described, unblamed

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

Manager: TypeAlias = "AbstractContextManager[Any, Any] | AbstractAsyncContextManager[Any, Any]"


@final
class Using(Maker):
    """The around hook that `around.using` makes of a context manager."""

    def __init__(self, manager: Manager | Callable[..., Manager]) -> None:
        super().__init__(manager)
        self.manager = manager
        # Makes the context manager of a call.
        self.factory: Callable[..., Any]
        if isinstance(manager, (ContextDecorator, AsyncContextDecorator)):
            # What `@contextmanager` makes can be entered only once. As a decorator it makes a new one for each call.
            self.factory = cast("Any", manager)._recreate_cm
        elif _enters(type_of(manager)) or _enters_async(type_of(manager)):
            self.factory = lambda: manager
        else:
            self.factory = _checked_factory(manager)

    def make(self, mount: Owner, who: object) -> Callable[..., Any]:
        """Return the hook for one mount point."""
        site = mount.site()
        style = site.signature.style
        self._check_style(style, who)
        if style == "function" and self.factory is not self.manager and not hasattr(self.manager, "_recreate_cm"):
            return self.dress(_always(cast("AbstractContextManager[Any, bool]", self.manager)))
        made: FunctionType = _USING[style](self.factory, site, who)
        setattr(made, "__signature__", _asking(self.factory if self.factory is self.manager else None))
        return self.dress(made)

    def _check_style(self, style: str, who: object) -> None:
        """Refuse a context manager that could never work on such a target."""
        kind: type[Any] = self.manager if isinstance(self.manager, type) else type(self.manager)
        makes = getattr(self.manager, "__wrapped__", None)
        stream = isinstance(makes, FunctionType) and style_of(makes) == "async generator"
        if style in ("function", "generator") and (stream or (_enters_async(kind) and not _enters(kind))):
            raise HookTypeError(
                f"{who} is an async context manager, and its target is a sync {style}, which cannot wait for it; give "
                f"one that is entered with `with`"
            )
        if style not in ("function", "generator") and kind.__module__ in ("threading", "_thread"):
            raise HookTypeError(
                f"{who} is a lock for threads, which would stop the whole event loop while a task of this {style} "
                f"has it; give one for tasks, such as asyncio.Lock()"
            )


def _enters(kind: type[Any]) -> bool:
    return hasattr(kind, "__enter__")


def _enters_async(kind: type[Any]) -> bool:
    return hasattr(kind, "__aenter__")


_LOCKS = ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "CapacityLimiter")


def _checked_factory(given: Any) -> Callable[..., Any]:
    """Return what makes context managers.

    Raises:
        HookTypeError: It does not.
    """
    if not callable(given):
        raise HookTypeError(
            f"around.using({brief(given)}) is given neither a context manager nor a function that makes one; give one "
            f"such as threading.Lock() or contextlib.suppress(KeyError)"
        )
    name = name_of(given)
    if name in _LOCKS or given is Lock:
        raise HookTypeError(
            f"around.using({name}) would make a new lock for each call, and exclude nobody; give one lock, as in "
            f"around.using(threading.Lock())"
        )
    style = style_of(given)
    if style == "coroutine":
        raise HookTypeError(
            f"around.using({name}) is given a coroutine function, whose calls return no context manager; give a plain "
            f"function that returns one"
        )
    if style != "function":
        word = "contextmanager" if style == "generator" else "asynccontextmanager"
        raise HookTypeError(f"around.using({name}) is given {a_function(style)}; put @contextlib.{word} above it")
    return cast("Callable[..., Any]", given)


def _asking(factory: Callable[..., Any] | None) -> Any:
    """Return the signature of a hook that asks for `proceed`, and for what a factory asks for except its ``*args``."""
    from inspect import Parameter, Signature

    found = None if factory is None else signature_of(factory)
    rest = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    asked = [] if found is None else [one for one in found.parameters.values() if one.kind not in rest]
    if any(one.name == "proceed" or one.kind is Parameter.POSITIONAL_ONLY for one in asked):
        raise HookTypeError(
            f"{brief(factory)} makes a context manager, so it is given arguments of the call by name, and no "
            f"`proceed`; give a function with ordinary parameters, such as lambda item: ..."
        )
    return Signature([Parameter("proceed", Parameter.POSITIONAL_OR_KEYWORD), *asked])


def _sync(manager: object, who: object) -> AbstractContextManager[Any, bool]:
    """Return what a factory has made for one call.

    Raises:
        HookTypeError: It cannot be entered with `with`.
    """
    if not _enters(type_of(manager)):
        raise HookTypeError(
            f"{who} was called to make a context manager, and returned {described(manager)}; return one that is "
            f"entered with `with`"
        )
    return cast("AbstractContextManager[Any, bool]", manager)


@unblamed
def _always(manager: AbstractContextManager[Any, bool]) -> Any:
    """Return the hook of a function for one context manager, which is entered in each call: the fast form."""

    def hook(proceed: Callable[..., Any]) -> Any:
        with manager:
            return proceed()
        return None  # the context manager has swallowed the exception

    return hook


@unblamed
def _using_function(factory: Callable[..., Any], _: Site, who: object) -> Any:
    def hook(proceed: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with _sync(factory(*args, **kwargs), who):
            return proceed()
        return None  # the context manager has swallowed the exception

    return hook


@unblamed
def _using_coroutine(factory: Callable[..., Any], _: Site, who: object) -> Any:
    async def hook(proceed: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        manager = factory(*args, **kwargs)
        if _enters_async(type_of(manager)):
            async with manager:
                return await proceed()
        with _sync(manager, who):
            return await proceed()
        return None

    return hook


def _using_generator(factory: Callable[..., Any], site: Site, who: object) -> Any:
    def hook(proceed: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return within(site, hook, _yielding(_sync(factory(*args, **kwargs), who)), proceed)

    return hook


def _using_async_generator(factory: Callable[..., Any], site: Site, who: object) -> Any:
    def hook(proceed: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        manager = factory(*args, **kwargs)
        if _enters_async(type_of(manager)):
            return awithin(site, hook, _ayielding(manager), proceed)
        return awithin(site, hook, _yielding(_sync(manager, who)), proceed)

    return hook


_USING: dict[str, Callable[[Callable[..., Any], Site, object], Any]] = {
    "function": _using_function,
    "coroutine": _using_coroutine,
    "generator": _using_generator,
    "async generator": _using_async_generator,
}


def _yielding(manager: AbstractContextManager[Any, bool]) -> Generator[Any, Any, Any]:
    """Return an around hook with one `yield` inside a context manager."""
    with manager:
        yield
        return None
    return Return(None)  # the context manager has swallowed the exception


async def _ayielding(manager: Any) -> AsyncGenerator[Any, Any]:
    async with manager:
        yield
