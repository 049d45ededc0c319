"""A hookable function keeps its signature, and has the attributes that hooks are added with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, assert_type

from aspecthook import Args, MountPoint, hookable

T = TypeVar("T")


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


# What is said to give Any takes any answer, and its arguments are checked all the same.
@hookable
def load(path: str) -> Any:
    return {"path": path}


@load.post
def as_list(result: object) -> list[object]:
    return [result]


assert load("here") == [{"path": "here"}]
assert_type(as_list(3), list[object])


def a_wrong_call_of_load() -> None:
    load(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# Nor does Any elsewhere keep an answer from being checked.
@hookable
def settings(path: str) -> dict[str, Any]:
    return {"path": path}


@settings.post
def complete(result: dict[str, Any]) -> dict[str, Any]:
    return {"depth": 3} | result


@settings.around
def cached(proceed: Callable[..., dict[str, Any]], path: str) -> dict[str, Any]:
    return proceed(path=path.lower())


def text(result: dict[str, Any]) -> str:
    return str(result)


def wrong_hooks_of_settings() -> None:
    settings.post(text)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


assert settings("HERE") == {"depth": 3, "path": "here"}


# Hooks given back are the functions that they were, also when their parameters are matched by name or position.
@price.pre
def at_least(qty: int, least: int = 1) -> Args:
    return Args(qty=max(qty, least))


assert_type(at_least(3), Args)
assert_type(at_least(qty=0, least=2), Args)
assert_type(at_least.__name__, str)
assert price("tea", 0) == 2.0
