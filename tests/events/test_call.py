"""What a call of an event does: its answers, the other kinds of hooks, changes while it runs, async events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import Hook, HookSignatureError, Return, event, hooks
from tests.events.samples import cleaned, fails, made, rang

# What a call returns


def test_falsy_answers_and_return_none_are_kept() -> None:
    for answer in (Return(None), Return(0), 0, "", False, [], ()):
        rang.on(lambda answer=answer: answer)
    assert rang("ann") == [None, 0, 0, "", False, [], ()]


def test_an_event_may_be_about_a_result_or_an_exception() -> None:
    @event
    def ended(result: int, exc: object) -> None: ...

    ended.on(lambda exc, result: (result, exc))
    assert ended(3, None) == [(3, None)]


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


def test_fold_of_a_keyword_parameter() -> None:
    @event(fold="text")
    def shouted(*, text: str) -> None: ...

    shouted.on(lambda text: text + "!")
    assert shouted(text="a") == "a!"


def test_fold_leaves_the_argument_to_other_kinds_of_hooks() -> None:
    seen: list[Any] = []
    cleaned.on(lambda text: text + "!")
    cleaned.on(lambda call: seen.append(("on", call.arguments["text"])))
    cleaned.post(lambda text, result, call: seen.append((text, result, call.arguments["text"])))
    cleaned.always(lambda text: seen.append(text))
    assert cleaned("a") == "a!"
    assert seen == [("on", "a"), ("a", "a!", "a"), "a"]


@pytest.mark.parametrize("gives", [{}, {"first": True}, {"fold": "n"}])
@pytest.mark.parametrize("errors", ["raise", "isolate"])
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
            with pytest.raises(ZeroDivisionError):
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


def test_positional_only_subscriber_is_given_the_subject_of_the_event() -> None:
    @event
    def changed(celsius: float) -> None: ...

    class Sensor:
        @event
        def changed(self, celsius: float) -> None: ...

        @classmethod
        @event
        def reset(cls, celsius: float) -> None: ...

    seen: list[Any] = []
    changed.on(seen.append)
    Sensor.changed.on(seen.append)
    Sensor.reset.on(seen.append)
    rang.on(seen.append)  # it has several arguments
    cleaned.on(str.strip)  # the value that is folded
    changed(20.5)
    Sensor().changed(21.5)
    Sensor.reset(0.5)
    rang("ann", 2)
    assert seen == [20.5, 21.5, 0.5, {"who": "ann", "times": 2}] and cleaned("  a ") == "a"
    with pytest.raises(HookSignatureError, match=r"only one is given \(the text\)"):
        cleaned.on(lambda text, other, /: None)


# Changes during a call


# Async


def test_async_event_with_first_and_with_fold() -> None:
    @event(first=True)
    async def asked(name: str) -> str:
        await asyncio.sleep(0)
        return "default"

    @event(fold="n")
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
        with pytest.raises(ValueError, match="one"):
            await summed(1)

    asyncio.run(main())
