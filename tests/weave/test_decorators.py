"""`around.wrap`: real decorators as around hooks of every sort of target."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import inspect
import threading
import typing
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aspecthook import HookLookupError, HookTypeError, around, event, hookable, hooks, weave


class Failing:
    """Fails until its third run; `runs` has what each was given."""

    def __init__(self) -> None:
        self.runs: list[Any] = []

    def __call__(self, given: Any) -> Any:
        self.runs.append(given)
        if len(self.runs) < 3:
            raise ConnectionError(len(self.runs))
        return given


def retried() -> Any:
    tenacity = pytest.importorskip("tenacity")
    return around.wrap(tenacity.retry(stop=tenacity.stop_after_attempt(3), reraise=True))


# The real libraries


def test_tenacity_retries_a_function_with_the_arguments_that_pre_hooks_have_left() -> None:
    once = Failing()

    @hookable
    def fetch(url: str, *rest: int, tries: int = 1, **more: int) -> Any:
        return once((url, rest, tries, more))

    fetch.pre(lambda: None)
    fetch.around(retried())
    assert fetch("u", 1, 2, z=3) == ("u", (1, 2), 1, {"z": 3})
    assert once.runs == [("u", (1, 2), 1, {"z": 3})] * 3


def test_an_lru_cache_is_kept_for_each_mount_point_and_goes_with_the_hook() -> None:
    runs: list[int] = []

    @hookable
    def square(n: int) -> int:
        runs.append(n)
        return n * n

    @hookable
    def cube(n: int) -> int:
        return n**3

    cache = around.wrap(functools.lru_cache(maxsize=8))
    square.around(cache)
    cube.around(cache)
    assert (square(3), square(n=3), cube(3), runs) == (9, 9, 27, [3])
    assert cache.decorated(square).cache_info()[:2] == (1, 1)
    assert cache.decorated(cube).cache_info()[:2] == (0, 1)
    cache.decorated(square).cache_clear()
    assert square(3) == 9 and runs == [3, 3]
    hooks(square).clear()
    square.around(cache)
    assert square(3) == 9 and runs == [3, 3, 3]
    hooks(square).remove(cache)
    with pytest.raises(HookLookupError, match="has no around hook 'lru_cache'"):
        cache.decorated(square)


def test_a_keyword_argument_that_a_decorator_changes_reaches_the_target() -> None:
    def doubled(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **{name: 2 * value for name, value in kwargs.items()})

        return wrapper

    @hookable
    def price(item: str, *, qty: int) -> int:
        return qty

    price.around(around.wrap(doubled))
    assert price("tea", qty=2) == 4


# What the decorator sees


Qty: typing.TypeAlias = int


@hookable
def price(item: str, /, qty: Qty = 1, *rest: float, gift: bool = False, **more: str) -> float:
    """Return the price."""
    return qty * 2.0


def test_the_decorator_sees_a_function_like_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def look(function: Any) -> Any:
        seen.append(function)
        return function

    monkeypatch.setitem(price.__dict__, "label", "seen")
    with hooks(price).add("around", around.wrap(look)):
        (function,) = seen
        assert function is not price
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "label"):
            assert getattr(function, name) == getattr(price, name)
        assert inspect.signature(function) == inspect.signature(price)
        assert typing.get_type_hints(function) == typing.get_type_hints(price)
        assert inspect.getsource(function) == inspect.getsource(price)
    assert price("tea", 3) == 6.0


# Every sort of target


def test_a_decorated_call_runs_in_the_right_call_when_calls_nest_and_when_tasks_run_at_once() -> None:
    seen: list[Any] = []

    def passing(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper(n: int) -> Any:
            task = asyncio.ensure_future(function(n))
            return await asyncio.wait_for(task, 30)

        return wrapper

    @hookable
    async def descend(n: int) -> int:
        await asyncio.sleep(0)
        return n if n <= 0 else 1 + await descend(n - 1)

    @descend.around(priority="LOW")
    async def inner(proceed: Any, call: Any, n: int) -> Any:
        seen.append(call.state["started"] == n)
        return await proceed()

    descend.pre(lambda call, n: call.state.update(started=n))
    descend.around(around.wrap(passing))

    async def main() -> list[int]:
        return await asyncio.gather(*map(descend, range(5)))

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]
    assert len(seen) == 15 and all(seen)


def test_a_decorator_that_calls_in_a_thread_of_its_own_runs_what_is_inside_as_a_call_of_its_own() -> None:
    layers: list[Any] = []

    def threaded(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(function, *args, **kwargs).result()

        return wrapper

    @event
    def told(n: int) -> None: ...

    told.on(lambda n: n + 1)
    told.around(around.wrap(threaded))
    assert told(1) == [2]

    @hookable
    def where(n: int, *rest: int, k: int = 2, **more: int) -> Any:
        return threading.current_thread().name.partition("_")[0], n, rest, k, more

    where.around(around.wrap(threaded))
    where.around(lambda proceed, n: layers.append(n) or proceed(), priority="LOW")
    where.around(lambda proceed: layers.append("outside") or proceed(), priority="HIGH")
    name, *given = where(1, 5, z=4)
    assert name.startswith("ThreadPoolExecutor") and given == [1, (5,), 2, {"z": 4}]
    assert layers == ["outside", 1]


@pytest.mark.parametrize("style", ["function", "coroutine"])
def test_what_a_decorator_returned_can_be_called_outside_of_a_call_and_runs_what_is_inside(style: str) -> None:
    def function(n: int) -> int:
        return n

    async def coroutine(n: int) -> int:
        return n

    target: Any = hookable(function if style == "function" else coroutine)
    seen: list[bool] = []
    hook = around.wrap(lambda inner: seen.append(inspect.iscoroutinefunction(inner)) or inner)
    target.around(hook)
    inner: list[str] = []

    def layer() -> Any:
        inner.append("inside")
        yield

    target.around(layer)
    if style == "function":
        target.around(lambda proceed: pytest.fail("outside"), priority="HIGH")
    made = hook.decorated(target)(7)
    assert (made if style == "function" else asyncio.run(made)) == 7
    assert inner == ["inside"] and seen == [style == "coroutine"]


# Hooks as all others


class Kept:
    """Something that can be referred to weakly."""


@pytest.mark.parametrize("where", ["module", "local"])
def test_removing_the_hook_frees_what_the_decorator_kept(where: str) -> None:
    space: dict[str, Any] = {"__name__": __name__, "Kept": Kept}
    exec("def make(n): return Kept()", space if where == "local" else globals())
    make = hookable(space["make"] if where == "local" else globals().pop("make"))
    code = make.__code__
    make.around(around.wrap(functools.cache))
    kept = weakref.ref(make(1))
    assert make(1) is kept()
    hooks(make).clear()
    gc.collect()
    assert kept() is None and make.__code__ is code


# Refusals


@hookable
def sync(n: int) -> int:
    return n


@hookable
async def waits(n: int) -> int:
    return n


@hookable
def streams(n: int) -> Iterator[int]:
    yield n


def bare(function: Any) -> Any:
    return lambda *args: function(*args)


def awaiting(function: Any) -> Any:
    async def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def failing(function: Any) -> Any:
    raise LookupError("no such thing")


REFUSED: list[tuple[Any, Any, str]] = [
    (waits, functools.cache, "would keep the coroutine object itself.*async_lru.alru_cache"),
    (streams, bare, "cannot be applied to a generator function, whose calls only begin it; write an around hook with"),
    (waits, bare, "makes a sync function of a coroutine function"),
    (sync, awaiting, "makes a coroutine function of a function"),
    (sync, failing, "cannot be applied to this function: the decorator raises LookupError"),
    (sync, lambda function: 3, "returns an int, which cannot be called"),
    # Without a call they failed at the call of the target, or answered with a function.
    (sync, lambda attempts=3: lambda: 3, "returns what takes nothing, and .*; if it makes decorators, call it"),
    (sync, lambda *, attempts=3: bare, "positional arguments but 1 was given; if it makes decorators, call it, as in"),
]


@pytest.mark.parametrize(("target", "decorator", "message"), REFUSED, ids=[one[2][:30] for one in REFUSED])
def test_a_decorator_that_cannot_work_is_refused_when_it_is_added(target: Any, decorator: Any, message: str) -> None:
    code = target.__code__
    with pytest.raises(HookTypeError, match=message) as caught:
        target.around(around.wrap(decorator))
    assert str(caught.value).startswith(f"{__name__}:{target.__name__}: around hook ")
    assert target.__code__ is code and not hooks(target)


def test_what_is_no_decorator_or_no_around_hook_is_refused() -> None:
    with pytest.raises(HookTypeError, match=r"around.wrap\(3\) is given no decorator"):
        around.wrap(3)  # type: ignore[arg-type]
    with pytest.raises(HookTypeError, match="is given no decorator.*; a context manager goes around a yield in a hook"):
        around.wrap(contextlib.suppress(KeyError))  # type: ignore[arg-type]
    with pytest.raises(HookTypeError, match=r"is made to be an around hook; add it with .around\(...\)"):
        sync.pre(around.wrap(functools.cache))
    with pytest.raises(HookTypeError, match="is an around hook and no decorator"):
        around.wrap(functools.cache)(sync)


def test_what_a_decorator_was_given_says_so_when_its_function_is_gone() -> None:
    kept: list[Any] = []
    hook = around.wrap(lambda function: kept.append(function) or function)

    def mounted() -> Any:
        def price(n: int) -> int:
            return n

        weave(price, around=hook)
        return price(1)

    assert mounted() == 1
    gc.collect()
    with pytest.raises(HookLookupError, match=r"decorated by around.wrap\(...\) is gone; keep it to call it"):
        kept[0](1)


def test_a_decorated_coroutine_that_is_dropped_may_be_closed_in_another_context() -> None:
    class Forever:
        def __await__(self) -> Iterator[None]:
            yield

    @hookable
    async def wait() -> None:
        await Forever()

    wait.around(around.wrap(lambda function: function))
    running = wait()
    contextvars.copy_context().run(running.send, None)
    running.close()
    assert inspect.getcoroutinestate(running) == inspect.CORO_CLOSED


@pytest.mark.parametrize("of_instance", [False, True])
def test_what_a_decorator_was_given_runs_what_is_inside_for_one_instance(*, of_instance: bool) -> None:
    kept: list[Any] = []

    class Till:
        @hookable
        def pay(self, amount: int) -> int:
            return amount

    till = Till()
    hooks(till.pay if of_instance else Till.pay).around(around.wrap(lambda function: kept.append(function) or function))
    hooks(till.pay).around(lambda proceed: proceed() + 100)
    assert till.pay(2) == 102
    assert kept[0](till, 3) == 103
