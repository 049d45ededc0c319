"""What is let go: a call leaves nothing to collect, whatever its hooks do."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from aspecthook import hookable, hooks
from aspecthook._core.compile.show import FREE_THREADED
from tests.garbage import no_collector
from tests.oracle.guests import Guest, PlannedError, PlannedStop, function_of, guests_of


class Owner:
    """Something with methods, one of which is hooked."""

    @hookable
    def act(self, qty: int = 0) -> int:
        if qty:
            raise PlannedError(qty)
        return qty


def passing() -> Any:
    """Make a function that may die before its module does."""

    @hookable
    def target(qty: int = 0) -> int:
        if qty:
            raise PlannedError(qty)
        return qty

    return target


def lasting() -> Any:
    """Return a function that lives as long as its module."""
    return Owner.act


def added(target: Any, guest: Guest) -> Any:
    """Add a guest that only fails, answers or proceeds."""
    function = function_of(guest, style="function", changes={}, act=lambda: None)
    return hooks(target).add(guest.kind, function, **guest.options)


@pytest.mark.parametrize("make", [passing, lasting])
def test_a_call_leaves_nothing_to_collect(make: Callable[[], Any]) -> None:
    target, own = make(), [Owner()] if make is lasting else []
    for guest in [guest for guest in guests_of(hooks(target)) if guest.place == ""]:
        for other in ("exception", "always"):
            with added(target, guest), hooks(target).add(other, lambda call, exc: None):  # type: ignore[arg-type]
                if FREE_THREADED:  # there only the collector frees code that another chain has replaced
                    with suppress(Exception, PlannedStop):
                        target(*own, 0)
                    gc.collect()
                for qty in (0, 1):
                    for _ in range(2):
                        with no_collector():
                            with suppress(Exception, PlannedStop):
                                target(*own, qty)
                            assert gc.collect() == 0, (guest, other, qty)
