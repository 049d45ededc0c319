"""The oracle on targets of every sort: machines that change hooks at random, and the laws of chosen chains."""

from __future__ import annotations

import asyncio
import operator
import sys
from collections.abc import Callable
from contextlib import aclosing
from functools import wraps
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st

from aspecthook import Args, Return, event, hookable, hooks, weave
from tests.oracle.candidates import Candidate
from tests.oracle.machine import OracleMachine
from tests.oracle.short_stories import explore

# Shrinking would only cost time here: the short stories are short.
SETTINGS = settings(
    max_examples=settings().max_examples // 10,
    stateful_step_count=20,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)


class OutOfStock(LookupError):
    """What a shop raises for an item that it does not have."""


def shop() -> Any:
    """Return a function to be hooked: it fails for no pieces, and is interrupted for three."""

    @hookable
    def price(item: object, qty: int = 1) -> int:
        if qty == 0:
            raise OutOfStock(item)
        if qty == 3:
            raise KeyboardInterrupt
        return 10 * qty

    return price


def at_least_one(qty: int) -> Args | None:
    return Args(qty=1, item=0) if qty == 2 else None


def free(item: object) -> Return[None] | None:
    return Return(None) if item == 3 else None


def discount(result: int | None) -> int | None:
    return 0 if result == 20 else None


def forget(call: Any) -> Return[None] | None:
    return Return(None) if call.arguments["item"] == 1 else None


def unknown(exc: BaseException) -> Return[int] | None:
    return Return(-1) if exc.args == (2,) else None


def again(exc: BaseException) -> Return[None]:
    return Return(None)


def twice(proceed: Callable[..., Any], qty: int) -> Any:
    return proceed(qty=qty + 1) if qty == 1 else Return(proceed())


def timed() -> Any:
    yield


def careful() -> Any:
    """Catch what goes wrong and answer nothing: the exception goes on all the same."""
    try:
        yield
    except OutOfStock:
        return


def report(call: Any) -> str:
    return f"{call.result} {call.exc}"


def ends(result: object, exc: object) -> None:
    """Ask for how the call has ended."""


def broken(qty: int) -> None:
    if qty == 2:
        raise ValueError(qty)


def worse(exc: Exception) -> None:
    raise ValueError(exc)


def interrupted(qty: int) -> None:
    if qty == 2:
        raise KeyboardInterrupt


class PriceMachine(OracleMachine):
    """A user's own hooks of several kinds, some with conditions."""

    def make(self) -> Any:
        return shop()

    candidates = (
        Candidate("pre", at_least_one),
        Candidate("pre", free, when=lambda qty: qty < 2),
        Candidate("pre", broken, isolate=True),
        Candidate("pre", interrupted, isolate=True, priority=0),
        Candidate("pre", lambda: None, name="first", once=True, before="ends"),
        Candidate("around", twice),
        Candidate("around", timed, when=lambda qty: qty > 1),
        Candidate("post", discount, every=2),
        Candidate("post", forget, before=["counted", "discount"]),
        Candidate("post", lambda result: None, name="counted", times=2, every=2),
        Candidate("exception", worse),  # twins of it fail one after another
        Candidate("exception", again, OutOfStock, KeyboardInterrupt),
        Candidate("exception", unknown),
        Candidate("always", report, reentrant=False),
        Candidate("always", ends, when=lambda qty: qty != 1, before="first"),
        Candidate("always", broken, after=["report", "ends"]),
        Candidate("pre", lambda item: None, name="logged"),
        Candidate("post", lambda result: None, name="rounded", after="discount"),
    )


def account() -> Any:
    """Return an object with a method whose class has one hook."""

    class Account:
        balance = 100

        @hookable
        def pay(self, amount: int, fee: int = 1) -> int:
            if amount == 3:
                raise ValueError(amount)
            return self.balance - amount - fee

    hooks(Account.pay).add("pre", lambda amount: None, name="audit")
    return Account()


class AccountMachine(OracleMachine):
    """Hooks of one instance, beside one of its class."""

    def make(self) -> Any:
        self.account = account()
        return self.account.pay


def delivery() -> Any:
    """Return a function with parameters of every sort."""

    @hookable
    def deliver(item: object, /, street: object, *notes: object, qty: int = 1, tip: int = 0, **more: object) -> object:
        return item, street, notes, qty, tip, more

    return deliver


class DeliveryMachine(OracleMachine):
    """The kit's own hooks on parameters of every sort."""

    def make(self) -> Any:
        return delivery()


def stock() -> Any:
    """Return a coroutine function to be hooked: it waits, and fails for no pieces."""

    @hookable
    async def fetch(item: object, qty: int = 1) -> object:
        await asyncio.sleep(0)
        if qty == 0:
            raise OutOfStock(item)
        return SPENT if qty == 3 else 10 * qty

    return fetch


async def _nothing() -> None: ...


# A result that nobody may await, as it has been.
SPENT = _nothing()
SPENT.close()


async def few(qty: int) -> bool:
    await asyncio.sleep(0)
    return qty < 2


async def at_least_one_later(qty: int) -> Args | None:
    await asyncio.sleep(0)
    return at_least_one(qty)


def discount_later(result: int | None) -> Any:
    """Answer a coroutine, which is awaited."""

    async def later() -> int | None:
        return discount(result)

    return later()


async def patient(proceed: Callable[..., Any], qty: int) -> Any:
    return await proceed(qty=qty + 1) if qty == 1 else await proceed()


async def handed_on(proceed: Callable[..., Any]) -> Any:
    return proceed()


