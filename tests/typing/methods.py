"""Methods bind; classmethods, staticmethods, properties and whole classes keep the types that they have."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar, assert_type

from aspecthook import Args, MountPoint, hookable, hooks

T = TypeVar("T")


class Shop:
    def __init__(self, rebate: float = 0.0) -> None:
        self.rebate = rebate

    @hookable
    def price(self, item: str, qty: int = 1) -> float:
        return qty * 2.0 - self.rebate

    # In the class body, a hook is a method like any other.
    @price.pre
    def at_least_one(self, qty: int) -> Args:
        return Args(qty=max(qty, 1))

    @hookable
    async def fetch(self, item: str) -> float:
        return 2.0

    @hookable
    def table(self) -> dict[str, Any]:
        return {}

    @hookable
    def first(self, things: list[T]) -> T:
        return things[0]

    @classmethod
    @hookable
    def make(cls, rebate: float) -> Self:
        return cls(rebate)

    @classmethod
    @hookable
    def named(cls, name: str) -> str:
        return f"{cls.__name__} {name}"

    @staticmethod
    @hookable
    def shown(thing: object) -> str:
        return str(thing)

    @staticmethod
    @hookable
    def tax(price: float, percent: int = 20) -> float:
        return price * percent / 100

    @property
    @hookable
    def label(self) -> str:
        return "shop"

    @hookable  # type: ignore[prop-decorator]  # mypy has no decorators on properties; put it below, as above
    @property
    def other_label(self) -> str:
        return "shop"

    @cached_property
    @hookable
    def number(self) -> int:
        return 3

    @hookable
    def with_rebate(self, rebate: float) -> Self:
        self.rebate = rebate
        return self


class Corner(Shop):
    def cheapest(self) -> float:
        return min(super().price("tea"), self.price("milk"))


shop, corner = Shop(), Corner()

# Bound, and not bound
assert_type(shop.price("tea"), float)
assert_type(shop.price(item="tea", qty=2), float)
assert_type(Shop.price(shop, "tea", qty=2), float)
assert_type(corner.price("tea"), float)
assert_type(corner.cheapest(), float)
assert_type(shop.first(["a"]), str)
assert_type(asyncio.run(shop.fetch("tea")), float)
assert_type(shop.table(), dict[str, Any])
assert_type(Shop.with_rebate(shop, 0.0).rebate, float)
assert_type(shop.price.__name__, str)
assert_type(shop.price.hooks, MountPoint)
assert shop.price("tea", 0) == 2.0


def calls_that_are_wrong() -> None:
    shop.price()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    shop.price(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Shop.price("tea")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]


# Hooks are checked as those of functions are.


@Shop.price.post
def discount(self: Shop, result: float) -> float | None:
    return result - self.rebate


def text(result: float) -> str:
    return str(result)


def wrong_hooks() -> None:
    Shop.price.post(text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    shop.price.post(text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# Classmethods and staticmethods
# That of a class method that gives `Self` is exact for pyright, and Any for mypy, which takes no Self through __get__.
made: list[Shop] = [Shop.make(0.5), shop.make(0.5), Corner.make(0.5)]
assert_type(Shop.named("tea"), str)
assert_type(shop.named(name="tea"), str)
assert_type(Shop.tax(2.0, percent=10), float)
assert_type(Shop.shown(2.0), str)


def calls_of_class_methods_that_are_wrong() -> None:
    Shop.make("tea")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    shop.named(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Shop.tax("tea")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# mypy binds a staticmethod that is taken from an instance.
tax: float = shop.tax(2.0)  # type: ignore[arg-type]
assert tax == 0.4
assert Shop.make(0.5).price("tea") == 1.0


@Shop.make.pre
def no_rebate(rebate: float) -> Args:
    return Args(rebate=0.0)


assert Shop.make(0.5).rebate == 0.0

# Properties
assert_type(shop.label, str)
assert_type(shop.other_label, str)
assert_type(shop.number, int)


@hooks(Shop.label).post
def capital(result: str) -> str:
    return result.upper()


assert shop.label == "SHOP"

# A method that gives `Self`: as above.
same_shop: Corner = corner.with_rebate(0.5)
assert same_shop is corner


# Whole classes, and methods that are there already, stay what they are for a type checker: functions that can be
# overridden, special methods, properties with setters. No decorator of a class can change the types of its methods, so
# `hooks(Till.add).pre` reaches their mount points, and `Till.add.pre` is an error.


@hookable
class Till:
    total = 0.0

    def add(self, amount: float) -> Self:
        self.total += amount
        return self

    @property
    def rounded(self) -> int:
        return round(self.total)

    @rounded.setter
    def rounded(self, value: int) -> None:
        self.total = float(value)


class CountingTill(Till):
    def add(self, amount: float, times: int = 1) -> Self:
        return super().add(amount * times)


assert_type(Till(), Till)
assert_type(CountingTill().add(2.0, 3).add(1.0), CountingTill)


@hooks(Till.add).pre
def never_negative(amount: float) -> Args:
    return Args(amount=max(amount, 0.0))


assert_type(never_negative(3.0), Args)
Till.add.pre(never_negative)  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
assert CountingTill().add(-2.0).total == 0.0

# Called with a method of another sort, hookable gives that back.
in_the_class: staticmethod[[float, int], float] = vars(Shop)["tax"]
same_method: staticmethod[[float, int], float] = hookable(in_the_class)
assert same_method is in_the_class
assert_type(hookable(property(lambda self: 3)), property)


def not_hookable() -> None:
    hookable(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    hooks("price")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    hookable(Till, name="till")  # a class has no name of its own in messages; that is seen at run time


# Where a protocol expects a method, it is one for mypy. Pyright compares the object that is in the class, which is not
# bound there; a class that is decorated keeps its methods.
class Priced(Protocol):
    def price(self, item: str) -> float: ...


def total(one: Priced) -> float:
    return one.price("tea")


assert total(shop) == 2.0  # pyright: ignore[reportArgumentType]


# Overriding: to a type checker, a hookable method is an object and no method, as that of `functools.cache` is. mypy
# binds both and compares what comes of it, pyright compares the objects.
class Base(ABC):
    @hookable
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def price(self, item: str) -> float: ...

    @hookable
    async def fetch(self, url: str) -> str:
        return url


class WithHookable(Base):
    @hookable
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "hookable"

    @hookable
    def price(self, item: str) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        return 2.0

    @hookable
    async def fetch(self, url: str) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return await super().fetch(url) + "!"


class WithPlain(Base):
    def name(self) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        return "plain"

    def price(self, item: str) -> float:
        return 2.0


# Decorating the class instead suits both.
@hookable
class Tea(WithPlain):
    def price(self, item: str) -> float:
        return 4.0

    async def fetch(self, url: str) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        return url


@hooks(Tea.price).post
def half(result: float) -> float:
    return result / 2


assert asyncio.run(WithHookable().fetch("tea")) == "tea!"
assert total(Tea()) == 2.0
