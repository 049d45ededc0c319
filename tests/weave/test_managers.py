"""`around.using`: real context managers as around hooks of every sort of target."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aspecthook import HookSignatureError, HookTypeError, around, hookable, hooks
from tests.tracebacks import shown_frames


@hookable
def load(key: str) -> int:
    return {"a": 1}[key]


@hookable
async def aload(key: str) -> int:
    await asyncio.sleep(0)
    return {"a": 1}[key]


@hookable
def items(key: str) -> Iterator[Any]:
    got = yield 1
    yield got
    yield {"a": 1}[key]


@hookable
async def aitems(key: str) -> AsyncIterator[Any]:
    yield 1
    yield {"a": 1}[key]


@pytest.fixture(autouse=True)
def _cleared() -> Iterator[None]:
    yield
    for target in (load, aload, items, aitems):
        hooks(target).clear()


def collected(target: Any, key: str) -> Any:
    """Return what a call gives in all."""

    async def main() -> list[Any]:
        return [one async for one in target(key)]

    if target is aload:
        return asyncio.run(target(key))
    return target(key) if target is load else list(target(key)) if target is items else asyncio.run(main())


TARGETS = pytest.mark.parametrize("target", [load, aload, items, aitems], ids=lambda target: target.__name__)


class Noted:
    """A context manager of either sort, which notes what happens and may swallow exceptions."""

    def __init__(self, log: list[Any], *, swallow: bool = False) -> None:
        self.log, self.swallow = log, swallow

    def __enter__(self) -> None:
        self.log.append("enter")

    def __exit__(self, kind: Any, *_: object) -> bool:
        self.log.append(kind and kind.__name__)
        return self.swallow


class ANoted(Noted):
    """The same, async."""

    async def __aenter__(self) -> None:
        self.log.append("aenter")

    async def __aexit__(self, kind: Any, *_: object) -> bool:
        self.log.append(kind and kind.__name__)
        return self.swallow


# Every sort of target


@TARGETS
def test_a_context_manager_is_entered_before_the_call_and_left_after_it(target: Any) -> None:
    log: list[Any] = []
    hooks(target).add("around", around.using(Noted(log)))
    target.pre(lambda: log.append("pre"))
    target.post(lambda: log.append("post"))
    first, second = collected(target, "a"), None
    with pytest.raises(KeyError):
        second = collected(target, "b")
    assert log == ["pre", "enter", None, "post", "pre", "enter", "KeyError"]
    assert first in (1, [1, None, 1], [1, 1]) and second is None


@TARGETS
def test_a_context_manager_that_swallows_the_exception_ends_the_call(target: Any) -> None:
    log: list[Any] = []
    hooks(target).add("around", around.using(Noted(log, swallow=True)))
    assert collected(target, "b") in (None, [1, None], [1])
    assert log == ["enter", "KeyError"]


@pytest.mark.parametrize("target", [aload, aitems], ids=["coroutine", "async generator"])
def test_an_async_target_enters_asynchronously_what_can_be_entered_in_both_ways(target: Any) -> None:
    log: list[Any] = []
    hooks(target).add("around", around.using(lambda key: ANoted(log)))
    collected(target, "a")
    with pytest.raises(KeyError):
        collected(target, "b")
    assert log == ["aenter", None, "aenter", "KeyError"]


def test_an_async_context_manager_swallows_what_a_coroutine_raises() -> None:
    aload.around(around.using(ANoted([], swallow=True)))
    assert asyncio.run(aload("b")) is None


def test_everything_that_is_sent_reaches_a_generator_inside_a_context_manager() -> None:
    log: list[Any] = []
    items.around(around.using(Noted(log)))
    stream: Any = items("a")
    assert (next(stream), stream.send("sent")) == (1, "sent")
    stream.close()
    assert log == ["enter", "GeneratorExit"]


# What makes context managers


def test_a_factory_is_given_what_it_asks_for_by_name() -> None:
    seen: list[Any] = []

    @contextlib.contextmanager
    def spanned(key: str, *, user: str = "nobody") -> Iterator[None]:
        seen.append((key, user))
        yield

    load.around(around.using(spanned))
    load.around(around.using(lambda call: contextlib.closing(seen.append(call.function.__name__) or Closed())))
    assert load("a") == 1 and seen == [("a", "nobody"), "load"]
    with pytest.raises(HookSignatureError, match="asks for 'kye', but .*did you mean 'key'"):
        load.around(around.using(lambda kye: contextlib.nullcontext()))


class Closed:
    """Something that `closing` can close."""

    def close(self) -> None: ...


def test_the_star_arguments_of_a_factory_get_nothing() -> None:
    seen: list[Any] = []

    @contextlib.contextmanager
    def bound(*args: Any, **values: Any) -> Iterator[None]:
        seen.append((args, values))
        yield

    @hookable
    def call(*rest: int, token: str, **more: str) -> None: ...

    call.around(around.using(functools.partial(bound, request=1)))
    call(1, token="secret", other="x")
    assert seen == [((), {"request": 1})]


def test_a_context_manager_of_contextlib_that_was_made_once_is_made_anew_for_each_call() -> None:
    log: list[str] = []

    @contextlib.contextmanager
    def spanned(name: str) -> Iterator[None]:
        log.append(name)
        yield

    load.around(around.using(spanned("span")))
    assert (load("a"), load("a"), log) == (1, 1, ["span", "span"])


# The real ones


def test_a_lock_excludes_other_threads() -> None:
    inside = most = 0

    @hookable
    def work(turn: int) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(200):
            pass
        inside -= 1

    lock = threading.Lock()
    work.around(around.using(lock))
    threads = [threading.Thread(target=lambda: [work(turn) for turn in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and not lock.locked()


# Refusals


async def coroutine() -> None: ...


def generator() -> Iterator[None]:
    yield


REFUSED: list[tuple[Any, str]] = [
    (3, r"around.using\(3\) is given neither a context manager nor a function"),
    (threading.Lock, "would make a new lock for each call"),
    (asyncio.Semaphore, r"around.using\(Semaphore\) would make a new lock for each call"),
    (threading.RLock, r"would make a new lock.*around.using\(threading.Lock\(\)\)"),
    (coroutine, "is given a coroutine function"),
    (generator, "put @contextlib.contextmanager above it"),
    (aitems, "put @contextlib.asynccontextmanager above it"),
]


@pytest.mark.parametrize(("manager", "message"), REFUSED, ids=[one[1][:30] for one in REFUSED])
def test_what_makes_no_context_managers_is_refused(manager: Any, message: str) -> None:
    with pytest.raises(HookTypeError, match=message):
        around.using(manager)


MISPLACED: list[tuple[Any, Any, str]] = [
    (load, asyncio.Lock(), "is an async context manager, and its target is a sync function"),
    (items, asyncio.Lock(), "is an async context manager, and its target is a sync generator"),
    (aload, threading.Lock(), r"would stop the whole event loop .* asyncio.Lock\(\)"),
    (aitems, threading.RLock(), "would stop the whole event loop"),
    (load, lambda proceed: contextlib.nullcontext(), "no `proceed`"),
]


@pytest.mark.parametrize(("target", "manager", "message"), MISPLACED, ids=[one[2][:30] for one in MISPLACED])
def test_a_context_manager_that_cannot_work_is_refused_when_it_is_added(
    target: Any, manager: Any, message: str
) -> None:
    with pytest.raises(HookTypeError, match=message):
        target.around(around.using(manager))
    assert not hooks(target)


@TARGETS
def test_a_factory_that_returns_no_context_manager_says_so_when_it_is_called(target: Any) -> None:
    hooks(target).add("around", around.using(lambda key: key), name="odd")
    with pytest.raises(HookTypeError, match="'odd'.* returned a str of 1 character; return one that is entered"):
        collected(target, "a")


def test_a_factory_whose_context_manager_swallows_the_exception_ends_the_call() -> None:
    @hookable
    def pay(amount: int) -> int:
        raise ValueError(amount)

    pay.around(around.using(lambda amount: contextlib.suppress(ValueError if amount else KeyError)))
    assert pay(1) is None  # type: ignore[func-returns-value]
    with pytest.raises(ValueError, match="0"):
        pay(0)


class Fails(contextlib.AbstractContextManager[None]):
    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        1 / (self.where != "__enter__")

    def __exit__(self, *_: object) -> None:
        1 / (self.where != "__exit__")


@pytest.mark.parametrize("where", ["__enter__", "__exit__"])
def test_a_context_manager_that_fails_has_no_frames_of_ours_in_its_traceback(where: str) -> None:
    target = hookable(lambda: None)
    target.around(around.using(Fails(where)))
    with pytest.raises(ZeroDivisionError) as caught:
        target()
    assert shown_frames(caught.value) == []
