"""Hooks on coroutines and async generators: the same law, awaited, in the caller's own task and context."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from aspecthook import HookTypeError, hookable, hooks
from aspecthook._core.law.callables import HANDS_ON

log: list[object] = []


@pytest.fixture(autouse=True)
def _clean() -> None:
    log.clear()


async def async_yielding() -> AsyncIterator[None]:
    yield


async def later(**_: object) -> None:
    await asyncio.sleep(0)


def run(made: Awaitable[object]) -> Any:
    async def main() -> object:
        return await made

    return asyncio.run(main())


def test_the_loop_ends_async_generators_when_it_shuts_down(caplog: pytest.LogCaptureFixture) -> None:
    # It closed target and generator at the same time: "asynchronous generator is already running", in some orders.
    @hookable
    async def function() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            log.append("ended")
            await asyncio.sleep(0)
            log.append("ended for good")

    function.item(later)
    function.around(async_yielding)
    function.around(lambda proceed: proceed())
    function.always(lambda exc: log.append(type(exc)))
    kept = [function() for _ in range(20)]

    async def main() -> None:
        the_loops = sys.get_asyncgen_hooks()
        for stream in kept:
            await anext(stream)
        assert sys.get_asyncgen_hooks() == the_loops

    run(main())
    assert caplog.messages == []
    assert {one: log.count(one) for one in log} == dict.fromkeys(["ended", "ended for good", GeneratorExit], 20)


def test_hooks_run_in_the_task_and_the_context_of_the_caller() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    @hookable
    async def target() -> int:
        return variable.get()

    @target.pre
    async def count() -> None:
        await asyncio.sleep(0)
        variable.set(variable.get() + 1)

    async def main() -> None:
        assert [await target(), await target()] == [1, 2]
        assert await asyncio.gather(target(), target()) == [3, 3]
        assert variable.get() == 2

    run(main())


# Cancellation


@pytest.mark.parametrize("style", ["coroutine", "async generator"])
@pytest.mark.parametrize("where", ["target", "pre", "around"])
def test_cancellation_passes_exception_hooks_unless_they_name_it(style: str, where: str) -> None:
    async def waiting() -> None:
        await asyncio.Event().wait()

    async def target() -> None:
        await waiting()

    async def stream() -> AsyncIterator[None]:
        await waiting()
        yield

    async def around() -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    function: Any = hookable(stream if style == "async generator" else target)
    if where != "target":
        hooks(function).add(where, waiting if where == "pre" else around)
    function.exception(lambda exc: log.append("unnamed"))
    function.exception(BaseException)(lambda exc: log.append(type(exc)))
    function.exception(asyncio.CancelledError)(lambda exc: log.append(type(exc)))
    function.always(lambda exc: log.append("always"))

    async def main() -> None:
        made = anext(function()) if style == "async generator" else function()
        task = asyncio.ensure_future(made)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel("why")
        with pytest.raises(asyncio.CancelledError, match="why"):
            await task
        assert task.cancelled()

    run(main())
    assert log == [asyncio.CancelledError, asyncio.CancelledError, "always"]


# Many tasks


def test_a_task_that_a_hook_started_runs_the_hook_although_it_is_not_reentrant() -> None:
    # It never ran there: the task's context was a copy of one in which the hook was running.
    @hookable
    async def target() -> None:
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []

    async def background() -> None:
        await asyncio.sleep(0.001)
        await target()

    @target.pre(reentrant=False)
    def start() -> None:
        log.append("hook")
        if not tasks:
            tasks.append(asyncio.ensure_future(background()))

    async def main() -> None:
        await target()
        await tasks[0]

    run(main())
    assert log == ["hook", "hook"]


# Around an async function: what a hook answers


async def through(inner: Awaitable[Any]) -> Any:
    return await inner


async def hands_on(proceed: Callable[..., Any]) -> Any:
    return proceed()


async def hands_a_coroutine_on(proceed: Callable[..., Any]) -> Any:
    return through(proceed())


async def awaits(proceed: Callable[..., Any]) -> Any:
    return await proceed()


async def waits_for_it(proceed: Callable[..., Any]) -> Any:
    return await asyncio.wait_for(proceed(), 10)


async def falls_back(proceed: Callable[..., Any]) -> Any:
    try:
        return await proceed(failing=True)
    except ConnectionError:
        return proceed()


AROUND = [hands_on, hands_a_coroutine_on, awaits, waits_for_it, falls_back]


@pytest.mark.parametrize("inner", AROUND)
@pytest.mark.parametrize("outer", AROUND)
def test_the_caller_gets_the_result_however_an_async_around_hook_hands_it_on(outer: Any, inner: Any) -> None:
    # `return proceed()` and `return wait_for(proceed(), 1)` in an `async def` gave the caller a coroutine.
    @hookable
    async def fetch(failing: bool = False) -> str:
        if failing:
            raise ConnectionError
        return "page"

    hooks(fetch).add("around", outer)
    if inner is not outer:
        hooks(fetch).add("around", inner)
    assert asyncio.run(fetch()) == "page"


def result_of_a_task() -> Any:
    return asyncio.ensure_future(asyncio.sleep(0, "done"))


def result_of_a_future() -> Any:
    return asyncio.get_running_loop().create_future()


def result_of_a_coroutine() -> Any:
    return asyncio.sleep(0, "done")


async def keeps_the_first_of_two(proceed: Callable[..., Any]) -> Any:
    first = await proceed()
    second = await proceed()
    getattr(second, "close", lambda: None)()
    return first


@pytest.mark.parametrize("made", [result_of_a_task, result_of_a_future, result_of_a_coroutine])
@pytest.mark.parametrize("around", [awaits, hands_on, hands_a_coroutine_on, waits_for_it, keeps_the_first_of_two])
def test_a_result_that_can_be_awaited_reaches_the_caller_untouched(around: Any, made: Callable[[], Any]) -> None:
    results: list[Any] = []

    @hookable
    async def begin() -> Any:
        results.append(made())
        return results[-1]

    hooks(begin).add("around", around)
    hooks(begin).add("around", awaits, again=True)

    async def main() -> None:
        assert await begin() is results[0]
        for result in results:
            getattr(result, "cancel", getattr(result, "close", None))()

    asyncio.run(main())


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("value", ["late", None])
def test_awaitable_answer_of_a_sync_one_yield_hook_is_awaited(value: object, fails: bool) -> None:
    # The caller got the awaitable.
    @hookable
    async def fetch() -> str:
        if fails:
            raise ConnectionError
        return "page"

    def late() -> Iterator[None]:
        try:
            yield
        except ConnectionError:
            pass
        return asyncio.sleep(0, value)  # type: ignore[return-value]

    hooks(fetch).add("around", late)
    if fails and value is None:
        with pytest.raises(ConnectionError):
            asyncio.run(fetch())
    else:
        assert asyncio.run(fetch()) == (value or "page")


class AsyncCall:
    async def __call__(self) -> None: ...


def _autospec() -> Any:
    return mock.create_autospec(later)


ASYNC = {
    "async def": lambda: later,
    "a partial": lambda: functools.partial(later),
    "an object": AsyncCall,
    "a partial of an object": lambda: functools.partial(AsyncCall()),
    "lru_cache": lambda: functools.lru_cache(later),
    "AsyncMock": mock.AsyncMock,
    "an autospec": _autospec,
    "a static method": lambda: staticmethod(later),  # as a decorator in a class body is given it
    "wrapt": lambda: pytest.importorskip("wrapt").FunctionWrapper(later, lambda wrapped, _, a, k: wrapped(*a, **k)),
}


@pytest.mark.parametrize("sort", ASYNC)
def test_async_hook_of_any_form_is_refused_on_a_sync_function(sort: str) -> None:
    # An AsyncMock was accepted, and the call got its coroutine.
    @hookable
    def price() -> int:
        return 1

    with pytest.raises(HookTypeError, match="is async, but .*price is a sync function, which cannot await it"):
        price.pre(ASYNC[sort]())
    with pytest.raises(HookTypeError, match="its `when` is async"):
        price.pre(lambda: None, when=ASYNC[sort]())


@pytest.mark.parametrize("sort", [sort for sort in ASYNC if sort != "lru_cache"])
def test_async_hook_of_any_form_is_awaited_on_an_async_function(sort: str) -> None:
    @hookable
    async def price() -> int:
        return 1

    hook = ASYNC[sort]()
    inner = hook.func if isinstance(hook, functools.partial) else hook
    if isinstance(inner, mock.AsyncMock) or sort == "an autospec":
        inner.return_value = 2
    hooks(price).add("post", hook)
    assert asyncio.run(price()) == getattr(inner, "return_value", 1)


def test_any_awaitable_that_a_hook_answers_is_awaited_and_a_generator_only_if_it_is_a_coroutine() -> None:
    @hookable
    async def pages() -> Any: ...

    @types.coroutine
    def old_style() -> Any:
        return "awaited"
        yield

    def items() -> Iterator[int]:
        yield 1

    class Later:
        def __await__(self) -> Iterator[None]:
            yield from ()
            return 5

    made = items()
    with hooks(pages).add("post", Later):
        assert asyncio.run(pages()) == 5
    hooks(pages).add("post", lambda result: old_style(), name="hook")
    assert asyncio.run(pages()) == "awaited"
    hooks(pages).clear()
    hooks(pages).add("post", lambda result: made)
    assert asyncio.run(pages()) is made


@pytest.mark.parametrize("due", [False, True])
def test_an_awaitable_that_a_plain_predicate_of_any_kind_of_hook_answers_is_awaited(*, due: bool) -> None:
    async def answer() -> bool:
        return due

    @hookable
    async def page() -> str:
        log.append("page")
        return "page"

    @hookable
    async def pages() -> AsyncIterator[int]:
        yield 1

    async def around(proceed: Any) -> Any:
        log.append("around")
        return await proceed()

    async def drain() -> None:
        async for _ in pages():
            pass

    # A sync predicate: nobody knows before the call that it will answer an awaitable.
    hooks(page).add("around", around, when=lambda: answer())
    hooks(pages).add("pre", lambda: log.append("pre"), when=lambda: answer())
    assert asyncio.run(page()) == "page"
    asyncio.run(drain())
    assert log == (["around", "page", "pre"] if due else ["page"])


def test_a_sync_around_hook_that_says_it_hands_on_what_proceed_gives_serves_sync_and_async_functions() -> None:
    def either(proceed: Any) -> Any:
        log.append("around")
        return proceed()

    either.__dict__[HANDS_ON] = True

    class Hooks:
        def either(self, proceed: Any) -> Any:
            log.append("method")
            return proceed()

        either.__dict__[HANDS_ON] = True

    async def page() -> str:
        return "page"

    for hook in (either, Hooks().either):
        read, fetch = hookable(lambda: "page"), hookable(types.FunctionType(page.__code__, globals()))
        hooks(read).add("around", hook)
        hooks(fetch).add("around", hook)
        assert read() == asyncio.run(fetch()) == "page"
    assert log == ["around", "around", "method", "method"]
