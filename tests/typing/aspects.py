"""Ready-made aspects: what they are made from, what they are, and where they go."""

from __future__ import annotations

from typing import assert_type

from aspecthook import Weaving, hookable, weave
from aspecthook.aspects import (
    Aspect,
    Cached,
    Timings,
    cached,
    limited,
    log,
    retry,
    timed,
    timeout,
)


@hookable
def price(item: str) -> float:
    return 3.5


@hookable
async def fetch(url: str) -> str:
    return url


with weave("json:dumps", aspect=retry(on=(KeyError, "OSError"), attempts=5)) as weaving:
    assert_type(weaving, Weaving)
assert_type(price.around(retry(), priority="LOW"), Aspect)
assert_type(fetch.around(timeout(2.5)), Aspect)

prices = cached(ttl=60, key=("item",))
assert_type(prices, Cached)
prices.clear()

timings = timed()
assert_type(timings, Timings)
for row in timings.table():
    assert_type(timings[row.name].p99, float)

log(redact=lambda name, value: name == "token")
log(redact=["*token*"], level="DEBUG")


def wrong() -> None:
    cached(key=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    retry(on=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    limited("many")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    timeout()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
