"""Answers that no call could use are errors for both type checkers.

Each `ignore` below stands for an error: both checkers are told to report the ones that nothing needs. At run time
a type is no reason to refuse a hook, so most of these lines just run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator

import pytest

from aspecthook import Args, HookTypeError, Return, hookable


@hookable
def price(item: str, qty: int = 1) -> float:
    return qty * 2.0


@hookable
async def fetch(item: str) -> int:
    return 1


@hookable
def count(upto: int) -> Generator[int, str, float]:
    yield upto
    return 1.0


@hookable
async def watch(upto: int) -> AsyncGenerator[int]:
    yield upto


def text(result: object) -> str:
    return str(result)


def maybe_text(result: object) -> str | None:
    return None


def text_in_return() -> Return[str]:
    return Return("")


def replaced() -> Args:
    return Args()


async def later_text(result: object) -> str:
    return str(result)


async def later_args() -> Args:
    return Args()


async def later_number() -> float:
    return 1.0


def count_items(item: str) -> str:
    return item


def number() -> float:
    return 1.0


# A function.
price.post(text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
price.post(maybe_text, priority=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
price.post(priority=3, again=True)(text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
price.post(text_in_return)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
price.post(replaced)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
price.pre(number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
price.pre(text_in_return)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
price.exception(number)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
price.exception(KeyError)(text_in_return)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
price.exception(replaced)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


@price.post  # type: ignore[arg-type]  # pyright: ignore
def as_a_decorator(result: float) -> str:
    return str(result)


def around_text(proceed: Callable[[], float]) -> str:
    return str(proceed())


def around_nothing(proceed: Callable[[], float]) -> float | None:
    return None


def generator_of_text() -> Generator[None, float, str]:
    yield
    return ""


def generator_unsaid() -> Iterator[None]:
    yield


price.around(around_text)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
price.around(around_nothing)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
# As for contextlib.contextmanager, the answer of an Iterator is not known: it is taken, but marked as deprecated.
price.around(generator_of_text)  # type: ignore[deprecated]  # pyright: ignore[reportDeprecated]
price.around(generator_unsaid)  # type: ignore[deprecated]  # pyright: ignore[reportDeprecated]

with pytest.raises(HookTypeError, match="async"):
    price.post(later_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
with pytest.raises(HookTypeError, match="async"):
    price.pre(later_args)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
with pytest.raises(HookTypeError, match="item"):
    price.item(count_items)  # type: ignore[operator]  # pyright: ignore[reportCallIssue]
with pytest.raises(HookTypeError, match="prio"):
    price.post(number, prio=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


# A coroutine function: what it gives when awaited counts.
fetch.post(text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
fetch.post(later_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
fetch.pre(later_number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
fetch.exception(later_number)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
fetch.exception(text_in_return)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


# A generator function: its post hooks answer what it returns, its item hooks what it yields.
def other_item(item: int) -> str:
    return ""


count.post(text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
count.item(other_item)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
count.exception(text_in_return)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
count.pre(number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# An async generator function: its item hooks answer what it yields, and others may answer anything.
def other_items(item: int) -> float:
    return 1.0


watch.item(other_items)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
watch.post(number)
