"""The history of an event: each subscriber sees each call exactly once, whenever it comes."""

from __future__ import annotations

import functools
import itertools
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import Args, HookOrderError, Return, event, hookable, hooks, weave
from tests.events.samples import failing, made
from tests.threads import at_once


def listening(said: Any, **options: Any) -> list[Any]:
    """Subscribe to an event; return the list of what the subscriber gets."""
    heard: list[Any] = []
    said.on(lambda n: heard.append(n), **options)
    return heard


def test_late_subscriber_gets_past_calls() -> None:
    @event(replay=True)
    def said(word: str, loud: bool = False) -> None: ...

    said("a")
    said("b", loud=True)
    heard: list[Any] = []
    said.on(lambda word, loud: heard.append((word, loud)))
    assert heard == [("a", False), ("b", True)]
    said("c")
    assert heard == [("a", False), ("b", True), ("c", False)]
    assert list(said.history) == [
        dict(word=word, loud=loud) for word, loud in (("a", False), ("b", True), ("c", False))
    ]
    said.history.clear()
    said.on(lambda word: heard.append(word))
    assert len(heard) == 3 and len(said.history) == 0


def test_history_keeps_the_last_calls() -> None:
    said = made(replay=2)
    for word in "abcde":
        said(word)
    assert listening(said) == ["d", "e"]


def test_history_has_the_arguments_after_pre_hooks() -> None:
    said = made(replay=True)
    said.pre(lambda n: Args(n=n.upper()))
    said.pre(lambda n: Return([]) if n == "SECRET" else None)
    said("a")
    said("secret")
    said.on(lambda: None)
    said("b")
    assert listening(said) == ["A", "B"]


def test_conditions_hold_in_replay() -> None:
    said = made(replay=True)
    for n in range(6):
        said(n)
    heard = listening(said, when=lambda n: n % 2, times=2)
    assert heard == [1, 3] and not hooks(said)
    said(7)
    assert heard == [1, 3]


def test_subscriptions_during_replay() -> None:
    said, heard = made(replay=True), list[tuple[str, int]]()
    said(0)
    said(1)

    def other(n: int) -> None:
        heard.append(("other", n))

    def one(n: int) -> None:
        heard.append(("one", n))
        if heard == [("one", 0)]:
            said.on(other)
            said.on(one, name="again", again=True)

    said.on(one)
    said(2)
    assert sorted(heard) == sorted([("one", n) for n in (0, 1, 2)] * 2 + [("other", n) for n in (0, 1, 2)])
    assert len(hooks(said)) == 3


def test_history_cleared_during_replay() -> None:
    said, heard = made(replay=True), list[int]()
    for n in range(3):
        said(n)
    said.on(lambda n: heard.append(n) or said.history.clear())
    said(3)
    assert heard[0] == 0 and heard[-1] == 3 and heard == sorted(set(heard)) and len(said.history) == 0


# Failures in replay


@pytest.mark.usefixtures("no_logging")
def test_subscriber_that_fails_in_replay_is_not_added() -> None:
    said, grouped, isolated = (made(replay=True, errors=errors) for errors in ("raise", "group", "isolate"))
    heard: list[int] = []

    def fail(n: int) -> None:
        heard.append(n)
        raise ValueError(n)

    for one in (said, grouped, isolated):
        one(1)
        one(2)
    with pytest.raises(ValueError, match="1"):
        said.on(fail)
    assert heard == [1] and not hooks(said)
    with pytest.raises(ExceptionGroup, match="said: 2 subscribers failed"):
        grouped.on(fail)
    assert not hooks(grouped)
    isolated.on(fail)
    assert len(hooks(isolated)) == 1 and hooks(isolated)["fail"].failures == 2


def test_subscriber_with_a_contradictory_order_gets_no_replay() -> None:
    said, row = made(replay=True), list[int]()
    said.on(lambda: None, name="other")
    said(1)
    with pytest.raises(HookOrderError):
        said.on(lambda n: row.append(n), before="other", after="other")
    assert row == []


@pytest.mark.parametrize("count", [0, 1])
def test_failures_of_subscribers_added_during_the_call_are_grouped(count: int) -> None:
    said, done = made(replay=True, errors="group"), list[int]()
    for _ in range(count):
        said.on(lambda: 1 / 0)

    @said.pre
    def subscribe() -> None:
        if not done:
            done.append(1)
            said.on(lambda n: int("late"))
            said.on(lambda n: done.append(2))
            said.on(lambda n: int("later"))

    with pytest.raises(ExceptionGroup) as caught:
        said(1)
    assert [type(one) for one in caught.value.exceptions] == [ZeroDivisionError] * count + [ValueError] * 2
    assert done == [1, 2]


