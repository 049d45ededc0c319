"""Events: mount points without a body, and what their calls do with their subscribers."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import logging
import pickle
import subprocess
import sys
import traceback
import typing
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import (
    Args,
    Hook,
    HookAnswerError,
    HookOptionError,
    HookOrderError,
    HookSignatureError,
    HookTypeError,
    MountError,
    Return,
    event,
    explain,
    hookable,
    hooks,
    weave,
)
from tests.threads import at_once


@event
def rang(who: str, times: int = 1) -> None:
    """Somebody rang."""


@event(first=True)
def found(name: str) -> str | None:
    return None


@event(fold="text")
def cleaned(text: str, *, strict: bool = False) -> None: ...


@event
async def arrived(who: str) -> None: ...


@pytest.fixture(autouse=True)
def _cleared() -> Iterator[None]:
    yield
    for one in (rang, found, cleaned, arrived):
        hooks(one).clear()


# What a call gives


def test_an_event_gives_the_answers_that_are_not_none_in_order() -> None:
    rang.on(lambda who: f"{who} b")
    rang.on(lambda: None)
    rang.on(lambda who: f"{who} a", priority="HIGH")
    assert rang("ann") == ["ann a", "ann b"]


def test_return_gives_an_answer_that_is_none() -> None:
    rang.on(lambda: Return(None))
    rang.on(lambda: Return(0))
    assert rang("ann") == [None, 0]


def test_answers_that_are_false_are_answers() -> None:
    for value in (0, "", False, [], ()):
        rang.on(lambda value=value: value)
    assert rang("ann") == [0, "", False, [], ()]


def test_each_call_gives_a_list_of_its_own() -> None:
    rang("ann").append("mine")
    assert rang("ann") == []
    rang.on(lambda who: who)
    rang("ann").append("mine")
    assert rang("ann") == ["ann"]


def test_the_first_answer_ends_the_asking() -> None:
    asked: list[str] = []
    found.on(lambda name: asked.append("one"))
    found.on(lambda name: asked.append("two") or name.upper())
    found.on(lambda name: asked.append("three"))
    assert found("key") == "KEY" and asked == ["one", "two"]


def test_return_none_ends_the_asking_too() -> None:
    found.on(lambda: Return(None))
    found.on(lambda: "late")
    assert found("key") is None


def test_the_body_of_a_stub_is_asked_last() -> None:
    @event(first=True)
    def breakfast(day: str) -> str:
        return f"toast on {day}"

    assert breakfast("monday") == "toast on monday"
    breakfast.on(lambda day: "pancakes" if day == "sunday" else None)
    assert breakfast("sunday") == "pancakes" and breakfast("monday") == "toast on monday"


@pytest.mark.parametrize("options", [{}, {"fold": "day"}])
def test_the_body_of_a_stub_is_what_is_done_when_nobody_listens(options: dict[str, Any]) -> None:
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


def test_a_folded_value_goes_from_one_to_the_next() -> None:
    seen: list[str] = []
    cleaned.on(lambda text: text.strip())
    cleaned.on(lambda text: seen.append(text))
    cleaned.on(lambda text, args, kwargs: f"{text}{len(args)}{sorted(kwargs)}", priority="LOW")
    assert cleaned("  a ") == "a1['strict']" and seen == ["a"]


def test_a_folded_value_may_become_none() -> None:
    cleaned.on(lambda: Return(None))
    cleaned.on(lambda text: f"{text}!")
    assert cleaned("a") == "None!"


def test_what_is_folded_is_the_argument_still_for_the_other_kinds_of_hooks() -> None:
    seen: list[Any] = []
    cleaned.on(lambda text: text + "!")
    cleaned.on(lambda call: seen.append(("on", call.arguments["text"])))
    cleaned.post(lambda text, result, call: seen.append((text, result, call.arguments["text"])))
    cleaned.always(lambda text: seen.append(text))
    assert cleaned("a") == "a!"
    assert seen == [("on", "a"), ("a", "a!", "a"), "a"]


@pytest.mark.parametrize("count", [1, 23, 24, 25, 100])
@pytest.mark.parametrize("gives", ["list", "first", "fold"])
def test_many_subscribers_are_as_few(gives: str, count: int) -> None:
    options: dict[str, Any] = {"list": {}, "first": {"first": True}, "fold": {"fold": "n"}}[gives]

    def stub(n: int) -> Any: ...

    made: Any = event(**options)(stub) if options else event(stub)
    for place in range(count):
        made.on(lambda n, place=place: n + 1 if gives != "first" or place == count - 1 else None)
    assert made(0) == {"list": [1] * count, "first": 1, "fold": count}[gives]


# The other kinds of hooks


def test_pre_hooks_filter_an_event() -> None:
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


def test_hooks_of_other_kinds_act_when_nobody_listens() -> None:
    rang.post(lambda result: [*result, "post"])
    assert rang("ann") == ["post"]


def test_a_subscriber_may_not_replace_arguments() -> None:
    rang.on(lambda: Args(who="eve"), name="sly")
    with pytest.raises(HookAnswerError, match="on hook 'sly'.*use a pre hook on the event"):
        rang("ann")


def test_subscribers_ask_by_name_and_are_refused_when_they_ask_for_what_is_not_there() -> None:
    with pytest.raises(
        HookSignatureError, match="on hook.*asks for 'hwo', but .*:rang offers who, times.*did you mean 'who'"
    ):
        rang.on(lambda hwo: None)
    assert not hooks(rang)


def test_what_an_event_is_about_may_be_called_result_or_exc() -> None:
    @event
    def job_done(result: str, exc: str, item: str) -> None: ...

    job_done.on(lambda result, exc, item: (result, exc, item))
    assert job_done("r", "e", "i") == [("r", "e", "i")]


def test_order_and_conditions_are_those_of_all_hooks() -> None:
    rang.on(lambda: "b", name="b", after="a", priority=0)
    rang.on(lambda: "a", name="a")
    rang.on(lambda: "c", name="c", when=lambda who: who == "cleo", once=True)
    assert rang("ann") == ["a", "b"] and rang("cleo") == ["a", "b", "c"] and rang("cleo") == ["a", "b"]
    with pytest.raises(HookOrderError):
        rang.on(lambda: None, before="a", after="b")
    assert [hook.name for hook in hooks(rang).on] == ["a", "b"]


# What an event is


def test_an_event_is_the_function_that_its_stub_was() -> None:
    before = rang.__code__
    assert (
        inspect.signature(rang) == inspect.signature(rang)
        and str(inspect.signature(rang)) == "(who: 'str', times: 'int' = 1) -> 'None'"
    )
    assert "Somebody rang." in inspect.getsource(rang) and inspect.getdoc(rang) == "Somebody rang."
    assert typing.get_type_hints(rang) == {"who": str, "times": int, "return": type(None)}
    assert type(rang) is type(lambda: None) and pickle.loads(pickle.dumps(rang)) is rang and copy.copy(rang) is rang
    assert inspect.iscoroutinefunction(arrived) and not inspect.iscoroutinefunction(rang)
    space = dict(vars(rang))
    handle = hooks(rang).add("on", lambda: 1)
    assert rang("ann") == [1] and rang.__code__ is not before and "Somebody rang." in inspect.getsource(rang)
    handle.remove()
    assert rang.__code__ is before and vars(rang) == space


def test_wrong_arguments_are_refused_as_a_function_refuses_them() -> None:
    for listens in (False, True):
        if listens:
            rang.on(lambda: None)
        with pytest.raises(TypeError, match=r"rang\(\) missing 1 required positional argument: 'who'"):
            rang()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"rang\(\) got an unexpected keyword argument 'whom'"):
            rang("ann", whom=1)  # type: ignore[call-arg]


def test_what_has_no_names_is_told_what_the_event_is_about() -> None:
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


def test_a_subscription_may_be_for_a_block() -> None:
    heard: list[str] = []
    with hooks(rang).add("on", lambda who: heard.append(who)) as hook:
        rang("ann")
        assert hook in tuple(hooks(rang))
    rang("bob")
    assert heard == ["ann"]
    with weave(rang, on=lambda who: who):
        assert rang("cleo") == ["cleo"]
    assert rang("cleo") == []


def test_an_event_may_have_parameters_of_every_sort() -> None:
    @event
    def odd(a, /, b=2, *rest, c, d=4, **extra): ...  # type: ignore[no-untyped-def]

    assert odd(1, c=3) == []
    odd.on(lambda b, rest, c, d, extra: (b, rest, c, d, extra))
    assert odd(1, 5, 6, 7, c=3, e=8) == [(5, (6, 7), 3, 4, {"e": 8})]


def with_doc() -> None:
    """Say nothing."""


def with_ellipsis() -> None: ...


def with_pass() -> None:
    pass


def with_doc_and_ellipsis() -> None:
    """Say nothing."""


def with_return_none() -> None:
    return None


@pytest.mark.parametrize("stub", [with_doc, with_ellipsis, with_pass, with_doc_and_ellipsis, with_return_none])
def test_a_stub_without_a_body_gives_an_empty_list(stub: Any) -> None:
    assert event(stub)() == []


@pytest.mark.parametrize(
    "body",
    [
        "return 5",
        "return 'doc'",
        "return ...",
        "return []",
        "x = 1",
        "return n",
        "print",
        "yield_ = None; return yield_",
    ],
)
def test_a_stub_with_a_body_keeps_it(body: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def stub(n):\n    {body}", space)
    code = space["stub"].__code__
    assert event(space["stub"]).__code__ is code


def test_stubs_in_optimised_python_have_no_body_either() -> None:
    program = (
        "from aspecthook import event\n@event\ndef e(a):\n    'doc'\nprint(e(1))\n"
        "@event\nasync def f(a):\n    'doc'\nimport asyncio; print(asyncio.run(f(1)))"
    )
    for flags in ([], ["-O"], ["-OO"]):
        done = subprocess.run([sys.executable, *flags, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n[]\n"


def test_a_line_of_a_subscriber_that_fails_is_in_the_traceback() -> None:
    def broken() -> None:
        raise ValueError("broken")

    rang.on(broken)
    with pytest.raises(ValueError, match="broken") as caught:
        rang("ann")
    lines = traceback.format_exception(caught.value)
    assert any("answer = on_1()  # broken, test_events.py:" in line for line in lines)


def test_explain_shows_the_subscribers(capsys: pytest.CaptureFixture[str]) -> None:
    rang.on(lambda who: who, name="bell")
    explain(rang)
    assert "answer = on_1(who)  # bell, test_events.py:" in capsys.readouterr().out


def test_an_event_of_a_class_is_for_each_instance_and_for_all() -> None:
    class Sensor:
        name = "kitchen"

        @event
        def changed(self, celsius: float) -> None: ...

    kitchen, cellar = Sensor(), Sensor()
    cellar.name = "cellar"
    Sensor.changed.on(lambda self, celsius: ("all", self.name, celsius))
    hooks(kitchen.changed).on(lambda celsius: ("kitchen", celsius), priority="HIGH")
    assert kitchen.changed(20.0) == [("kitchen", 20.0), ("all", "kitchen", 20.0)]
    assert cellar.changed(8.0) == [("all", "cellar", 8.0)]
    assert [hook.kind for hook in hooks(kitchen.changed)] == ["on"] and "changed" not in vars(kitchen)
    gone = weakref.ref(kitchen)
    del kitchen
    gc.collect()
    assert gone() is None and cellar.changed(8.0) == [("all", "cellar", 8.0)]
    hooks(Sensor.changed).clear()
    assert cellar.changed(8.0) == []


def test_an_event_may_be_a_static_or_a_class_method() -> None:
    class Shop:
        @staticmethod
        @event
        def opened(hour: int) -> None: ...

        @classmethod
        @event
        def closed(cls, hour: int) -> None: ...

    hooks(Shop.opened).on(lambda hour: hour)
    hooks(Shop.closed).on(lambda cls, hour: (cls, hour))
    assert Shop.opened(8) == [8] and Shop().opened(9) == [9] and Shop.closed(20) == [(Shop, 20)]


def test_a_subclass_shares_the_event_of_its_base() -> None:
    class Base:
        @event
        def changed(self) -> None: ...

    class Derived(Base): ...

    Base.changed.on(lambda self: type(self).__name__)
    assert Derived().changed() == ["Derived"] and Derived.changed is Base.changed


def test_weave_filters_an_event_that_is_not_yours() -> None:
    rang.on(lambda who: who)
    with weave(rang, pre=lambda: Args(who="eve")):
        assert rang("ann") == ["eve"]
    assert rang("ann") == ["ann"]


# Refusals


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: event(3), MountError, "give a function"),
        (lambda: event(staticmethod(with_pass)), MountError, "nearest to the def"),
        (lambda: event(classmethod(with_pass)), MountError, "nearest to the def"),
        (lambda: event(property(with_pass)), MountError, "nearest to the def"),
        (lambda: event(len), MountError, "give a function"),
        (lambda: event(hookable(lambda: None)), MountError, "mount point already"),
        (lambda: event(rang), MountError, "mount point already"),
        (lambda: event(lambda: (yield)), MountError, "contains a yield"),
        (lambda: event(first=True, fold="a")(lambda a: None), HookOptionError, "use one of the two"),
        (lambda: event(fold="wlu")(lambda value: None), HookOptionError, "folds 'wlu', but has value"),
        (lambda: event(fold="valeu")(lambda value: None), HookOptionError, "did you mean 'value'"),
        (lambda: event(fold="rest")(lambda *rest: None), HookOptionError, "no parameters"),
        (lambda: event(errors="rise")(lambda: None), HookOptionError, "did you mean 'raise'"),
        (lambda: event(gather=True)(lambda: None), HookOptionError, "write async def"),
        (lambda: event(replay=-1)(lambda: None), HookOptionError, "replay=-1"),
        (lambda: event(replay=True)(lambda: 5), HookOptionError, "has a body"),
    ],
)
def test_what_cannot_be_an_event_is_refused(make: Callable[[], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()


def test_async_stubs_refuse_what_they_cannot_do() -> None:
    async def stub(a: int) -> None: ...

    code = stub.__code__
    for options in ({"gather": True, "first": True}, {"gather": True, "fold": "a"}, {"replay": True}):
        with pytest.raises(HookOptionError):
            event(**options)(stub)  # type: ignore[call-overload]
    assert stub.__code__ is code and not vars(stub)


def test_an_event_of_a_class_cannot_replay() -> None:
    with pytest.raises(HookOptionError, match="keep its instances alive"):

        class Sensor:
            @event(replay=True)
            def changed(self) -> None: ...


def test_a_function_that_is_no_event_has_no_subscribers() -> None:
    @hookable
    def price() -> None: ...

    assert not hasattr(price, "on") and hooks(price).on == ()
    with pytest.raises(HookTypeError, match="is not an event; use pre or post, or declare it with @event"):
        hooks(price).add("on", lambda: None)


def test_an_attribute_that_is_there_already_is_not_overwritten() -> None:
    def stub() -> None: ...

    stub.on = 1  # type: ignore[attr-defined]
    code = stub.__code__
    with pytest.raises(MountError, match="already has an attribute 'on'"):
        event(stub)
    assert vars(stub) == {"on": 1} and stub.__code__ is code


# Errors of subscribers


def fails(error: BaseException) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


def test_an_error_ends_the_event() -> None:
    error, heard = ValueError("one"), list[int]()
    rang.on(fails(error))
    rang.on(lambda: heard.append(1))
    with pytest.raises(ValueError, match="one") as caught:
        rang("ann")
    assert caught.value is error and not heard


def test_isolated_errors_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    @event(errors="isolate")
    def changed() -> None: ...

    changed.on(fails(ValueError("one")), name="bad")
    changed.on(lambda: "good")
    changed.on(fails(KeyError("strict")), isolate=False, when=lambda: strict, name="strict")
    strict = False
    assert changed() == ["good"] and hooks(changed)["bad"].failures == 1
    assert "on hook 'bad'" in caplog.text
    strict = True
    with pytest.raises(KeyError):
        changed()


def test_errors_are_raised_together_when_all_have_run() -> None:
    @event(errors="group")
    def changed() -> None: ...

    one, two, heard = ValueError("one"), KeyError("two"), list[int]()
    changed.on(fails(one))
    changed.on(lambda: heard.append(1))
    changed.on(fails(two))
    with pytest.raises(ExceptionGroup, match="changed: 2 subscribers failed") as caught:
        changed()
    assert caught.value.exceptions == (one, two) and heard == [1]
    with pytest.raises(ExceptionGroup) as again:
        changed()
    assert again.value is not caught.value


def test_what_is_no_exception_is_not_kept_for_the_group() -> None:
    @event(errors="group")
    def changed() -> None: ...

    changed.on(fails(ValueError()))
    changed.on(fails(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        changed()


def test_a_group_goes_through_the_exception_hooks_of_the_event() -> None:
    @event(errors="group")
    def changed() -> None: ...

    changed.on(fails(ValueError("one")))
    changed.exception(lambda exc: Return([str(one) for one in exc.exceptions]))
    assert changed() == ["one"]


# Weak subscribers


class Observer:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def heard(self, who: str) -> str:
        self.seen.append(who)
        return who

    async def heard_later(self, who: str) -> str:
        return who


def test_a_weak_method_does_not_keep_its_object_alive() -> None:
    observer = Observer()
    rang.on(observer.heard, weak=True)
    assert rang("ann") == ["ann"] and observer.heard in hooks(rang)
    ref = weakref.ref(observer)
    del observer
    gc.collect()
    assert ref() is None and not hooks(rang) and rang("ann") == []


def test_a_weak_subscriber_can_be_removed_and_named() -> None:
    one, two = Observer(), Observer()
    for each in (one, two):
        rang.on(each.heard, weak=True)
    hooks(rang).remove(one.heard)
    assert rang("ann") == ["ann"] and two.seen == ["ann"] and not one.seen
    assert hooks(rang)["heard"].who.startswith("on hook 'heard' (") and "test_events.py" in hooks(rang)["heard"].who


def test_functions_callables_and_methods_of_c_are_held_weakly_too() -> None:
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


def test_a_subscriber_that_dies_while_the_event_runs_does_no_harm() -> None:
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


def test_a_weak_async_subscriber_is_awaited() -> None:
    observer = Observer()
    arrived.on(observer.heard_later, weak=True)
    assert asyncio.run(arrived("ann")) == ["ann"]
    del observer
    gc.collect()
    assert asyncio.run(arrived("ann")) == []


def test_other_kinds_of_hooks_are_held_weakly_too() -> None:
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


def test_what_cannot_be_held_weakly_is_refused() -> None:
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


def test_a_weak_subscriber_leaves_no_word_at_the_end_of_the_program() -> None:
    program = (
        "from aspecthook import event, hooks\n"
        "class A:\n    @event\n    def e(self): ...\n    def m(self): ...\n"
        "a = A(); hooks(A.e).on(a.m, weak=True); hooks(a.e).on(a.m); a.e(); a.me = a"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


# Changes while it runs


def test_removal_while_it_runs_skips_nobody() -> None:
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


def test_who_subscribes_while_it_runs_hears_the_next_call() -> None:
    heard: list[str] = []
    rang.on(lambda: hooks(rang).add("on", lambda: heard.append("new")), once=True)
    rang("ann")
    assert heard == []
    rang("ann")
    assert heard == ["new"]


def test_an_event_may_happen_inside_itself() -> None:
    rang.on(lambda times: rang("ann", times - 1) if times else "end")
    assert rang("ann", 2) == [[["end"]]]


def test_subscribers_come_and_go_from_many_threads() -> None:
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


def test_an_async_event_awaits_its_subscribers_in_order() -> None:
    trail: list[str] = []

    @arrived.on
    async def slow(who: str) -> str:
        trail.append("slow begins")
        await asyncio.sleep(0.01)
        trail.append("slow ends")
        return who

    arrived.on(lambda: trail.append("sync"))
    assert asyncio.run(arrived("ann")) == ["ann"] and trail == ["slow begins", "slow ends", "sync"]


def test_an_async_event_gives_first_answers_and_folds() -> None:
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


@event(gather=True)
async def gathered(who: str) -> None: ...


@event(gather=True, errors="group")
async def gathered_all(who: str) -> None: ...


@pytest.fixture
def _nobody() -> Iterator[None]:
    yield
    hooks(gathered).clear()
    hooks(gathered_all).clear()


pause = {"asyncio": asyncio.sleep, "trio": trio.sleep}


def run(loop: str, function: Callable[..., Any], *args: Any) -> Any:
    return asyncio.run(function(*args)) if loop == "asyncio" else trio.run(function, *args)


@pytest.mark.usefixtures("_nobody")
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_gathered_subscribers_run_at_once_and_answer_in_order(loop: str) -> None:
    trail: list[str] = []

    async def slow(who: str) -> str:
        trail.append("slow begins")
        await pause[loop](0.02)
        trail.append("slow ends")
        return f"slow {who}"

    async def quick() -> str:
        trail.append("quick begins")
        await pause[loop](0)
        trail.append("quick ends")
        return "quick"

    gathered.on(slow)
    gathered.on(quick)
    gathered.on(lambda: "sync")
    gathered.on(lambda: None)
    gathered.on(lambda: "never", when=lambda who: who == "eve")
    assert run(loop, gathered, "ann") == ["slow ann", "quick", "sync"]
    assert sorted(trail[:2]) == ["quick begins", "slow begins"] and trail[2:] == ["quick ends", "slow ends"]
    assert run(loop, gathered_all, "ann") == []


@pytest.mark.usefixtures("_nobody")
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_first_failure_cancels_the_others_and_a_group_lets_them_end(loop: str) -> None:
    trail: list[str] = []
    error, other = ValueError("one"), KeyError("two")

    async def slow() -> str:
        try:
            await pause[loop](0.02)
        except BaseException:
            trail.append("cancelled")
            raise
        trail.append("done")
        raise other

    async def bad() -> None:
        await pause[loop](0)
        raise error

    for one in (gathered, gathered_all):
        one.on(slow)
        one.on(bad)
    with pytest.raises(ExceptionGroup) as caught:
        run(loop, gathered, "ann")
    assert caught.value.exceptions == (error,) and trail == ["cancelled"]
    with pytest.raises(ExceptionGroup, match="2 subscribers failed") as both:
        run(loop, gathered_all, "ann")
    assert both.value.exceptions == (other, error) and trail == ["cancelled", "done"]


@pytest.mark.usefixtures("_nobody")
def test_cancelling_a_gathering_cancels_its_subscribers() -> None:
    trail: list[str] = []

    @gathered.on
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            trail.append("cancelled")
            raise

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await gathered("ann")

    asyncio.run(main())
    assert trail == ["cancelled"]


@pytest.mark.usefixtures("_nobody")
def test_gathered_subscribers_see_the_context_and_what_around_hooks_pass_on() -> None:
    who_calls: ContextVar[str] = ContextVar("who_calls")
    gathered.on(lambda who: (who, who_calls.get()))

    @gathered.around
    async def louder(proceed: Callable[..., Any], who: str) -> Any:
        return await proceed(who=who.upper())

    async def main() -> list[Any]:
        who_calls.set("main")
        return list(await gathered("ann"))

    assert asyncio.run(main()) == [("ANN", "main")]


@pytest.mark.usefixtures("_nobody")
def test_isolated_subscribers_are_gathered_too(caplog: pytest.LogCaptureFixture) -> None:
    @event(gather=True, errors="isolate")
    async def changed() -> None: ...

    async def bad() -> None:
        raise ValueError("one")

    changed.on(bad)
    changed.on(lambda: "good")
    assert asyncio.run(changed()) == ["good"] and "ValueError: one" in caplog.text


# History


def test_a_late_subscriber_is_told_of_the_past() -> None:
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
    later: list[str] = []
    said.on(lambda word: later.append(word))
    assert later == [] and len(said.history) == 0


def test_the_history_is_as_long_as_it_is_said_to_be() -> None:
    @event(replay=2)
    def said(word: str) -> None: ...

    for word in "abcde":
        said(word)
    heard: list[str] = []
    said.on(lambda word: heard.append(word))
    assert heard == ["d", "e"]


def test_the_history_has_what_subscribers_would_have_seen() -> None:
    @event(replay=True)
    def said(word: str) -> None: ...

    said.pre(lambda word: Args(word=word.upper()))
    said.pre(lambda word: Return([]) if word == "SECRET" else None)
    said("a")
    said("secret")
    said.on(lambda: None)
    said("b")
    heard: list[str] = []
    said.on(lambda word: heard.append(word))
    assert heard == ["A", "B"]


def test_conditions_hold_for_the_past_too() -> None:
    @event(replay=True)
    def said(n: int) -> None: ...

    for n in range(6):
        said(n)
    heard: list[int] = []
    said.on(lambda n: heard.append(n), when=lambda n: n % 2, times=2)
    assert heard == [1, 3] and not hooks(said)
    said(7)
    assert heard == [1, 3]


def test_a_subscriber_that_fails_on_the_past_is_not_taken() -> None:
    @event(replay=True)
    def said(n: int) -> None: ...

    @event(replay=True, errors="group")
    def told(n: int) -> None: ...

    @event(replay=True, errors="isolate")
    def shown(n: int) -> None: ...

    heard: list[int] = []

    def fail(n: int) -> None:
        heard.append(n)
        raise ValueError(n)

    for one in (said, told, shown):
        one(1)
        one(2)
    with pytest.raises(ValueError, match="1"):
        said.on(fail)
    assert heard == [1] and not hooks(said)
    with pytest.raises(ExceptionGroup, match="told: 2 subscribers failed"):
        told.on(fail)
    assert not hooks(told)
    logging.getLogger("aspecthook").disabled = True
    try:
        shown.on(fail)
    finally:
        logging.getLogger("aspecthook").disabled = False
    assert len(hooks(shown)) == 1 and hooks(shown)["fail"].failures == 2


def test_no_call_is_lost_or_told_twice_while_others_call() -> None:
    @event(replay=True)
    def said(n: int) -> None: ...

    rows: list[list[int]] = []

    def speak() -> None:
        for n in range(200):
            said(n)

    def listen() -> None:
        for _ in range(10):
            row: list[int] = []
            rows.append(row)
            said.on(lambda n, row=row: row.append(n))

    at_once(speak, listen, listen)
    assert len(rows) == 20
    for row in rows:
        assert sorted(row) == list(range(200))


def test_a_history_keeps_no_event_alive() -> None:
    def make() -> weakref.ref[Any]:
        @event(replay=True)
        def said(other: object) -> None: ...

        said.on(lambda other: said)
        said(said)
        return weakref.ref(said)

    ref = make()
    gc.collect()
    assert ref() is None


def test_an_event_that_dies_takes_its_subscribers_with_it() -> None:
    def make() -> list[weakref.ref[Any]]:
        @event
        def said() -> None: ...

        def hear() -> object:
            return said

        said.on(hear)
        said()
        return [weakref.ref(said), weakref.ref(hear)]

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


# By law: against a list and a loop


@given(st.lists(st.tuples(st.integers(0, 100), st.one_of(st.none(), st.integers(0, 3))), max_size=30), st.data())
def test_an_event_is_a_sorted_list_and_a_loop(rows: list[tuple[int, int | None]], data: st.DataObject) -> None:
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


def test_threads_see_their_own_gather() -> None:
    done: list[Any] = []
    gathered_all.on(lambda who: who)
    try:
        at_once(*[lambda n=n: done.append(asyncio.run(gathered_all(str(n)))) for n in range(4)])
    finally:
        hooks(gathered_all).clear()
    assert sorted(done) == [["0"], ["1"], ["2"], ["3"]]
