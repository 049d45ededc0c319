"""The conditions of a hook: whether it runs in this call, and what becomes of what it raises."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aspecthook import Return, hookable, hooks
from tests.threads import at_once

PLAIN_KINDS = ("pre", "exception", "post", "always")


class Till:
    """A mount point `pay(amount)`, which fails with ValueError if `amount` is negative, and what ran in its calls."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

        @hookable(name="till:pay")
        def pay(amount: int = 1) -> int:
            if amount < 0:
                raise ValueError(amount)
            return amount

        @hookable(name="till:apay")
        async def apay(amount: int = 1) -> int:
            return pay(amount)

        self.pay, self.apay = pay, apay

    def add(self, kind: str, **options: Any) -> Any:
        """Add a hook that notes its kind."""
        return hooks(self.pay).add(kind, self.hook(kind), **options)  # type: ignore[arg-type]

    def hook(self, kind: str) -> Callable[..., Any]:
        def note() -> None:
            self.ran.append(kind)

        def around(proceed: Callable[..., Any]) -> Any:
            self.ran.append(kind)
            return proceed()

        return around if kind == "around" else note

    def failing_for(self, kind: str) -> int:
        """Call with what makes hooks of this kind run, and give the amount."""
        amount = -1 if kind == "exception" else 1
        try:
            self.pay(amount)
        except ValueError:
            assert kind == "exception"
        return amount


@pytest.fixture
def till() -> Till:
    return Till()


# when


