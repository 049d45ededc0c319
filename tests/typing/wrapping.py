"""`around.wrap` makes hooks of functions and coroutine functions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, assert_type

from aspecthook import around, hookable, hooks, weave
from aspecthook.weave._decorators import Wrap


@hookable
def price(item: str, qty: int = 1) -> float:
    return qty * 2.0


@hookable
async def fetch(url: str) -> bytes:
    return url.encode()


assert_type(price.around(around.wrap(functools.lru_cache)), Wrap)
assert_type(price.around(around.wrap(functools.lru_cache(maxsize=3)), priority="HIGH", name="cache"), Wrap)
assert_type(fetch.around(around.wrap(lambda function: function)), Wrap)
hooks(price).add("around", around.wrap(functools.cache), again=True)
weave("json:dumps", around=around.wrap(functools.cache)).remove()


class Guarded:
    low = around("shop:*", priority="LOW")(around.wrap(functools.cache))
    cached = around(around.wrap(functools.cache))


if TYPE_CHECKING:
    around.wrap(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
