"""Caches, by cachetools."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, MutableMapping
from threading import Lock
from typing import Any, cast, final
from weakref import WeakSet

from aspecthook._core.law.call import Site
from aspecthook._errors import HookOptionError, HookTypeError, brief, described, nearest

from ._aspect import AnyHook, Aspect, is_async, is_generator, needed, number, refused

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_MISSING: Any = object()


@final
class _Results:
    """The results of one mount point. Two threads must not change them at once."""

    def __init__(self, store: MutableMapping[Hashable, Any]) -> None:
        self.store = store
        self.lock = Lock()


@final
class Cached(Aspect):
    """The aspect that `cached` returns, whose results you can drop.

    Example:
        >>> from aspecthook import weave
        >>> from aspecthook.aspects import cached
        >>> def price(item):
        ...     print("asked for", item)
        >>> prices = cached()
        >>> with weave(price, aspect=prices):
        ...     price("tea")
        ...     price("tea")
        ...     prices.clear()
        ...     price("tea")
        asked for tea
        asked for tea
    """

    def __init__(self, make: Callable[[Site], AnyHook], results: WeakSet[_Results], **settings: object) -> None:
        super().__init__("cached", make, **settings)
        self._results = results

    def clear(self) -> None:
        """Drop all results."""
        for one in list(self._results):
            with one.lock:
                one.store.clear()


def cached(
    ttl: float | None = None,
    *,
    maxsize: int | None = 128,
    key: str | tuple[str, ...] | list[str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Cached:
    """Cache results by arguments, with [cachetools](https://cachetools.readthedocs.io).

    Exceptions are not cached. Each mount point has its own cache. Concurrent calls with the same arguments may all run
    the function.

    Args:
        ttl: For how many seconds a result is kept; None: until the cache is full and no other was used less recently.
        maxsize: The greatest number of results that are kept; None: any number.
        key: The names of the arguments that the result depends on; None: all of them.
        clock: A function that returns the time, in seconds.

    Raises:
        HookOptionError: A setting has an invalid value.

    Example:
        >>> from aspecthook import weave
        >>> def rate(currency, client=None):
        ...     print("asked for", currency)
        ...     return 1.1
        >>> with weave(rate, aspect=cached(ttl=60, key="currency")):
        ...     rate("EUR", object()), rate("EUR", object())
        asked for EUR
        (1.1, 1.1)
    """
    library = needed("cachetools", "cached")
    size = float("inf") if maxsize is None else int(number("cached", "maxsize", maxsize, whole=True))
    ttl = None if ttl is None else number("cached", "ttl", ttl)
    names = None if key is None else _names(key)
    known: WeakSet[_Results] = WeakSet()

    def make(site: Site) -> AnyHook:
        if is_generator(site):
            raise refused("cached", site, "its items can be taken once; weave a function that returns all of them")
        results = _Results(library.LRUCache(size) if ttl is None else library.TTLCache(size, ttl, timer=clock))
        known.add(results)
        key_of = _key_of(site, names)

        def get(key: Hashable) -> Any:
            with results.lock:
                return results.store.get(key, _MISSING)

        def keep(key: Hashable, value: Any) -> Any:
            with results.lock:
                results.store[key] = value
            return value

        def call(proceed: AnyHook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            value = get(key := key_of(args, kwargs))
            return keep(key, proceed()) if value is _MISSING else value

        async def call_async(proceed: AnyHook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            value = get(key := key_of(args, kwargs))
            return keep(key, await proceed()) if value is _MISSING else value

        return call_async if is_async(site) else call

    return Cached(make, known, ttl=ttl, maxsize=maxsize, key=key)


def _names(key: object) -> tuple[str, ...]:
    given = cast("tuple[object, ...]", key if isinstance(key, (tuple, list)) else (key,))
    names = tuple([name for name in given if isinstance(name, str)])
    if len(names) < len(given):
        raise HookTypeError(f"cached: key={brief(given)}; give names of arguments")
    return names


def _key_of(site: Site, names: tuple[str, ...] | None) -> Callable[[tuple[Any, ...], dict[str, Any]], Hashable]:
    """Return what makes the key of a call: its arguments by name, however they are passed, or those that are named."""
    offered = site.offers()
    for name in [name for name in names or () if name not in offered]:
        raise HookOptionError(
            f"{site.label}: cached has key={name!r}, and there is no such argument: {', '.join(offered)}"
            f"{nearest(name, list(offered))}"
        )
    signature = site.signature

    def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        values = list(signature.join(args, kwargs))
        if signature.varkw is not None:  # a dict is no part of a key
            values[signature.varkw] = tuple(sorted(cast("dict[str, Any]", values[signature.varkw]).items()))
        arguments = site.arguments(tuple(values))
        # All, where a wrapper is called with what does not fit the parameters that it shows.
        chosen = names if names is not None and arguments.keys() >= {*names} else arguments
        key = {name: arguments[name] for name in chosen}
        for name, value in key.items():
            try:
                hash(value)
            except TypeError:
                raise HookTypeError(
                    f"{site.label}: cached cannot use the argument {name!r}, {described(value)}, as a key; name the "
                    f"others, as in cached(key=...)"
                ) from None
        return tuple(key.values())

    return key_of
