"""Events, as a type checker sees them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, assert_type

import pytest

from aspecthook import (
    HookOptionError,
    HookSignatureError,
    HookTypeError,
    MountError,
    MountPoint,
    event,
    hooks,
    weave,
)


# A stub that is said to give None is an event that gives a list of whatever its subscribers answer.
@event
def warmed(celsius: float, *, unit: str = "C") -> None:
    """The meter has a new reading."""


assert_type(warmed(20.0), list[Any])
assert_type(warmed(celsius=20.0, unit="F"), list[Any])
assert_type(warmed.__name__, str)
assert_type(warmed.hooks, MountPoint)
as_a_function: Callable[[float], list[Any]] = warmed
assert_type(functools.partial(warmed, 20.0)(), list[Any])


def calls_that_are_wrong() -> None:
    warmed()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    warmed("hot")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    warmed(20.0, "F")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    warmed(20.0, units="F")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    warmed.off  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


# A stub with any other return type says what one subscriber answers, so a call returns a list of those.
@event
def measured(celsius: float) -> str | None: ...


assert_type(measured(20.0), list[str])
assert not measured(20.0)


@measured.post
def sorted_texts(result: list[str]) -> list[str]:
    return sorted(result)


# Or it has the type of the whole list. mypy asks for a body where the return type has no None; without subscribers, a
# call returns what the body returns.
@event
def texts(n: int) -> list[str]:
    return []


assert_type(texts(1), list[str])


# One answer, or a value on its way: what the stub is said to give.
@event(first=True)
def greeting(name: str) -> str | None: ...


@event(first=True)
def with_default(name: str) -> str:
    return name


@event(fold="text")
def trimmed(text: str, *, strict: bool = False) -> str:
    return text


assert_type(greeting("ann"), str | None)
assert_type(with_default("ann"), str)
assert_type(trimmed(" a ", strict=True), str)


def options_that_are_wrong() -> None:
    event(errors="rise")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    event(first=True, fold="n")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    event(fold=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    event(frist=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


with pytest.raises(MountError):
    event(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
with pytest.raises(HookOptionError):
    event(fold="m")(lambda n: n)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


# Subscribers are given back as they were, bare and with options.
@warmed.on
def alert(celsius: float) -> str | None:
    return "too hot" if celsius > 30 else None


@warmed.on(priority="LOW", name="log")
def jot(celsius: float, unit: str) -> None: ...


@hooks(warmed).on(once=True)
def first_of_all(celsius: float) -> int:
    return 1


assert_type(alert(3.0), str | None)
assert_type(first_of_all(3.0), int)
assert warmed(31.0) == ["too hot", 1] and warmed(31.0) == ["too hot"]
hooks(warmed).add("on", alert, again=True).remove()
hooks(warmed).remove(first_of_all) if first_of_all in hooks(warmed) else None
with pytest.raises(HookTypeError):
    warmed.on(alert, prio=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
with pytest.raises(HookSignatureError):

    @warmed.on  # what it asks for is known when it is added
    def misspelt(celcius: float) -> None: ...


# Hooks of the other kinds see the list, or what the stub gives.
@warmed.post
def only_two(result: list[Any]) -> list[Any]:
    return result[:2]


@greeting.post
def politely(result: str | None) -> str:
    return result or "hello"


def number(result: object) -> int:
    return 3


def wrong_hooks() -> None:
    measured.post(number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    greeting.post(number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


assert greeting("ann") == "hello"


# Async events are awaited.
@event
async def came(who: str) -> None: ...


@event(errors="isolate")
async def shutdown(reason: str) -> None: ...


@event(first=True)
async def asked(who: str) -> str | None: ...


@came.on
async def welcome(who: str) -> str:
    return f"welcome {who}"


assert_type(came("ann"), Coroutine[Any, Any, list[Any]]).close()
assert_type(asyncio.run(shutdown("done")), list[Any])
assert_type(asyncio.run(asked("ann")), str | None)
later: Callable[[str], Awaitable[list[Any]]] = shutdown
assert asyncio.run(came("ann")) == ["welcome ann"]


# Events of a class bind as methods do.
class Meter:
    @event
    def warmed(self, celsius: float) -> None: ...

    @event(first=True)
    def named(self, n: int) -> str | None: ...

    @event
    async def gone(self, why: str) -> None: ...

    @staticmethod
    @event
    def opened(hour: int) -> None: ...

    @warmed.on
    def shown(self, celsius: float) -> str:
        return f"{celsius} degrees"


meter = Meter()
assert_type(meter.warmed(20.0), list[Any])
assert_type(Meter.warmed(meter, celsius=20.0), list[Any])
assert_type(meter.named(3), str | None)
assert_type(asyncio.run(meter.gone("broken")), list[Any])
assert_type(Meter.opened(8), list[Any])
assert_type(meter.shown(1.0), str)
assert meter.warmed(20.0) == ["20.0 degrees"]


@Meter.warmed.on
def any_meter(self: Meter, celsius: float) -> str:
    return "any"


@hooks(meter.warmed).on
def this_meter(celsius: float) -> str:
    return "this"


assert_type(any_meter(meter, 1.0), str)
assert_type(this_meter(1.0), str)
assert meter.warmed(1.0) == ["1.0 degrees", "any", "this"]


with weave(warmed, on=alert):
    assert warmed(31.0) == ["too hot", "too hot"]


# As on every mount point, `.on` is that of the function, however it is reached.
class Shop:
    @event
    def sold(self, item: str) -> None: ...

    @classmethod
    @event
    def founded(cls, year: int) -> None: ...


shop = Shop()


@shop.sold.on
def any_shop(self: Shop, item: str) -> str:
    return item


assert_type(any_shop(shop, "tea"), str)
assert Shop().sold("tea") == ["tea"]

# A class method is bound to its class.
assert_type(Shop.founded(1990), list[Any])
assert_type(shop.founded(year=1990), list[Any])
hooks(Shop.founded).on(lambda year: year)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
assert Shop.founded(1990) == [1990]
