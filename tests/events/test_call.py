"""What a call of an event does: its answers, the other kinds of hooks, changes while it runs, async events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import Args, Hook, HookAnswerError, HookOrderError, HookSignatureError, Return, event, hooks, weave
from tests.events.samples import arrived, cleaned, fails, found, made, rang
from tests.threads import at_once

# What a call returns


def test_falsy_answers_and_return_none_are_kept() -> None:
    for answer in (Return(None), Return(0), 0, "", False, [], ()):
        rang.on(lambda answer=answer: answer)
    assert rang("ann") == [None, 0, 0, "", False, [], ()]


def test_each_call_returns_a_new_list() -> None:
    rang("ann").append("mine")
    assert rang("ann") == []
    rang.on(lambda who: who)
    rang("ann").append("mine")
    assert rang("ann") == ["ann"]


def test_first_stops_at_the_first_answer() -> None:
    asked: list[str] = []
    found.on(lambda name: asked.append("one"))
    found.on(lambda name: asked.append("two") or name.upper())
    found.on(lambda name: asked.append("three"))
    assert found("key") == "KEY" and asked == ["one", "two"]


def test_first_stops_at_return_none() -> None:
    found.on(lambda: Return(None))
    found.on(lambda: "late")
    assert found("key") is None


def test_first_asks_the_body_of_the_stub_last() -> None:
    @event(first=True)
    def breakfast(day: str) -> str:
        return f"toast on {day}"

    assert breakfast("monday") == "toast on monday"
    breakfast.on(lambda day: "pancakes" if day == "sunday" else None)
    assert breakfast("sunday") == "pancakes" and breakfast("monday") == "toast on monday"


@pytest.mark.parametrize("options", [{}, {"fold": "day"}])
def test_body_of_the_stub_runs_without_subscribers(options: dict[str, Any]) -> None:
    done: list[str] = []

    def get_up(day: str) -> Any:
        done.append(day)
        return "up"

    plain = get_up.__code__
    made: Any = event(**options)(get_up) if options else event(get_up)
    assert made is get_up and get_up.__code__ is plain
    assert made("monday") == "up" and done == ["monday"]
    hook = hooks(made).add("on", lambda: None)
    assert made("sunday") == ("sunday" if options else []) and done == ["monday"]
    hook.remove()
    assert made("friday") == "up" and get_up.__code__ is plain


def test_fold_passes_the_value_from_one_subscriber_to_the_next() -> None:
    seen: list[str] = []
    cleaned.on(lambda text: text.strip())
    cleaned.on(lambda text: seen.append(text))
    cleaned.on(lambda text, args, kwargs: f"{text}{len(args)}{sorted(kwargs)}", priority="LOW")
    assert cleaned("  a ") == "a1['strict']" and seen == ["a"]


def test_fold_may_make_the_value_none() -> None:
    cleaned.on(lambda: Return(None))
    cleaned.on(lambda text: f"{text}!")
    assert cleaned("a") == "None!"


def test_fold_leaves_the_argument_to_other_kinds_of_hooks() -> None:
    seen: list[Any] = []
    cleaned.on(lambda text: text + "!")
    cleaned.on(lambda call: seen.append(("on", call.arguments["text"])))
    cleaned.post(lambda text, result, call: seen.append((text, result, call.arguments["text"])))
    cleaned.always(lambda text: seen.append(text))
    assert cleaned("a") == "a!"
    assert seen == [("on", "a"), ("a", "a!", "a"), "a"]


@pytest.mark.parametrize("gives", [{}, {"first": True}, {"fold": "n"}])
@pytest.mark.parametrize("errors", ["raise", "isolate", "group"])
@pytest.mark.usefixtures("no_logging")
def test_errors_modes_with_few_and_with_many_subscribers(gives: dict[str, Any], errors: str) -> None:
    for count in (3, 60):
        said, asked = made(errors=errors, **gives), list[int]()
        for place in range(count):
            fails = place == count - 2

            def hear(n: int, place: int = place, fails: bool = fails) -> int | None:
                asked.append(place)
                return 1 // 0 if fails else n + 1 if place == count - 1 else None

            said.on(hear)
        if errors == "isolate":
            assert said(1) == (2 if gives else [2])
        else:
            with pytest.raises(ZeroDivisionError if errors == "raise" else ExceptionGroup):
                said(1)
        assert asked == list(range(count - (errors == "raise")))


@given(st.lists(st.tuples(st.integers(0, 100), st.one_of(st.none(), st.integers(0, 3))), max_size=30), st.data())
def test_event_equals_a_loop_over_a_sorted_list(rows: list[tuple[int, int | None]], data: st.DataObject) -> None:
    @event
    def listed() -> None: ...

    @event(first=True)
    def firsts() -> int:
        return -1

    @event(fold="n")
    def folded(n: int) -> None: ...

    handles: list[Hook] = []
    for priority, answer in rows:
        handles += [hooks(one).add("on", lambda answer=answer: answer, priority=priority) for one in (listed, firsts)]
        add = (lambda n, answer=answer: n * 5 + answer) if answer is not None else (lambda n: None)
        handles.append(hooks(folded).add("on", add, priority=priority))
    left = sorted(range(len(rows)), key=lambda place: rows[place][0])
    for place in data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True) if rows else st.just([])):
        for handle in handles[3 * place : 3 * place + 3]:
            handle.remove()
        left.remove(place)
    answers = [rows[place][1] for place in left if rows[place][1] is not None]
    total = 1
    for answer in answers:
        total = total * 5 + answer
    assert listed() == answers
    assert firsts() == (answers[0] if answers else -1)
    assert folded(1) == total


# Other kinds of hooks, order and conditions


def test_pre_hooks_change_arguments_and_prevent_the_event() -> None:
    heard: list[str] = []
    rang.on(lambda who: heard.append(who))
    rang.pre(lambda who: Args(who=who.title()))
    rang.pre(lambda who: Return(["nobody"]) if who == "Eve" else None)
    assert rang("ann") == [] and rang("eve") == ["nobody"] and heard == ["Ann"]


def test_around_post_exception_and_always_hooks_act_on_an_event() -> None:
    trail: list[str] = []
    rang.on(lambda times: 1 // times)

    @rang.around
    def twice(proceed: Callable[..., list[int]], times: int) -> list[int]:
        return proceed() + proceed(times=1)

    rang.post(lambda result: [*result, "post"])
    rang.exception(lambda exc: Return([type(exc).__name__]))
    rang.always(lambda result, exc: trail.append(f"{result} {exc}"))
    assert rang("ann", 1) == [1, 1, "post"]
    assert rang("ann", 0) == ["ZeroDivisionError"]
    assert trail == ["[1, 1, 'post'] None", "['ZeroDivisionError'] None"]


def test_post_hooks_act_without_subscribers() -> None:
    rang.post(lambda result: [*result, "post"])
    assert rang("ann") == ["post"]


def test_subscriber_that_answers_args_is_an_error() -> None:
    rang.on(lambda: Args(who="eve"), name="sly")
    with pytest.raises(HookAnswerError, match="on hook 'sly'.*use a pre hook on the event"):
        rang("ann")


def test_subscriber_that_asks_for_an_unknown_name_is_refused() -> None:
    with pytest.raises(
        HookSignatureError, match="on hook.*asks for 'hwo', but .*:rang offers who, times.*did you mean 'who'"
    ):
        rang.on(lambda hwo: None)
    assert not hooks(rang)


def test_positional_only_subscriber_is_given_the_subject_of_the_event() -> None:
    @event
    def changed(celsius: float) -> None: ...

    class Sensor:
        @event
        def changed(self, celsius: float) -> None: ...

    seen: list[Any] = []
    changed.on(seen.append)
    Sensor.changed.on(seen.append)
    rang.on(seen.append)  # it has several arguments
    cleaned.on(str.strip)  # the value that is folded
    changed(20.5)
    Sensor().changed(21.5)
    rang("ann", 2)
    assert seen == [20.5, 21.5, {"who": "ann", "times": 2}] and cleaned("  a ") == "a"
    with pytest.raises(HookSignatureError, match=r"only one is given \(the text\)"):
        cleaned.on(lambda text, other, /: None)


def test_parameters_may_be_called_result_exc_and_item() -> None:
    @event
    def job_done(result: str, exc: str, item: str) -> None: ...

    job_done.on(lambda result, exc, item: (result, exc, item))
    assert job_done("r", "e", "i") == [("r", "e", "i")]


def test_order_and_conditions_of_subscribers() -> None:
    rang.on(lambda: "b", name="b", after="a", priority=0)
    rang.on(lambda: "a", name="a")
    rang.on(lambda: "c", name="c", when=lambda who: who == "cleo", once=True)
    assert rang("ann") == ["a", "b"] and rang("cleo") == ["a", "b", "c"] and rang("cleo") == ["a", "b"]
    with pytest.raises(HookOrderError):
        rang.on(lambda: None, before="a", after="b")
    assert [hook.name for hook in hooks(rang).on] == ["a", "b"]


def test_subscription_for_a_with_block() -> None:
    heard: list[str] = []
    with hooks(rang).add("on", lambda who: heard.append(who)) as hook:
        rang("ann")
        assert hook in tuple(hooks(rang))
    rang("bob")
    assert heard == ["ann"]
    with weave(rang, on=lambda who: who):
        assert rang("cleo") == ["cleo"]
    assert rang("cleo") == []


def test_weave_puts_a_pre_hook_on_an_event() -> None:
    rang.on(lambda who: who)
    with weave(rang, pre=lambda: Args(who="eve")):
        assert rang("ann") == ["eve"]
    assert rang("ann") == ["ann"]


def test_weave_with_scope_context_reaches_no_other_thread() -> None:
    said, heard = made(), list[int]()
    with weave(said, on=lambda n: heard.append(n), scope="context"):
        said(1)
        thread = threading.Thread(target=said, args=(2,))
        thread.start()
        thread.join()
    said(3)
    assert heard == [1] and not hooks(said)


# Changes during a call


def test_removal_during_a_call_skips_no_subscriber() -> None:
    heard: list[str] = []

    def one() -> None:
        heard.append("one")
        hooks(rang).remove(one)
        hooks(rang).remove("three")

    rang.on(one)
    rang.on(lambda: heard.append("two"))
    rang.on(lambda: heard.append("three"), name="three")
    rang("ann")
    assert heard == ["one", "two", "three"]  # the call sees the chain as it was when it began
    rang("ann")
    assert heard == ["one", "two", "three", "two"]


def test_subscriber_added_during_a_call_sees_the_next_call() -> None:
    heard: list[str] = []
    rang.on(lambda: hooks(rang).add("on", lambda: heard.append("new")), once=True)
    rang("ann")
    assert heard == []
    rang("ann")
    assert heard == ["new"]


def test_event_called_by_its_own_subscriber() -> None:
    rang.on(lambda times: rang("ann", times - 1) if times else "end")
    assert rang("ann", 2) == [[["end"]]]


def test_subscribers_added_and_removed_in_many_threads() -> None:
    heard: list[int] = []
    rang.on(lambda: heard.append(1), name="stays")

    def come_and_go() -> None:
        for _ in range(100):
            handle = hooks(rang).add("on", lambda: None)
            rang("ann")
            handle.remove()

    at_once(*[come_and_go] * 4)
    assert len(heard) == 400 and [hook.name for hook in hooks(rang)] == ["stays"]


# Async


def test_async_event_awaits_subscribers_in_order() -> None:
    trail: list[str] = []

    @arrived.on
    async def slow(who: str) -> str:
        trail.append("slow begins")
        await asyncio.sleep(0.01)
        trail.append("slow ends")
        return who

    arrived.on(lambda: trail.append("sync"))
    assert asyncio.run(arrived("ann")) == ["ann"] and trail == ["slow begins", "slow ends", "sync"]


def test_async_event_with_first_and_with_fold() -> None:
    @event(first=True)
    async def asked(name: str) -> str:
        await asyncio.sleep(0)
        return "default"

    @event(fold="n", errors="group")
    async def summed(n: int) -> int:
        return n

    @summed.on
    async def add(n: int) -> int:
        return n + 1

    async def main() -> None:
        assert await asked("a") == "default" and await summed(1) == 2
        asked.on(lambda name: name if name == "b" else None)
        assert (await asked("a"), await asked("b")) == ("default", "b")
        summed.on(fails(ValueError("one")))
        with pytest.raises(ExceptionGroup):
            await summed(1)

    asyncio.run(main())
