"""`around.wrap` and `around.using` as properties: what does nothing changes nothing."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import around, hooks

from .worlds import STYLES, Scenario, World, scenarios


def passing(style: str) -> Callable[[Any], Any]:
    """Return a decorator that only passes calls on, in the way that is usual for such functions."""

    def decorator(function: Any) -> Any:
        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            return (yield from function(*args, **kwargs))

        return {"coroutine": coroutine, "generator": generator}.get(style, plain)

    return decorator


def copying(function: Any) -> Any:
    """Pass on new objects that are equal: what a decorator passes is not always what it was given."""

    @functools.wraps(function)
    def copied(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_copy, args), **{name: _copy(value) for name, value in kwargs.items()})

    return copied


def _copy(value: Any) -> Any:
    return f" {value}"[1:] if isinstance(value, str) else value


def beside(scenario: Scenario, added: Any, priority: int) -> tuple[list[Any], list[Any]]:
    """Return the logs of a scenario, without and with one more around hook."""
    plain, more = World(scenario), World(scenario)
    function = more.mounted()
    hooks(function).around(added, priority=priority)
    return plain.run(plain.mounted()), more.run(function)


PRIORITIES = st.integers(0, 100)


@pytest.mark.parametrize("copied", [False, True], ids=["", "copied"])
@pytest.mark.parametrize("style", STYLES)
def test_a_decorator_that_passes_calls_on_changes_nothing(
    style: str, copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("aspecthook"), "disabled", True)

    @given(scenarios((style,)), PRIORITIES)
    def same(scenario: Scenario, priority: int) -> None:
        without, with_it = beside(scenario, around.wrap(copying if copied else passing(style)), priority)
        assert with_it == without

    same()


@pytest.mark.parametrize(
    "manager", [contextlib.nullcontext(), contextlib.suppress(UserWarning)], ids=["either", "sync"]
)
@pytest.mark.parametrize("style", STYLES)
def test_a_context_manager_that_does_nothing_changes_nothing(
    style: str, manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("aspecthook"), "disabled", True)

    @given(scenarios((style,)), PRIORITIES)
    def same(scenario: Scenario, priority: int) -> None:
        without, with_it = beside(scenario, around.using(manager), priority)
        assert with_it == without

    same()
