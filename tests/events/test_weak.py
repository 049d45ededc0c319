"""Weak subscribers: which callables can be held weakly, and what happens when their objects die."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from typing import Any

import pytest

from aspecthook import HookOptionError, HookTypeError, event, explain, hookable, hooks, weave
from tests.events.samples import Listener, amade, arrived, made, rang
from tests.oracle.laws import check_laws
from tests.threads import at_once


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


def test_weak_method_is_removed_and_named() -> None:
    one, two = Observer(), Observer()
    for each in (one, two):
        rang.on(each.heard, weak=True)
    hooks(rang).remove(one.heard)
    assert rang("ann") == ["ann"] and two.seen == ["ann"] and not one.seen
    assert hooks(rang)["heard"].who.startswith("on hook 'heard' (") and "test_weak.py" in hooks(rang)["heard"].who


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


class Counted(dict[Any, Any]):
    """A class in Python with a class method of C."""


@pytest.mark.parametrize("method", [dict.fromkeys, collections.OrderedDict.fromkeys, Counted.fromkeys, int.from_bytes])
def test_weak_class_method_of_c(method: Any) -> None:
    def one(iterable: Any = (1,)) -> None: ...

    def other(bytes: Any = b"1") -> None: ...

    said: Any = event(first=True)(other if method == int.from_bytes else one)
    said.on(method, weak=True)
    answer = said()
    assert answer == (49 if method == int.from_bytes else {1: None})
    assert type(answer) is method.__self__
    check_laws(said)
    hooks(said).remove(method)
    assert not hooks(said)


def test_weak_constructor_of_c() -> None:
    def stub(cls: Any) -> None: ...

    said = event(first=True)(stub)
    said.on(dict.__new__, weak=True, name="new")
    assert len(hooks(said)) == 1


def test_weak_callable_object_is_shown_with_its_file() -> None:
    said, listener = made(), Listener()
    said.on(listener, weak=True)
    assert "samples.py:" in hooks(said)["Listener"].who


def test_weak_object_that_has_every_attribute(capsys: pytest.CaptureFixture[str]) -> None:
    class Anything:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") and name != "__code__":
                raise AttributeError(name)
            return Anything()

        def __call__(self) -> str:
            return "called"

    said, thing = made(), Anything()
    said.on(thing, weak=True)
    assert said() == ["called"]
    explain(said)
    assert "Anything" in capsys.readouterr().out


def test_weak_method_of_an_object_without_eq_and_hash() -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        def hear(self) -> str:
            return "heard"

    said, odd = made(), Odd()
    said.on(odd.hear, weak=True)
    said.on(odd.hear, again=True)
    assert said() == ["heard", "heard"] and odd.hear in hooks(said)
    hooks(said).remove(odd.hear)
    assert said() == []


def test_weak_method_added_removed_and_added_again() -> None:
    said, listener = made(), Listener()
    for _ in range(3):
        said.on(listener.hear, weak=True)
        said()
        hooks(said).remove(listener.hear)
        said()
    assert listener.seen == [1, 1, 1]
    said.on(listener.hear, weak=True)
    said.on(listener.hear, weak=True)  # that hook
    said.on(listener.hear, again=True)
    said()
    assert listener.seen == [1] * 5
    hooks(said).remove(listener.hear)
    assert not hooks(said)


def test_weak_async_subscriber_is_awaited() -> None:
    observer = Observer()
    arrived.on(observer.heard_later, weak=True)
    assert asyncio.run(arrived("ann")) == ["ann"]
    del observer
    gc.collect()
    assert asyncio.run(arrived("ann")) == []


def test_weak_hooks_of_other_kinds() -> None:
    @hookable
    def price(who: str) -> str:
        return who

    observer = Observer()
    price.pre(observer.heard, weak=True, when=lambda who: who == "x", isolate=True)
    price.post(observer.heard, weak=True)
    assert price("ann") == "ann" and observer.seen == ["ann"]
    del observer
    gc.collect()
    assert not hooks(price) and price("ann") == "ann"


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


def test_weak_subscriber_is_freed_while_others_are_awaited() -> None:
    said, kept, dead = amade(), [Listener()], list[bool]()
    ref = weakref.ref(kept[0])
    said.on(kept[0].hear_later, weak=True)

    @said.on
    async def wait() -> None:
        kept.clear()
        await asyncio.sleep(0)
        dead.append(ref() is None)

    asyncio.run(said())
    assert dead == [True]


@pytest.mark.parametrize("errors", ["group", "isolate"])
@pytest.mark.usefixtures("no_logging")
def test_weak_subscriber_that_failed_is_freed(errors: str) -> None:
    class Failing(Listener):
        def hear(self, n: Any) -> None:
            raise ValueError

    said, kept, dead = made(errors=errors), [Failing()], list[bool]()
    ref = weakref.ref(kept[0])
    said.on(kept[0].hear, weak=True, when=lambda: bool(kept))

    @said.on
    def kill() -> None:
        kept.clear()
        dead.append(ref() is None)

    with pytest.raises(ExceptionGroup) if errors == "group" else contextlib.nullcontext():
        said()
    # A failure that waits for the others holds the frame that it comes from.
    assert dead == [errors == "isolate"] and ref() is None


def test_weak_subscribers_die_in_any_thread() -> None:
    said, over = made(), threading.Event()

    def churn() -> None:
        for _ in range(300):
            listener = Listener()
            said.on(listener.hear, weak=True)
            said()

    def emit() -> None:
        while not over.is_set():
            said()
            gc.collect(0)
            time.sleep(0.001)  # without the GIL, each collection stops all threads

    thread = threading.Thread(target=emit)
    thread.start()
    try:
        at_once(*[churn] * 4)
    finally:
        over.set()
        thread.join()
    assert not hooks(said) and said() == []


def test_weak_subscriber_prints_nothing_at_interpreter_exit() -> None:
    program = (
        "from aspecthook import event, hooks\n"
        "class A:\n    @event\n    def e(self): ...\n    def m(self): ...\n"
        "a = A(); hooks(A.e).on(a.m, weak=True); hooks(a.e).on(a.m); a.e(); a.me = a"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


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


def test_async_condition_of_a_weak_subscriber_does_not_keep_its_object_alive() -> None:
    class Waiting(Listener):
        async def is_due(self, n: int) -> bool:
            await asyncio.sleep(0)
            return n > 1

    said, listener = amade(), Waiting()
    said.on(listener.hear_later, weak=True, when=listener.is_due)
    asyncio.run(said(1))
    asyncio.run(said(2))
    assert listener.seen == [2]
    held, ref = hooks(said).on[0], weakref.ref(listener)
    del listener
    gc.collect()
    assert ref() is None and not hooks(said)
    assert held.when.holds(3) is None  # where it is asked while the hook is being taken off


@pytest.mark.parametrize("option", ["before", "after"])
def test_a_weak_subscriber_names_others_by_their_names_alone(option: Any) -> None:
    said, one, two = made(), Listener(), Listener()
    said.on(one.hear, weak=True, name="one", priority="LOW")
    with pytest.raises(HookOptionError, match=f"'two' .* is weak, and has {option}=.*; give the name of that hook"):
        said.on(two.hear, weak=True, name="two", **{option: ["late", one.hear]})
    said.on(two.hear, weak=True, name="two", priority="LOWEST", before=["late", "one"])
    assert [hook.name for hook in hooks(said).on] == ["two", "one"]
    check_laws(said)
