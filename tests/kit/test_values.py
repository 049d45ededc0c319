"""What the kit shows of values: whatever their `repr` does, a test gets the answer it asked for, and a short text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aspecthook import hookable, hooks, weave
from aspecthook.record import Tape
from aspecthook.testing import Candidate, LawError, assert_order, run_laws, trace_of
from aspecthook.testing._calls import Given
from aspecthook.testing._inject import Injection


class Raising:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __call__(self) -> bool:
        return False


class Huge(Raising):
    def __repr__(self) -> str:
        return "x" * 1_500_000


class Error(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def identity() -> Any:
    @hookable
    def given(value: Any) -> Any:
        if value is None:
            raise Error
        return value

    return given


def chain(value: Any) -> str:
    function = identity()
    hooks(function).add("pre", lambda: None, when=value, name="guarded")
    with pytest.raises(AssertionError) as caught:
        assert_order(function, "given", "guarded")
    return str(caught.value)


def law(value: Any) -> str:
    def answers(trace: object) -> Any:
        return Falsy() if isinstance(value, Huge) else FalsyRaising()

    class FalsyRaising(Raising):
        def __bool__(self) -> bool:
            return False

    class Falsy(Huge):
        def __bool__(self) -> bool:
            return False

    with pytest.raises(LawError) as caught:
        run_laws(identity(), answers, args=(value,))
    return str(caught.value)


def taped(value: Any) -> str:
    function = identity()
    with Tape().record(function) as tape:
        function(value)
        with pytest.raises(Error):
            function(None)
    return str(tape)


# What the kit shows, given a value.
SHOWN: list[Callable[[Any], str]] = [
    chain,
    law,
    taped,
    lambda value: str(trace_of(identity())(value)),
    lambda value: str(trace_of(identity())(value)["given"]),
    lambda value: str(trace_of(identity())(None)),
    lambda value: repr(Candidate("pre", identity(), when=value)),
    lambda value: repr(Given((value,), {"more": value})),
    lambda value: repr(Injection(hookable(value.__call__.__func__), weave)),
]


@pytest.mark.parametrize("show", SHOWN)
@pytest.mark.parametrize("value", [Raising(), Huge()], ids=["raising", "huge"])
def test_a_repr_that_raises_or_is_huge_is_shown_in_short(show: Callable[[Any], str], value: object) -> None:
    # They let through what it raised, and showed all of it.
    assert 0 < len(show(value)) < 4_000