def interrupted(step: Callable[[], object], place: int, handler: Callable[[], object]) -> bool:
    """Take a step, with a handler run at this point of it: at an instruction of the history, or a line of the mount."""
    left = place

    def trace(frame: Any, what: str, _: object) -> Any:
        nonlocal left
        file = Path(frame.f_code.co_filename).name
        if file not in ("_history.py", "members.py", "point.py"):
            return None
        frame.f_trace_opcodes = file == "_history.py"
        if what == ("opcode" if frame.f_trace_opcodes else "line"):
            left -= 1
            # CPython handles signals at calls and at jumps back alone, and there is none between these two lines.
            if left == 0 and not (frame.f_code.co_name == "_store" and "after" in frame.f_locals):
                sys.settrace(None)
                handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    finally:
        sys.settrace(before)
    return left <= 0


def test_keyboard_interrupt_in_replay_leaves_nothing() -> None:
    said = made(replay=True)
    said(1)

    def interrupted(n: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        said.on(interrupted)
    heard = listening(said)
    assert said(2) == [] and heard == [1, 2] and len(hooks(said)) == 1


# Every subscriber sees every call once


def subscribing_once(said: Any, row: list[Any]) -> Callable[[], None]:
    done: list[int] = []

    def subscribe() -> None:
        if not done:
            done.append(1)
            said.on(lambda n: row.append(n))

    return subscribe


def test_subscriber_added_by_a_pre_hook_sees_the_call() -> None:
    # The chain of the call has no subscribers: the stub's own code notes the call, and dropped who had come meanwhile.
    said, row = made(replay=True), list[int]()
    said.pre(subscribing_once(said, row))
    said(1)
    assert row == [1] == [call["n"] for call in said.history]


def test_subscriber_added_before_a_bare_call_is_recorded_sees_it() -> None:
    said, row = made(replay=True), list[int]()
    subscribe = subscribing_once(said, row)

    def trace(frame: Any, what: str, _: object) -> None:
        if what == "call" and frame.f_code.co_name == "said":
            sys.settrace(None)
            subscribe()

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        said(1)
    finally:
        sys.settrace(before)
    assert row == [1]


@pytest.mark.parametrize("with_call", [False, True])
def test_subscriber_added_during_a_call_gets_the_changed_arguments(with_call: bool) -> None:
    # Without a hook that asks for `call` it was told n=99, with one n=1.
    said, row = made(replay=True), list[int]()
    subscribe = subscribing_once(said, row)

    @said.around
    def change(proceed: Callable[..., Any]) -> Any:
        subscribe()
        return proceed(n=99)

    said.on((lambda call: None) if with_call else (lambda: None))
    said(1)
    assert row == [99] == [call["n"] for call in said.history]


def test_short_history_loses_no_call_made_during_replay() -> None:
    said, row = made(replay=1), list[int]()
    said(1)

    @said.on
    def hear(n: int) -> None:
        row.append(n)
        if n == 1:
            said(2)
            said(3)

    said(4)
    assert row == [1, 2, 3, 4]


@pytest.mark.parametrize("replay", [True, 1, 3])
@pytest.mark.parametrize("kind", ["bare", "pre", "around", "on"])
def test_replay_with_hooks_while_other_threads_call(kind: str, replay: bool | int) -> None:
    for _ in range(15):
        said, rows = made(replay=replay), list[list[int]]()
        if kind == "around":
            said.around(lambda proceed: proceed())
        elif kind != "bare":
            hooks(said).add("pre" if kind == "pre" else "on", lambda: None)

        def speak(first: int, said: Any = said) -> None:
            for n in range(first, first + 40):
                said(n)

        def listen(said: Any = said, rows: list[list[int]] = rows) -> None:
            for _ in range(4):
                row: list[int] = []
                rows.append(row)
                said.on(lambda n, row=row: row.append(n))

        at_once(functools.partial(speak, 0), functools.partial(speak, 100), listen, listen, switching=1e-6)
        for row in rows:
            for first in (0, 100):
                mine = sorted(n for n in row if first <= n < first + 100)
                # All of them; or, if only the last are kept, all from some point on.
                lowest = first if replay is True else min(mine, default=first + 40)
                assert mine == list(range(lowest, first + 40))


@given(st.randoms(use_true_random=False))
def test_random_programs_of_calls_and_subscriptions(chance: random.Random) -> None:
    said = made(replay=True, **chance.choice([{}, {"first": True}, {"fold": "n"}, {"errors": "group"}]))
    rows: list[list[int]] = []
    count, left, depth = 0, chance.randint(2, 20), 0

    def act() -> None:
        nonlocal count, left, depth
        if depth == 4:
            return
        depth += 1
        for _ in range(chance.randint(0, 2)):
            left -= 1
            step = chance.random() if left > 0 else 1
            if step < 0.45:
                count += 1
                said(count)
            elif step < 0.85:
                rows.append([])
                said.on(subscriber(rows[-1]), priority=chance.choice([10, 50, 90]))
            elif step < 0.9:
                said.pre(filtering)
            elif step < 0.95:
                said.around(changing, again=True, times=chance.randint(1, 3))
        depth -= 1

    def subscriber(row: list[int]) -> Callable[..., None]:
        def hear(n: int) -> None:
            row.append(n)
            act()

        def hear_with_call(n: int, call: Any) -> None:
            hear(n)

        return chance.choice([hear, hear_with_call])

    def filtering(n: int) -> Args | None:
        act()
        return Args(n=n + 1000) if chance.random() < 0.3 else None

    def changing(proceed: Callable[..., Any], n: int) -> Any:
        act()
        answer = proceed(n=n + 100_000) if chance.random() < 0.4 else proceed()
        act()
        return answer

    while left > 0:
        left -= 1
        act()
    told = sorted(call["n"] for call in said.history)
    assert [sorted(row) for row in rows] == [told] * len(rows)


@pytest.mark.skipif(not hasattr(__import__("signal"), "setitimer"), reason="no timers here")
def test_signal_handler_that_subscribes_while_a_call_is_recorded() -> None:

    chance = random.Random(1)
    before = signal.getsignal(signal.SIGALRM)
    try:
        for _ in range(400):
            said, row = made(replay=True), list[int]()
            said.on(lambda: None)
            subscribe = subscribing_once(said, row)
            signal.signal(signal.SIGALRM, lambda *_, subscribe=subscribe: subscribe())
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 1e-4))
            for n in range(30):
                said(n)
            signal.setitimer(signal.ITIMER_REAL, 0)
            subscribe()
            assert sorted(row) == list(range(30))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("replay", [True, 2])
