"""Hooks on generators: `next`, `send`, `throw` and `close` reach the target as if nothing stood between."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from aspecthook import hookable, hooks

log: list[object] = []


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    log.clear()


def source(start: int = 0) -> Generator[object, object, str]:
    """Note what comes in; give it out again."""
    log.append("began")
    got: object = start
    try:
        while got != "end":
            try:
                got = yield got
                log.append(got)
            except LookupError as error:
                got = type(error).__name__
                log.append(got)
        return "result"
    finally:
        log.append("ended")


def yielding() -> Iterator[None]:
    yield


def looping(proceed: Callable[[], Iterator[object]]) -> Generator[object, object, object]:
    return (yield from proceed())


# Hooks that change nothing: whatever is asked of the generator, the answers are those of the bare one.
IDLE: dict[str, tuple[str, Callable[..., Any], dict[str, Any]]] = {
    "pre": ("pre", lambda: None, {}),
    "item": ("item", lambda item: None, {}),
    "exception": ("exception", lambda exc: None, {}),
    "post": ("post", lambda result: None, {}),
    "always": ("always", lambda exc, result: None, {}),
    "call": ("always", lambda call: None, {}),
    "proceed": ("around", lambda proceed: proceed(), {}),
    "loop": ("around", looping, {}),
    "yield": ("around", yielding, {}),
    "yield, not reentrant": ("around", yielding, {"reentrant": False}),
    "proceed, not reentrant": ("around", lambda proceed: proceed(), {"reentrant": False}),
}
chains = pytest.mark.parametrize(
    "names",
    [*itertools.combinations(IDLE, 1), *itertools.combinations(IDLE, 2), tuple(IDLE)],
    ids=" + ".join,
)


def mounted(names: tuple[str, ...]) -> Callable[..., Generator[Any, Any, Any]]:
    def copy(start: int = 0) -> Generator[object, object, str]:
        return (yield from source(start))

    hookable(copy)
    for name in names:
        kind, hook, options = IDLE[name]
        hooks(copy).add(kind, hook, again=True, **options)
    return copy


STEPS: dict[str, Callable[[Generator[Any, Any, Any]], object]] = {
    "next": next,
    "send": lambda stream: stream.send("sent"),
    "send None": lambda stream: stream.send(None),
    "send end": lambda stream: stream.send("end"),
    "throw": lambda stream: stream.throw(KeyError("thrown")),
    "throw type": lambda stream: stream.throw(IndexError),
    "throw through": lambda stream: stream.throw(OSError("through")),
    "throw StopIteration": lambda stream: stream.throw(StopIteration("stop")),
    "throw KeyboardInterrupt": lambda stream: stream.throw(KeyboardInterrupt()),
    "throw GeneratorExit": lambda stream: stream.throw(GeneratorExit()),
    "close": lambda stream: stream.close(),
    "list": list,
    "state": inspect.getgeneratorstate,
}
DRIVES = [
    ["next", "send", "throw", "throw type", "send end", "next", "state"],
    ["send", "send None", "state", "close", "next"],
    ["close", "next", "state"],
    ["throw", "next"],
    *(["next", step, "state", "next", "close"] for step in STEPS),
    ["next", "throw GeneratorExit", "close", "next"],
    ["list", "list"],
]


def driven(stream: Generator[Any, Any, Any], drive: list[str]) -> list[object]:
    answers: list[object] = []
    for step in drive:
        try:
            answers.append(STEPS[step](stream) if step != "list" else [next(stream), stream.close()])
        except BaseException as error:
            cause = type(error.__cause__).__name__
            answers.append((type(error).__name__, getattr(error, "value", str(error)), cause))
    return answers


@chains
def test_a_hooked_generator_answers_as_the_bare_one(names: tuple[str, ...]) -> None:
    function = mounted(names)
    for drive in DRIVES:
        log.clear()
        expected = driven(source(1), drive), list(log)
        for _ in range(2):
            log.clear()
            assert (driven(function(1), drive), list(log)) == expected, drive


def test_the_hooks_of_a_generator_run_from_its_first_next_to_its_end() -> None:
    function = mounted(())
    hooks(function).add("pre", lambda: log.append("pre"))
    hooks(function).add("item", lambda item: log.append(("item", item)))
    hooks(function).add("post", lambda result: log.append(("post", result)))
    hooks(function).add("always", lambda result, exc: log.append(("always", result, exc)))
    stream = function(1)
    assert log == []
    assert driven(stream, ["next", "send", "send end"]) == [1, "sent", ("StopIteration", "result", "NoneType")]
    expected = ["pre", "began", ("item", 1), "sent", ("item", "sent"), "end", "ended"]
    assert log == [*expected, ("post", "result"), ("always", "result", None)]


@pytest.mark.parametrize("kind", ["pre", "item", "post", "exception", "always"])
def test_a_stop_iteration_from_a_hook_does_not_end_a_generator_silently(kind: str) -> None:
    # PEP 479 holds for what hooks raise, too.
    def stopping() -> None:
        raise StopIteration

    function = mounted(())
    hooks(function).add(kind, stopping)
    drive = ["next", "throw through"] if kind == "exception" else ["next", "send end"]
    name, message, cause = driven(function(), drive[: 1 if kind in ("pre", "item") else 2])[-1]
    assert (name, message, cause) == ("RuntimeError", "generator raised StopIteration", "StopIteration")


@pytest.mark.parametrize("style", ["generator", "async generator"])
def test_an_item_hook_that_raises_closes_a_target_that_others_hold_before_the_hooks_for_its_exception(
    style: str,
) -> None:
    held: list[Any] = []

    @hookable
    def generator() -> Iterator[int]:
        try:
            yield 1
        finally:
            log.append("ended")

    @hookable
    async def async_generator() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            log.append("ended")

    def holding(proceed: Any) -> Any:
        held.append(proceed())  # else it would be closed because nothing refers to it any more
        return held[0]

    function: Any = generator if style == "generator" else async_generator
    function.around(holding)
    function.item(lambda item: 1 // 0)
    function.exception(lambda exc: log.append("exception"))
    function.always(lambda exc: log.append(type(exc).__name__))

    async def collect() -> list[Any]:
        return [item async for item in function()]

    with pytest.raises(ZeroDivisionError):
        list(function()) if style == "generator" else asyncio.run(collect())
    assert log == ["ended", "exception", "ZeroDivisionError"]


def test_context_variable_set_by_a_generator_stays_with_its_caller() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")

    @hookable
    def setting() -> Iterator[str]:
        yield variable.get()
        variable.set("inside")
        yield variable.get()

    setting.item(lambda item: None)
    setting.around(yielding)

    def run() -> list[str]:
        stream = setting()
        first = next(stream)
        variable.set("caller")
        second = next(stream)
        return [first, second, variable.get()]

    assert contextvars.copy_context().run(run) == ["outside", "inside", "inside"]


@pytest.mark.parametrize("ended", [True, False])
def test_a_generator_left_in_another_context_lets_a_hook_that_is_not_reentrant_run_again(ended: bool) -> None:
    # It never ran again where the generator had begun: its mark stayed in that context.
    @hookable
    def stream() -> Iterator[int]:
        yield 1

    @stream.around(reentrant=False)
    def note(proceed: Callable[[], Iterator[int]]) -> Iterator[int]:
        log.append("around")
        return proceed()

    running = stream()
    next(running)
    contextvars.copy_context().run(list if ended else Generator.close, running)
    assert list(stream()) == [1]
    assert log == ["around"] * 2


def test_any_async_iterator_may_take_the_place_of_an_async_generator() -> None:
    class Countdown:
        left = 3

        def __aiter__(self) -> Countdown:
            return self

        async def __anext__(self) -> int:
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            return self.left

    @hookable
    async def numbers() -> AsyncIterator[int]:
        yield 7

    numbers.around(lambda proceed: Countdown())
    numbers.item(lambda item: 10 * item)

    async def collect() -> list[int]:
        return [number async for number in numbers()]

    assert asyncio.run(collect()) == [20, 10, 0]


@pytest.mark.parametrize("due", [None, lambda: True], ids=["always", "when"])
def test_a_one_yield_hook_of_a_generator_begins_before_the_hooks_inside_it(due: Any) -> None:
    # The one inside ran first, unless a decorator of `around.wrap` stood between the two.
    log: list[str] = []

    @hookable
    def count() -> Iterator[int]:
        log.append("target")
        yield 1

    @count.around(priority=1, when=due)
    def outer() -> Iterator[None]:
        log.append("outer")
        yield

    @count.around(priority=2)
    def inner(proceed: Any) -> Any:
        log.append("inner")
        return proceed()

    assert list(count()) == [1]
    assert log == ["outer", "inner", "target"]
