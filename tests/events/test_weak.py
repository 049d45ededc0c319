"""Weak subscribers: which callables can be held weakly, and what happens when their objects die."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from typing import Any

import pytest

from aspecthook import HookOptionError, HookTypeError, hooks, weave
from tests.events.samples import Listener, made, rang
from tests.oracle.laws import check_laws


class Observer:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def heard(self, who: str) -> str:
        self.seen.append(who)
        return who

    async def heard_later(self, who: str) -> str:
        return who


def test_weak_method_does_not_keep_its_object_alive() -> None:
    observer = Observer()
    rang.on(observer.heard, weak=True)
    assert rang("ann") == ["ann"] and observer.heard in hooks(rang)
    ref = weakref.ref(observer)
    del observer
    gc.collect()
    assert ref() is None and not hooks(rang) and rang("ann") == []


def test_weak_function_callable_object_and_method_of_c() -> None:
    class Counter:
        n = 0

        def __call__(self, who: str) -> None:
            self.n += 1

    def function(who: str) -> str:
        return f"f {who}"

    counter, calls = Counter(), deque[Any]()
    rang.on(function, weak=True)
    rang.on(counter, weak=True)
    rang.on(calls.append, weak=True)
    assert rang("ann") == ["f ann"] and counter.n == 1 and calls == deque([{"who": "ann", "times": 1}])
    del function, counter, calls
    gc.collect()
    assert len(hooks(rang)) == 0


def test_weak_refused() -> None:
    with pytest.raises(
        HookTypeError, match="'append' cannot be held weakly: list objects do not support weak references"
    ):
        rang.on([].append, weak=True)
    with pytest.raises(HookOptionError, match="cannot be weak"):
        rang.around(lambda proceed: proceed(), weak=True)
    with pytest.raises(HookTypeError, match="weak=1"):
        rang.on(lambda: None, weak=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weak=True is not for weavings"):
        weave(rang, post=lambda: None, weak=True)
    assert not hooks(rang)


# Death of the object


def test_weak_subscriber_that_dies_during_a_call() -> None:
    kept = [Observer(), Observer(), Observer()]
    seen = [one.seen for one in kept]
    rang.on(kept[0].heard, weak=True)

    @rang.on
    def kill() -> None:
        kept.clear()
        gc.collect()

    rang.on(kept[1].heard, weak=True)
    rang.on(kept[2].heard, weak=True)
    assert rang("ann") == ["ann"] and seen == [["ann"], [], []]
    assert [hook.name for hook in hooks(rang)] == ["kill"]


@pytest.mark.parametrize("how", ["hear", "__call__"])
@pytest.mark.parametrize("count", [1, 30])
def test_weak_subscriber_is_freed_before_the_call_ends(how: str, count: int) -> None:
    said, kept, dead = made(), [Listener() for _ in range(count)], list[bool]()
    last = weakref.ref(kept[-1])
    for one in kept:
        said.on(one.hear if how == "hear" else one, weak=True)
    del one

    @said.on
    def kill() -> None:
        kept.clear()
        dead.append(last() is None)

    said()
    assert dead == [True] and len(hooks(said)) == 1


# Options that refer to objects


def test_a_condition_of_a_weak_subscriber_does_not_keep_its_object_alive() -> None:
    said, listener = made(), Listener()
    ref = weakref.ref(listener)
    said.on(listener.hear, weak=True, when=listener.is_ready)
    said(3)
    assert listener.seen == [3]
    del listener
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("option", ["before", "after"])
def test_a_weak_subscriber_names_others_by_their_names_alone(option: Any) -> None:
    said, one, two = made(), Listener(), Listener()
    said.on(one.hear, weak=True, name="one", priority="LOW")
    with pytest.raises(HookOptionError, match=f"'two' .* is weak, and has {option}=.*; give the name of that hook"):
        said.on(two.hear, weak=True, name="two", **{option: ["late", one.hear]})
    said.on(two.hear, weak=True, name="two", priority="LOWEST", before=["late", "one"])
    assert [hook.name for hook in hooks(said).on] == ["two", "one"]
    check_laws(said)