async def careless(qty: int) -> None:
    await asyncio.sleep(0)
    if qty != 1:
        raise ValueError(qty)


async def watched() -> Any:
    yield


class FetchMachine(OracleMachine):
    """Hooks of a coroutine function, sync and async."""

    def make(self) -> Any:
        return stock()

    candidates = (
        Candidate("pre", at_least_one_later),
        Candidate("pre", free, when=few),
        Candidate("around", patient),
        Candidate("around", handed_on),
        Candidate("around", timed),
        Candidate("around", careful),
        Candidate("around", watched),
        Candidate("post", discount_later),
        Candidate("exception", careless),
        Candidate("exception", unknown),
        Candidate("exception", again, OutOfStock),
        Candidate("always", careless),
        Candidate("always", broken),
        Candidate("always", report),
    )


def numbers() -> Any:
    """Return a generator function to be hooked: it takes what it is sent, and gives a result."""

    @hookable
    def count(qty: int) -> Any:
        added = 0
        for number in range(qty):
            try:
                added += (yield number + added) is not None
            except LookupError:
                added += 2
        if qty == 3:
            raise OutOfStock(qty)
        return added + qty

    return count


def doubled(item: object) -> Any:
    return 2 * item if isinstance(item, int) else None


def one_more(item: object) -> Any:
    return item + 1 if isinstance(item, int) else None


def relayed(proceed: Callable[..., Any]) -> Any:
    result = yield from proceed()
    return result


def handing_on(proceed: Callable[..., Any]) -> Any:
    return proceed()


def summed() -> Any:
    result = yield
    return (result or 0) + 1


class CountMachine(OracleMachine):
    """Hooks of a generator."""

    def make(self) -> Any:
        return numbers()

    candidates = (
        Candidate("pre", lambda qty: Args(qty=2) if qty == 1 else None, name="at_least_two"),
        Candidate("item", doubled),
        Candidate("item", one_more),
        Candidate("around", relayed),
        Candidate("around", handing_on, reentrant=False),
        Candidate("around", summed),
        Candidate("around", timed, when=lambda qty: qty > 1),
        Candidate("post", discount),
        Candidate("exception", again, OutOfStock),
        Candidate("always", ends),
        Candidate("always", broken),
    )


def anumbers() -> Any:
    """Return an async generator function to be hooked, which waits before each item."""

    @hookable
    async def acount(qty: int) -> Any:
        added = 0
        for number in range(qty):
            await asyncio.sleep(0)
            try:
                added += (yield number + added) is not None
            except LookupError:
                added += 2
        if qty == 3:
            raise OutOfStock(qty)

    return acount


async def arelayed(proceed: Callable[..., Any]) -> Any:
    async with aclosing(proceed()) as items:
        async for item in items:
            yield item


class AsyncCountMachine(OracleMachine):
    """Hooks of an async generator, sync and async."""

    def make(self) -> Any:
        return anumbers()

    candidates = (
        Candidate("pre", at_least_one_later),
        Candidate("item", doubled),
        Candidate("item", one_more),
        Candidate("around", arelayed),
        Candidate("around", handing_on, reentrant=False),
        Candidate("around", watched),
        Candidate("around", timed, when=lambda qty: qty > 1),
        Candidate("exception", again, OutOfStock),
        Candidate("always", careless),
        Candidate("always", broken),
    )


class WrapperMachine(OracleMachine):
    """The oracle's own hooks on a wrapper that has a parameter of its own before those that it hands on."""

    def make(self) -> Any:
        def inner(a: int, *rest: int, b: int = 1) -> object:
            return a, rest, b

        @wraps(inner)
        def outer(first: int, /, *args: Any, **kwargs: Any) -> object:
            return first, inner(*args, **kwargs)

        return hookable(outer)

    arguments = st.tuples(
        st.tuples(*[st.integers(0, 3)] * 3), st.fixed_dictionaries({}, optional={"b": st.integers(0, 3)})
    )


class PublishMachine(OracleMachine):
    """The oracle's own hooks on an event."""

    def make(self) -> Any:
        @event
        def published(item: int, qty: int = 1) -> None: ...

        return published


class BuiltinMachine(OracleMachine):
    """The oracle's own hooks on a function that has no Python code, beside one that was woven."""

    def make(self) -> Any:
        module = self.module = ModuleType("oracle_builtin")
        module.add = operator.add
        sys.modules[module.__name__] = module
        weaving = weave("oracle_builtin:add", pre=lambda: None, name="woven")
        self.__dict__.setdefault("weavings", []).append(weaving)
        return module.add

    def teardown(self) -> None:
        super().teardown()
        for weaving in self.weavings:
            for mount in weaving.mounts:
                mount.clear()
            weaving.remove()


MACHINES = (
    OracleMachine,
    PriceMachine,
    AccountMachine,
    DeliveryMachine,
    FetchMachine,
    CountMachine,
    AsyncCountMachine,
    WrapperMachine,
    PublishMachine,
)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_nothing_differs_from_what_the_model_and_the_interpreter_say(machine: type[OracleMachine]) -> None:
    explore(seed(1)(type(machine.__name__, (machine,), {})), SETTINGS)


@pytest.mark.wide
def test_nothing_differs_on_a_function_without_python_code() -> None:
    add = operator.add
    explore(seed(1)(BuiltinMachine), SETTINGS)
    assert operator.add is add  # the proxy is gone from every module


@pytest.mark.wide
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_nothing_differs_in_long_stories(machine: type[OracleMachine]) -> None:
    explore(type(machine.__name__, (machine,), {}), settings(SETTINGS, max_examples=40))
