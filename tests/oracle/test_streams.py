"""Calls that the replay once judged wrongly."""

from __future__ import annotations

from typing import Any

from aspecthook import Return, hookable, hooks
from tests.oracle.laws import check_laws


def test_an_around_hook_may_raise_another_exception_than_it_caught() -> None:
    """It was reported, since the context of what it raised is not what the library gives it."""

    @hookable
    def fail(n: int) -> Any:
        raise KeyError(n)

    @hookable
    def failing(n: int) -> Any:
        yield n
        raise KeyError(n)

    def translating(proceed: Any) -> Any:
        try:
            return proceed()
        except KeyError:
            raise ValueError("translated")  # noqa: B904

    def translating_late() -> Any:
        try:
            yield
        except KeyError:
            raise ValueError("translated")  # noqa: B904

    for function, hook in ((fail, translating), (fail, translating_late), (failing, translating_late)):
        with hooks(function).add("around", hook):
            check_laws(function, args=(1,))


def test_a_stream_that_a_hook_leaves_open_is_not_followed() -> None:
    @hookable
    async def count(n: int) -> Any:
        for number in range(n):
            yield number

    @count.around
    async def first_alone(proceed: Any) -> Any:
        async for item in proceed():
            yield item
            return

    count.exception(lambda exc: Return(None), name="handles")
    check_laws(count, args=(3,))