@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize("step", ["call", "subscribe"])
@pytest.mark.parametrize("handling", ["call", "subscribe", "both"])
def test_handler_that_interrupts_any_step(step: str, handling: str, heard: bool, replay: bool | int) -> None:
    # The handler came between noting the call and looking who else had come: who subscribed there was told twice.
    place = 0
    while True:
        place += 1
        said, rows, numbers = made(replay=replay), list[list[int]](), itertools.count()

        def call(said: Any = said, numbers: Iterator[int] = numbers) -> None:
            said(next(numbers))

        def subscribe(said: Any = said, rows: list[list[int]] = rows) -> None:
            row: list[int] = []
            rows.append(row)
            said.on(lambda n: row.append(n))

        def handle(call: Callable[[], None] = call, subscribe: Callable[[], None] = subscribe) -> None:
            if handling != "subscribe":
                call()
            if handling != "call":
                subscribe()
            if handling == "both":
                call()

        if heard:
            subscribe()
            call()
        reached = interrupted(call if step == "call" else subscribe, place, handle)
        call()
        total = next(numbers)
        for row in rows:
            # A short history has forgotten the first calls for who comes late.
            lowest = 0 if replay is True else min(row)
            assert sorted(row) == list(range(lowest, total)), f"at point {place}"
        if not reached:
            assert place > 40
            break


# Woven subscribers


def test_woven_subscriber_gets_its_replay_without_the_lock() -> None:
    # It was told under the lock of the house: whoever needs that in another thread, and is waited for, waits for ever.
    said, over = made(replay=True), list[bool]()
    said(1)

    @hookable
    def other() -> int:
        return 1

    threads: list[threading.Thread] = []

    def hear(n: int) -> None:
        threads.append(threading.Thread(target=lambda: hooks(other).add("pre", lambda: None).remove()))
        threads[-1].start()
        threads[-1].join(1)
        over.append(not threads[-1].is_alive())

    weave(said, on=hear).remove()
    for thread in threads:
        thread.join()
    assert all(over)


def test_subscriber_woven_during_calls_sees_each_call_once() -> None:
    said, rows = made(replay=True), [list[int]() for _ in range(8)]
    said(0)
    at_once(
        *[lambda row=row: weave(said, on=lambda n: row.append(n)) for row in rows],
        lambda: [said(n) for n in range(1, 100)],
        switching=1e-6,
    )
    assert [sorted(row) for row in rows] == [list(range(100))] * 8
    hooks(said).clear()


def test_weaving_that_fails_in_replay_leaves_nothing() -> None:
    said, other, heard = made(replay=True), made(), list[int]()
    said(1)
    with pytest.raises(ValueError, match="failing"):
        weave(said, on=[lambda n: heard.append(n), failing])
    assert heard == [1] and not hooks(said) and not hooks(said).woven
    said.on(failing, name="one", when=lambda n: n > 1)
    with pytest.raises(HookOrderError):
        weave(said, on=lambda n: heard.append(n), before="one", after="one")
    assert heard == [1] and len(hooks(said)) == 1 and not hooks(other)


def test_subscriber_woven_twice_gets_one_replay() -> None:
    said, heard = made(replay=True), list[int]()

    def hear(n: int) -> None:
        heard.append(n)

    said(1)
    first = weave(said, on=[hear, hear])
    second = weave(said, on=hear)
    assert heard == [1] and len(hooks(said)) == 1
    first.remove()
    said(2)
    second.remove()
    said(3)
    assert heard == [1, 2] and not hooks(said)


def test_woven_subscriber_with_once_is_spent_by_the_replay() -> None:
    said, heard = made(replay=True), list[int]()
    said(1)
    with weave(said, on=lambda n: heard.append(n), once=True) as weaving:
        said(2)
        assert weaving.state == "woven"
    assert heard == [1] and not hooks(said)
