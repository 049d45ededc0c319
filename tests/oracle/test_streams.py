"""Calls of generators and coroutine functions are replayed, and what is wrong in them is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aspecthook import Args, Return, hookable, hooks
from aspecthook.testing._calls import Given
from tests.oracle.calls import make_call
from tests.oracle.guests import Later
from tests.oracle.laws import check_laws
from tests.oracle.model import differs
from tests.oracle.recording import NotedTrace as Trace
from tests.oracle.rows import Counts, acting
from tests.oracle.traced_call import TracedCall


def one_more(item: Any) -> Any:
    return item + 1 if isinstance(item, int) else None


def one_yield() -> Any:
    yield


async def async_yield() -> Any:
    yield


def handed_on(proceed: Any) -> Any:
    return proceed()


def relayed(proceed: Any) -> Any:
    return (yield from proceed())


async def proceeding(proceed: Any) -> Any:
    return await proceed()


async def answering_a_coroutine(proceed: Any) -> Any:
    return proceed()


async def later() -> None:
    await asyncio.sleep(0)


def generator() -> Any:
    @hookable
    def count(n: int) -> Any:
        sent = []
        for number in range(n):
            try:
                sent.append((yield number))
            except LookupError:
                sent.append("thrown")
        return sent

    for hook in (one_yield, relayed, handed_on):
        count.around(hook)
    count.item(one_more)
    return count


def coroutine() -> Any:
    @hookable
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    for hook in (one_yield, async_yield, proceeding, answering_a_coroutine):
        double.around(hook)
    double.pre(later)
    double.pre(lambda: Later(lambda: Args(n=3)), name="an awaitable")
    return double


def made(made: Any) -> Any:
    async def finished() -> Any:
        return await made

    return asyncio.run(finished()) if hasattr(made, "__await__") else made


def played(function: Any, *traces: Trace) -> str | None:
    mount = hooks(function)
    return differs(*[TracedCall(mount, acting(mount), trace, Counts(), {}) for trace in traces])


def another_item(trace: Trace) -> None:
    trace.resumed[0].answer = object()


def a_step_too_few(trace: Trace) -> None:
    del trace.steps[-1]


def nothing_closed(trace: Trace) -> None:
    del trace["count"].events[1:]


@pytest.mark.parametrize(
    ("change", "drive", "says"),
    [
        (another_item, "", "next number 1 should have yielded 1"),
        (a_step_too_few, "", "should have run at the end"),
        (nothing_closed, "next close", "target count should have been closed"),
    ],
)
def test_wrong_steps_of_a_generator_are_found(change: Callable[[Trace], None], drive: str, says: str) -> None:
    function = generator()
    trace = made(make_call(hooks(function), Given((3,), {}), drive))
    assert played(function, trace) is None
    change(trace)
    assert says in str(played(function, trace))


def test_an_answer_that_nobody_awaits_is_found() -> None:
    function = coroutine()
    trace = made(make_call(hooks(function), Given((3,), {})))
    assert trace["an awaitable"].answer == Args(n=3) and trace.result == 6
    trace["an awaitable"].is_pending = True
    assert "answered an awaitable, which should have been awaited" in str(played(function, trace))


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
