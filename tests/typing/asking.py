"""What a hook asks for is known when it is added, and not to type checkers.

A hook asks for any of the names that are on offer, in any order, and leaves out the others. No annotation says that, so
its parameters are not compared with those of the target: whoever wants that must run the program. What it is added with
and what it answers are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aspecthook import Args, Call, HookSignatureError, HookTypeError, event, hookable, hooks, weave


@hookable
def price(item: str, qty: int = 1) -> float:
    return qty * 2.0


@event
def sold(item: str) -> None: ...


def misspelt(qyt: int) -> Any: ...


def of_another_type(result: str) -> None: ...


def of_another_error(exc: OSError) -> None: ...


def of_another_kind(exc: Exception) -> None: ...


# Any of the names, in any order, with annotations or without.


@price.post
def all_of_them(kwargs: dict[str, Any], call: Call, result: float, args: tuple[Any, ...], qty: int, item: str) -> None:
    assert call.arguments == {"item": item, "qty": qty}


@price.post
def none_of_them() -> None: ...


@price.post
def none_of_them_by_name(*args: object, **kwargs: object) -> None:
    assert "tea" in args


@price.pre
def one_of_its_own(qty: int, least: int = 1) -> Args:
    return Args(qty=max(qty, least))


@price.pre  # pyright: ignore[reportUnknownArgumentType]
def any_type(qty) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]


assert price("tea") == 2.0


# Refused when they are added.
for add in (price.pre, price.post, price.around, price.exception, price.always, hooks(price).pre, sold.on):
    with pytest.raises(HookSignatureError, match="'qyt'"):
        add(misspelt)
with pytest.raises(HookSignatureError, match="'qyt'"):
    weave(price, pre=misspelt)
with pytest.raises(HookSignatureError, match="'exc'"):
    price.post(of_another_kind)

# Never refused: what an annotation says is not looked at.
price.post(of_another_type)
price.exception(KeyError)(of_another_error)
assert price("tea") == 2.0


def options_and_answers(proceed: Callable[[], float]) -> None:
    price.pre(misspelt, pirority="LOW")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    price.pre(misspelt, priority=None)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    price.pre(priority=1.5)(misspelt)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    price.exception("KeyError")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    price.exception(KeyError())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    hooks(price).pre(misspelt, pirority="LOW")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sold.on(misspelt, pirority="LOW")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    weave(price, per=misspelt)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    price.pre(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


# With `hooks` and `weave`, which take whatever there is, answers are not compared either.
def text(result: float) -> str:
    return str(result)


with pytest.raises(HookTypeError):
    hooks(price).post(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
hooks(price).post(text, name="text").__name__
weave(price, post=text).remove()


# Lambdas that ask for what they need are no errors in pyright's strict mode, where parameters of type Unknown are.
hooks(price).add("post", lambda result, qty: result * qty, when=lambda item: item.startswith("t")).remove()
hooks(price).add("pre", lambda: None, when=lambda item, qty, call: item and qty and call).remove()
weave(price, pre=[lambda: None, lambda item: None], when=lambda item: item.startswith("t")).remove()


def keyword_only(*, item: str, qty: int) -> bool:
    return bool(item) and qty > 1


hooks(price).add("pre", keyword_only, when=keyword_only).remove()
