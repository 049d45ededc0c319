"""`around.wrap` and `around.using` are hooks of every style of target."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, assert_type

from aspecthook import around, hookable, hooks, weave
from aspecthook.weave._decorators import Wrap
from aspecthook.weave._managers import Using


@hookable
def price(item: str, qty: int = 1) -> float:
    return qty * 2.0


@hookable
async def fetch(url: str) -> bytes:
    return url.encode()


@hookable
def count(n: int) -> Iterator[int]:
    yield n


@hookable
async def stream(n: int) -> AsyncIterator[int]:
    yield n


def named(item: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


assert_type(price.around(around.wrap(functools.lru_cache)), Wrap)
assert_type(price.around(around.wrap(functools.lru_cache(maxsize=3)), priority="HIGH", name="cache"), Wrap)
assert_type(price.around(around.using(threading.Lock())), Using)
assert_type(price.around(around.using(named)), Using)
assert_type(fetch.around(around.using(asyncio.Lock())), Using)
assert_type(fetch.around(around.wrap(lambda function: function)), Wrap)
assert_type(count.around(around.using(contextlib.suppress(KeyError))), Using)
assert_type(stream.around(around.using(contextlib.nullcontext())), Using)
hooks(price).add("around", around.wrap(functools.cache), again=True)
weave("json:dumps", around=around.using(threading.RLock())).remove()


class Guarded:
    locked = around("shop:*", priority="LOW")(around.using(threading.Lock()))
    cached = around(around.wrap(functools.cache))


if TYPE_CHECKING:
    around.wrap(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    around.using(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
