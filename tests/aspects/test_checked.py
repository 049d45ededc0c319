"""Checks against annotations, and warnings of what is deprecated."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Generator

import pytest

from aspecthook import HookTypeError, weave
from aspecthook.aspects import checked, deprecated
from tests.aspects.conftest import Targets
from tests.aspects.test_log import line_here


def total(items: list[int], *, scale: float | None = None) -> int:
    return "many" if len(items) > 2 else sum(items)  # type: ignore[return-value]


async def fetch(url: str) -> int:
    return url  # type: ignore[return-value]


def rows(n: int) -> Generator[int, None, str]:
    yield from range(n)
    return "end"


async def pages(n: int) -> AsyncGenerator[int]:
    for number in range(n):
        yield number


class Cart:
    def add(self, item: str) -> Cart:
        return self


def test_arguments_that_do_not_fit_raise_type_error() -> None:
    with weave(total, aspect=checked()):
        assert total([1, 2]) == 3
        with pytest.raises(TypeError, match="items"):
            total(["tea"])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="scale"):
            total([1], scale="big")  # type: ignore[arg-type]


def test_results_that_do_not_fit_raise_type_error() -> None:
    with weave(total, aspect=checked()), weave(fetch, aspect=checked()):
        with pytest.raises(TypeError, match="return"):
            total([1, 2, 3])
        with pytest.raises(TypeError, match="return"):
            asyncio.run(fetch("/"))


def test_generators_and_methods_are_checked() -> None:
    async def take(n: object) -> list[int]:
        return [page async for page in pages(n)]  # type: ignore[arg-type]

    with weave(rows, aspect=checked()), weave(pages, aspect=checked()), weave(Cart.add, aspect=checked()):
        assert [*rows(2)] == [0, 1] and asyncio.run(take(2)) == [0, 1]
        cart = Cart()
        assert cart.add("tea") is cart
        for wrong in (
            lambda: [*rows("2")],  # type: ignore[arg-type]
            lambda: asyncio.run(take("2")),
            lambda: cart.add(3),  # type: ignore[arg-type]
        ):
            with pytest.raises(TypeError, match="violates type hint"):
                wrong()


def test_a_function_without_annotations_is_refused() -> None:
    def bare(n):  # type: ignore[no-untyped-def]
        return n

    with pytest.raises(HookTypeError, match="checked would check nothing, as there are no annotations"):
        weave(bare, aspect=checked())


def test_a_deprecated_function_warns_of_the_line_of_the_caller(style: str) -> None:
    target, call = Targets().all[style]
    with (
        weave(target, aspect=deprecated("shop.price", since="1.2", removed_in="2.0")),
        pytest.warns(
            DeprecationWarning, match="is deprecated since 1.2 and will be removed in 2.0; use shop.price$"
        ) as caught,
    ):
        call(1)
    assert len(caught) == 1 and caught[0].filename.endswith("conftest.py")


def test_the_filters_of_warnings_hold_as_for_a_warning_of_the_caller() -> None:
    target, _ = Targets().all["function"]
    with weave(target, aspect=deprecated(category="FutureWarning")), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", module=__name__.replace(".", r"\."))
        for _ in range(3):
            target(1)
        line = line_here() - 1
    assert [(one.filename, one.lineno, one.category) for one in caught] == [(__file__, line, FutureWarning)]
    globals().pop("__warningregistry__", None)


def test_a_warning_that_is_an_error_is_raised_in_the_place_of_the_call() -> None:
    targets = Targets()
    target, _ = targets.all["function"]
    with weave(target, aspect=deprecated()), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            target(1)
    assert targets.calls == []
