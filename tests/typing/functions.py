"""A hookable function keeps its signature, and has the attributes that hooks are added with."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, assert_type, overload

import aspecthook
import aspecthook.events
from aspecthook import Args, MountPoint, hookable, hooks

T = TypeVar("T")
Number = TypeVar("Number", int, float)
P = ParamSpec("P")


@hookable
def price(item: str, qty: int = 1, *, rebate: float = 0.0) -> float:
    return qty * 2.0 - rebate


# Calls are checked as before.
assert_type(price("tea"), float)
assert_type(price("tea", qty=3, rebate=0.5), float)
with_a_name: Callable[[str, int], float] = price


def calls_that_are_wrong() -> None:
    price()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    price("tea", "3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    price("tea", amount=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    aspecthook.hookabel  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    aspecthook.events.signals  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    price.before  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


# It is a function, and has what functions have.
assert_type(price.__name__, str)
assert_type(price.__qualname__, str)
assert_type(price.__module__, str)
assert_type(price.__doc__, str | None)
assert_type(price.hooks, MountPoint)


# With options, and a second time: the same.
@hookable(name="the shop's price list")
def list_price(item: str) -> float:
    return 2.0


assert_type(list_price(item="tea"), float)
assert_type(list_price.hooks.name, str)
assert_type(hookable(price)("tea", 2), float)


# A generic function stays generic.
@hookable
def first(things: list[T]) -> T:
    return things[0]


assert_type(first([1, 2]), int)
assert_type(first(["a", "b"]), str)


@hookable
def double(number: Number) -> Number:
    return number + number


assert_type(double(3), int)
assert_type(double(3.0), float)


def wrong_calls_of_generic_functions() -> None:
    double("a")  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


# But not in a ParamSpec of its own: there is none for the parameters of a function that has one.
@hookable  # type: ignore[arg-type]
def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)


assert call(len, "abc") == 3  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue]


# Overloads stay. They say nothing of what is below the last one, so `hooks(parse).pre` reaches its mount point.
@overload
def parse(text: str) -> int: ...
@overload
def parse(text: bytes) -> float: ...
@hookable
def parse(text: str | bytes) -> int | float:
    return int(text) if isinstance(text, str) else float(text)


@hooks(parse).pre
def stripped(text: str | bytes) -> Args:
    return Args(text=text.strip())


assert_type(parse(" 3 "), int)
assert_type(parse(b"3.5"), float)


def wrong_uses_of_overloads() -> None:
    parse(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    parse.pre(stripped)  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]


# What is said to give Any takes any answer, and its arguments are checked all the same.
@hookable
def load(path: str) -> Any:
    return {"path": path}


@load.post
def as_list(result: object) -> list[object]:
    return [result]


assert load("here") == [{"path": "here"}]


def a_wrong_call_of_load() -> None:
    load(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@price.pre
def at_least(qty: int, least: int = 1) -> Args:
    return Args(qty=max(qty, least))


at_least(qty=0, least=2)
assert_type(at_least.__name__, str)


# Where a function is expected, it is one.
def logged(function: Callable[P, T]) -> Callable[P, T]:
    return function


@hookable
async def fetch(url: str) -> bytes:
    return url.encode()


async def passed_on() -> None:
    assert_type(await asyncio.gather(fetch("a"), fetch("b")), tuple[bytes, bytes])
    assert_type(await asyncio.to_thread(price, "tea", qty=2), float)


assert_type(list(map(list_price, ["tea"])), list[float])
assert_type(functools.partial(price, "tea")(2), float)
assert_type(functools.cache(list_price)("tea"), float)
assert_type(logged(price)("tea", qty=2), float)
threading.Thread(target=price, args=("tea",)).run()
asyncio.run(passed_on())


def wrong_uses_of_what_is_passed_on() -> None:
    map(list_price, [3])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    logged(price)(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
