"""Caches, by cachetools."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, MutableMapping
from threading import Lock
from typing import Any, NamedTuple, cast, final
from weakref import WeakSet

from aspecthook._core.law.call import Site
from aspecthook._errors import HookOptionError, HookTypeError, brief, described, nearest

from ._aspect import AnyHook, Aspect, count, is_async, is_generator, needed, number, refused

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_MISSING: Any = object()


class CacheInfo(NamedTuple):
    """How well a cache works, as `functools.lru_cache` tells it.

    Example:
        >>> CacheInfo(hits=3, misses=1, entries=1)
        CacheInfo(hits=3, misses=1, entries=1)
    """

    hits: int
    misses: int
    entries: int


@final
class Cached(Aspect):
    """The aspect that `cached` returns: its caches can be looked at and cleared.

    Example:
        >>> from aspecthook import weave
        >>> from aspecthook.aspects import cached
        >>> def price(item):
        ...     return len(item)
        >>> prices = cached()
        >>> with weave(price, aspect=prices):
        ...     price("tea"), price("tea"), prices.info()
        (3, 3, CacheInfo(hits=1, misses=1, entries=1))
    """

    def __init__(self, make: Callable[[Site], AnyHook], caches: WeakSet[_Cache], **settings: object) -> None:
        super().__init__("cached", make, **settings)
        self._caches = caches

    def clear(self) -> None:
        """Forget all entries."""
        for cache in list(self._caches):
            cache.clear()

    def info(self) -> CacheInfo:
        """Return how many calls were answered from the caches, and how many entries there are."""
        counts = [cache.counts() for cache in list(self._caches)]
        return CacheInfo(*map(sum, zip((0, 0, 0), *counts, strict=True)))


def cached(
    ttl: float | None = None,
    *,
    maxsize: int | None = 128,
    key: str | tuple[str, ...] | list[str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Cached:
    """Keep results, and answer calls with the same arguments from them; by [cachetools](https://cachetools.readthedocs.io).

    Exceptions are not kept. Each mount point has a cache of its own. Calls that run at once with the same arguments may
    all run the function.

    Args:
        ttl: For how many seconds a result is kept; None: until it is the one that was used least recently.
        maxsize: How many results are kept; None: any number.
        key: The names of the arguments that the result depends on; None: all of them.
        clock: What tells the time, in seconds.

    Raises:
        HookOptionError: A setting has a value that it cannot have.

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
    size = float("inf") if maxsize is None else count("cached", "maxsize", maxsize)
    ttl = None if ttl is None else number("cached", "ttl", ttl)
    names = None if key is None else _names(key)
    caches: WeakSet[_Cache] = WeakSet()

    def make(site: Site) -> AnyHook:
        if is_generator(site):
            raise refused("cached", site, "its items can be taken once; weave a function that returns all of them")
        store = library.LRUCache(size) if ttl is None else library.TTLCache(size, ttl, timer=clock)
        cache = _Cache(store, _key_of(site, names))
        caches.add(cache)

        def call(proceed: AnyHook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            value = cache.get(key := cache.key(args, kwargs))
            return cache.keep(key, proceed()) if value is _MISSING else value

        async def call_async(proceed: AnyHook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            value = cache.get(key := cache.key(args, kwargs))
            return cache.keep(key, await proceed()) if value is _MISSING else value

        return call_async if is_async(site) else call

    return Cached(make, caches, ttl=ttl, maxsize=maxsize, key=key)


def _names(key: object) -> tuple[str, ...]:
    given = cast("tuple[object, ...]", key if isinstance(key, (tuple, list)) else (key,))
    names = tuple([name for name in given if isinstance(name, str)])
    if len(names) < len(given):
        raise HookTypeError(f"cached: key={brief(given)}; give names of arguments")
    return names


def _key_of(site: Site, names: tuple[str, ...] | None) -> Callable[[tuple[Any, ...], dict[str, Any]], Hashable]:
    """Return what makes the key of a call: its arguments by name, however they are passed, or those that are named."""
    offered = site.offers()
    for name in names or ():
        if name not in offered:
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
        key = {name: arguments.get(name) for name in names or arguments}
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


@final
class _Cache:
    """The results of one mount point."""

    def __init__(self, store: MutableMapping[Hashable, Any], key: Callable[..., Hashable]) -> None:
        self.key = key
        self._store = store
        self._lock = Lock()
        self._hits = self._misses = 0

    def get(self, key: Hashable) -> Any:
        """Return the result of a call, if it is known."""
        with self._lock:
            value = self._store.get(key, _MISSING)
            if value is _MISSING:
                self._misses += 1
            else:
                self._hits += 1
            return value

    def keep(self, key: Hashable, value: Any) -> Any:
        """Keep a result, and return it."""
        with self._lock:
            self._store[key] = value
        return value

    def counts(self) -> tuple[int, int, int]:
        """Return the parts of a `CacheInfo`."""
        with self._lock:
            return self._hits, self._misses, len(self._store)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._store.clear()
            self._hits = self._misses = 0