def test_a_predicate_that_raises_is_as_if_the_hook_had_raised(till: Till) -> None:
    till.add("pre", when=lambda amount: 1 // amount)
    till.pay.exception(ZeroDivisionError)(lambda: Return("handled"))
    assert till.pay(0) == "handled"


# once, times, every


@example({"every": 1024}, [1] * 2048)  # the last number that is counted by a list
@example({"every": 1025}, [1] * 2050)
@given(
    st.fixed_dictionaries({}, optional={"every": st.integers(1, 5), "times": st.integers(1, 5)})
    | st.just({"once": True, "times": 1}),
    st.lists(st.integers(0, 1), max_size=16),
)
def test_calls_count_in_which_the_predicate_holds_and_after_the_last_run_the_hook_is_off(
    options: dict[str, int], amounts: list[int]
) -> None:
    till, counted = Till(), 0
    hook = till.add("pre", when=lambda amount: amount, **options)
    for amount in amounts:
        till.pay(amount)
        counted += amount
        due = counted // options.get("every", 1)
        assert len(till.ran) == min(due, options.get("times", due))
        assert (hook in hooks(till.pay)) == (due < options.get("times", due + 1))


@pytest.mark.parametrize(("option", "number"), [("every", 50), ("times", 50)])
def test_counts_are_exact_when_threads_call_at_once(till: Till, option: str, number: int) -> None:
    hook = till.add("pre", **{option: number})
    at_once(*[lambda: [till.pay() for _ in range(750)]] * 8)
    assert len(till.ran) == (50 if option == "times" else 6000 // number)
    assert (hook in hooks(till.pay)) == (option == "every")


def at_each_line_that_counts(work: Callable[[], object]) -> Callable[..., Any]:
    """Give a trace function that does some work before each line that counts, as a signal handler might."""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith("<aspecthook") and "guard.py" not in frame.f_code.co_filename:
            return None
        if event == "line":
            work()
        return trace

    return trace


@pytest.mark.parametrize("option", ["every", "times"])
def test_a_call_that_comes_into_the_middle_of_counting_is_counted_too(till: Till, option: str) -> None:
    # The counts had a lock: a signal handler that called the function waited for the call that it had interrupted.
    calls = 0

    def pay() -> None:
        nonlocal calls
        calls += 1
        till.pay()

    def trace_calls() -> None:
        sys.settrace(at_each_line_that_counts(pay))
        try:
            for _ in range(4):
                pay()
        finally:
            sys.settrace(None)

    till.add("pre", **{option: 7})
    at_once(trace_calls, within=10)
    assert calls > 8
    assert len(till.ran) == (7 if option == "times" else calls // 7)
    assert len(hooks(till.pay)) == (option == "every")


def test_a_hook_that_an_interrupt_kept_from_being_taken_off_is_taken_off_by_the_next_call(till: Till) -> None:
    # The call that had counted the last run alone took the hook off; after an interrupt there it stayed for good.
    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if frame.f_code.co_name == "remove" and frame.f_code.co_filename.endswith("hook.py"):
            sys.settrace(None)
            raise KeyboardInterrupt

    till.add("pre", once=True)
    till.pay.pre(lambda: None)
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            till.pay()
    finally:
        sys.settrace(before)
    assert len(hooks(till.pay)) == 2
    till.pay()
    assert till.ran == []
    assert len(hooks(till.pay)) == 1


# isolate


@pytest.mark.parametrize("kind", PLAIN_KINDS)
@pytest.mark.parametrize("where", ["hook", "when"])
def test_exception_of_an_isolated_hook_is_logged_and_counted_and_its_answer_is_none(
    till: Till, kind: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        if where == "hook":
            raise OSError("disk full")

    def due() -> bool:
        if where == "when":
            raise OSError("disk full")
        return True

    mount = hooks(till.pay)
    made = [mount.add(kind, broken, when=due, isolate=True, again=bool(turn)) for turn in range(2)]  # type: ignore[arg-type]
    till.add(kind)
    for _ in range(2):
        till.failing_for(kind)
    assert till.ran == [kind, kind]
    assert [hook.failures for hook in made] == [2, 2]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 4
    assert caplog.records[0].name == "aspecthook"
    where = f"({__file__}:{broken.__code__.co_firstlineno})"
    assert caplog.records[0].getMessage().startswith(f"till:pay: {kind} hook 'broken' {where} failed")
    assert caplog.records[0].exc_info[0] is OSError  # type: ignore[index]


def test_an_isolated_exception_hook_that_fails_lets_the_exception_go_on_as_it_was(till: Till) -> None:
    till.pay.exception(lambda: 1 // 0, isolate=True)
    with pytest.raises(ValueError, match="-1") as caught:
        till.pay(-1)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_base_exceptions_are_never_isolated(till: Till, error: type[BaseException]) -> None:
    def stop() -> None:
        raise error

    hook = hooks(till.pay).add("pre", stop, isolate=True)
    with pytest.raises(error):
        till.pay()
    assert hook.failures == 0


# reentrant


@pytest.mark.parametrize("kind", [*PLAIN_KINDS, "around"])
@pytest.mark.parametrize("late", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("waits", [False, True], ids=["pay", "apay"])
def test_a_hook_that_is_not_reentrant_is_not_entered_while_it_runs(
    till: Till, kind: str, late: bool, waits: bool
) -> None:
    amount = -1 if kind == "exception" else 1

    def again() -> None:
        till.ran.append(kind)
        with suppress(ValueError):
            till.pay(amount)

    def around(proceed: Callable[..., Any]) -> Any:
        again()
        return proceed()

    async def later() -> None:
        till.ran.append(kind)
        with suppress(ValueError):
            await till.apay(amount)

    async def around_later(proceed: Callable[..., Any]) -> Any:
        await later()
        return await proceed()

    def fail() -> None:
        raise ValueError

    mount = hooks(till.apay if waits else till.pay)
    if late and kind in ("exception", "always"):  # the rest of their chain is interpreted
        mount.add(kind, fail, priority=0)  # type: ignore[arg-type]
    hook = {(False, False): again, (False, True): later, (True, False): around, (True, True): around_later}
    mount.add(kind, hook[kind == "around", waits], reentrant=False)  # type: ignore[arg-type]

    async def call_twice() -> None:
        for turn in range(1, 3):
            with suppress(ValueError):
                await till.apay(amount) if waits else till.pay(amount)
            assert till.ran == [kind] * turn

    asyncio.run(call_twice())


@pytest.mark.parametrize("kind", PLAIN_KINDS)
@given(every=st.integers(1, 4), calls=st.integers(0, 9), inner=st.integers(0, 3))
def test_calls_inside_of_a_hook_that_is_not_reentrant_do_not_count_for_its_every(
    kind: str, every: int, calls: int, inner: int
) -> None:
    till, ran = Till(), 0

    amount = -1 if kind == "exception" else 1

    def calling() -> None:
        nonlocal ran
        ran += 1
        for _ in range(inner):
            with suppress(ValueError):
                till.pay(amount)

    hooks(till.pay).add(kind, calling, every=every, reentrant=False)  # type: ignore[arg-type]
    for _ in range(calls):
        with suppress(ValueError):
            till.pay(amount)
    assert ran == calls // every


def test_a_hook_that_is_not_reentrant_is_not_entered_after_another_such_hook_has_run(till: Till) -> None:
    @hookable
    def refund() -> None: ...

    def refunding() -> None:
        assert not till.ran, "it was entered again"
        till.ran.append("pay")
        refund()
        till.pay()

    refund.pre(lambda: None, reentrant=False)
    till.pay.pre(refunding, reentrant=False)
    till.pay()
    assert till.ran == ["pay"]


def test_a_hook_that_is_not_reentrant_is_entered_by_a_thread_that_it_has_started(till: Till) -> None:
    # Without the GIL threads inherit the context, and the hook was taken to run in there too.
    amounts: list[int] = []

    @till.pay.pre(reentrant=False)
    def note(amount: int) -> None:
        amounts.append(amount)
        till.pay(amount + 10)
        if amount == 1:
            at_once(lambda: till.pay(2))

    till.pay(1)
    assert amounts == [1, 2]


def stream_around(till: Till) -> Any:
    """Make a generator, with a hook around it that is not reentrant."""

    @hookable
    def bills() -> Generator[int, None, None]:
        yield 1

    def whole(proceed: Any) -> Any:
        till.ran.append("around")
        return (yield from proceed())

    bills.around(whole, reentrant=False)
    return bills


def test_a_hook_around_a_stream_that_was_never_started_can_be_entered_again(till: Till) -> None:
    # It counted as running, and one with `times` as used up, from the call of `proceed`.
    bills = stream_around(till)

    def drops_it(proceed: Any) -> Any:
        proceed()
        return iter([2])

    hook = hooks(bills).add("around", drops_it, priority=0)
    assert list(bills()) == [2]
    hook.remove()
    assert list(bills()) == [1]
    assert till.ran == ["around"]


def test_a_hook_that_is_removed_in_the_middle_of_a_call_runs_to_its_end(till: Till) -> None:
    def clear() -> None:
        hooks(till.pay).clear()
        gc.collect()

    hooks(till.pay).add("pre", clear)
    for times in (1, 2):
        hooks(till.pay).add("pre", till.hook(f"times={times}"), times=times)
    till.pay()
    assert till.ran == ["times=1", "times=2"] and not hooks(till.pay)


def test_a_hook_that_is_not_reentrant_runs_again_after_it_has_raised(till: Till) -> None:
    def fails() -> None:
        till.ran.append("pre")
        raise KeyError

    hooks(till.pay).pre(fails, reentrant=False)
    for _ in range(2):
        with suppress(KeyError):
            till.pay()
    assert till.ran == ["pre", "pre"]


def test_a_hook_that_is_not_reentrant_leaves_those_of_other_functions_alone(till: Till) -> None:
    other = Till()
    other.add("pre", reentrant=False)

    def pays_there() -> None:
        other.pay()

    hooks(till.pay).pre(pays_there, reentrant=False)
    till.pay()
    assert other.ran == ["pre"]


def test_a_predicate_that_is_awaited_and_one_that_is_not_make_two_calls_of_them() -> None:
    async def is_large(amount: int) -> bool:
        return amount > 1

    async def ran(when: Any) -> list[int]:
        till, amounts = Till(), [0, 2]
        till.apay.post(till.ran.append, when=when)
        for amount in amounts:
            await till.apay(amount)
        return till.ran

    assert [asyncio.run(ran(when)) for when in (is_large, lambda amount: amount > 1)] == [[2], [2]]
