"""No hook keeps its target alive, no target that is gone keeps its hooks; what comes and goes leaves nothing."""

from __future__ import annotations

import asyncio
import gc
import itertools
import linecache
import subprocess
import sys
import types
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from aspecthook import Args, Hook, Return, hookable, hooks
from aspecthook._core.compile import link, show
from tests.garbage import no_collector


class Big:
    """Something that is looked after: it must be gone when nobody needs it any more."""


def make(*, lasting: bool) -> types.FunctionType:
    """Make a function that seems to live as long as its module, or one that does not (strong and weak mode)."""
    return hookable(eval("lambda x=1: x")) if lasting else hookable(lambda x=1: x)


FEW = 0.3


def growth(step: Callable[[], object], times: int) -> float:
    """Say how many blocks of memory each step leaves, after some to warm up.

    Not by `tracemalloc`, which keeps the file name of every frame that it has seen: each code of ours has one of its
    own.
    """
    repeat(step, 300)
    if sys.gettrace() is not None:
        pytest.skip("coverage.py keeps something for each code object that it has seen")
    grown = 0.0
    for _ in range(8):  # caches, which keep some thousand entries, are full at some time; a leak goes on
        before = sys.getallocatedblocks()
        repeat(step, times)
        grown = (sys.getallocatedblocks() - before) / times
        if grown < FEW:
            break
    return grown


def repeat(step: Callable[[], object], times: int) -> None:
    """Do something often, and collect what it leaves; where code lives until it is collected, in between too."""
    for number in range(times):
        step()
        if show.FREE_THREADED and number % 100 == 99:
            gc.collect()
    for _ in range(3):  # without the GIL, what a collection has freed is counted until a later one
        gc.collect()
    show._sweep()  # as the next change does


@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("called", [True, False])
def test_hooks_over_ever_new_code_of_others_leave_nothing(lasting: bool, called: bool) -> None:
    function = make(lasting=lasting)

    def step() -> None:
        function.__code__ = function.__code__.replace(co_filename="reloaded")
        with hooks(function).add("pre", lambda x: None):
            if called:
                function(2)

    assert growth(step, 300) < FEW


@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("called", [True, False])
def test_ten_thousand_hooks_that_come_and_go_leave_nothing(lasting: bool, called: bool) -> None:
    function = make(lasting=lasting)
    hooks(function).add("post", lambda: None)  # one that stays

    def step() -> None:
        hook = hooks(function).add("pre", lambda x: None)
        if called:
            function(2)
        hook.remove()

    shown, lines = len(show._shown or ()), len(linecache.cache)
    assert growth(step, 10_000) < 0.01
    assert len(show._shown or ()) < shown + 20
    assert len(linecache.cache) < lines + 20


def test_a_thousand_closures_that_die_hooked_leave_nothing() -> None:
    def step() -> None:
        function = make(lasting=False)
        function.pre(lambda x: Args(x=function))  # a cycle through the function
        function.around(lambda proceed: proceed())
        function(2)

    shown, lines = len(show._shown or ()), len(linecache.cache)
    assert growth(step, 1000) < FEW
    assert len(show._shown or ()) <= shown
    assert len(linecache.cache) <= lines


def test_a_thousand_instances_that_die_hooked_leave_nothing() -> None:
    class Room:
        @hookable
        def enter(self) -> None: ...

    Room.enter.pre(lambda: None)

    def step() -> None:
        room = Room()
        hooks(room.enter).post(lambda: None)
        room.enter()

    assert growth(step, 1000) < FEW


def test_as_many_templates_are_kept_as_are_allowed_and_equal_roles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # A thousand weighed 13 MB, in a server whose handlers had other hooks again and again.
    templates: dict[object, link.Template] = {}
    monkeypatch.setattr(link, "_templates", templates)
    monkeypatch.setattr(link, "_MOST_TEMPLATES", 10)
    for count in range(1, 16):
        function = hookable(lambda a, b: None)
        for _ in range(count):
            function.pre(lambda: None)
        function(1, 2)
    assert len(templates) == 10
    roles = [role for template in templates.values() for role in template.text.pins.values()]
    assert len({id(role) for role in roles}) == len({*roles}) < len(roles)


@pytest.mark.parametrize("lasting", [True, False])
def test_the_code_of_chains_that_are_gone_is_gone_although_the_function_stays(lasting: bool) -> None:
    # A function that may die kept the code of every shape that its chain had ever had.
    gc.collect()
    function, lines = make(lasting=lasting), len(linecache.cache)
    for _ in range(200):
        function.pre(lambda: None)
        function()
    hooks(function).clear()
    gc.collect()
    assert len(linecache.cache) < lines + 50


# Who keeps whom

OPTIONS: list[dict[str, Any]] = [
    {},
    {"once": True},
    {"times": 2},
    {"every": 2},
    {"reentrant": False},
    {"isolate": True},
]


@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("called", [True, False])
@pytest.mark.parametrize("options", [*OPTIONS, {"when": lambda: True}], ids=lambda options: "".join(options))
@pytest.mark.parametrize("kind", ["pre", "post", "exception", "always", "around"])
def test_a_removed_hook_is_freed_at_once(kind: str, options: dict[str, Any], called: bool, lasting: bool) -> None:
    # One with a count was kept by the cycle of the hook and its guard.
    if kind == "around" and options == {"isolate": True}:
        pytest.skip("around hooks cannot be isolated")
    function = make(lasting=lasting)
    with no_collector():
        hook = (lambda proceed: proceed()) if kind == "around" else (lambda: None)
        gone = weakref.ref(hook)
        handle = hooks(function).add(kind, hook, **options)
        if called:
            function()
            function()
        handle.remove()
        del hook, handle
        assert gone() is None


@pytest.mark.parametrize("called", [True, False])
@pytest.mark.parametrize("kind", ["pre", "post", "exception", "always", "around"])
def test_a_closure_that_dies_hooked_is_collected_and_its_hooks_with_it(kind: str, called: bool) -> None:
    def function(x: Any) -> Any:
        return function and x  # a cycle of its own

    def hook(x: Any, proceed: Any = None) -> None:
        return function and None

    hookable(function)
    if kind == "around":
        function.around(lambda proceed: function and proceed())
    hooks(function).add("post" if kind == "around" else kind, hook)
    if called:
        function(1)
    gone = [weakref.ref(function), weakref.ref(hook), weakref.ref(hooks(function))]
    del function, hook
    gc.collect()
    assert [one() for one in gone] == [None] * 3


def test_a_handle_that_is_kept_keeps_nothing_of_its_function_alive() -> None:
    def made() -> tuple[Hook, weakref.ref[Big]]:
        thing = Big()

        @hookable
        def function() -> Big:
            return thing

        hook = hooks(function).add("pre", lambda: None)
        function()
        return hook, weakref.ref(thing)

    hook, seen = made()
    gc.collect()
    assert seen() is None
    hook.remove()


def test_a_function_that_never_had_hooks_needs_no_collector() -> None:
    with no_collector():
        function = make(lasting=False)
        gone = weakref.ref(function)
        del function
        assert gone() is None


def test_running_calls_outlive_their_function() -> None:
    def started() -> tuple[Iterator[int], Any]:
        @hookable
        def stream(x: int) -> Iterator[int]:
            yield x

        @hookable
        async def later(x: int) -> int:
            return x

        for function in (stream, later):
            function.pre(lambda x: Args(x=x + 1))
        list(stream(1))
        return stream(1), later(1)

    stream, later = started()
    gc.collect()
    assert list(stream) == [2]
    assert asyncio.run(later) == 2


# Calls that are over


def fail(x: object) -> None:
    raise LookupError


async def fail_later(x: object) -> None:
    raise LookupError


def fail_stream(x: object) -> Iterator[object]:
    yield x
    raise LookupError


async def fail_async_stream(x: object) -> AsyncIterator[object]:
    yield x
    raise LookupError


def raising(exc: BaseException | None = None) -> None:
    raise OSError


def yielding() -> Iterator[None]:
    yield


def keeping(call: Any) -> None:
    call.state["mine"] = call.arguments


async def passed_on_later(proceed: Callable[[], Any]) -> Any:
    return await proceed()


HOOKS: dict[str, tuple[str, Callable[..., Any]]] = {
    "pre": ("pre", keeping),
    "pre raises": ("pre", raising),
    "around": ("around", lambda proceed: proceed()),
    "around yields": ("around", yielding),
    "exception": ("exception", lambda exc: None),
    "exception raises": ("exception", raising),
    "exception handles": ("exception", lambda exc, x: Return(None)),
    "exception with call": ("exception", keeping),
    "post": ("post", lambda result: None),
    "always": ("always", lambda exc: None),
    "always with call": ("always", keeping),
    "always raises": ("always", raising),
}
TARGETS = {"function": fail, "coroutine": fail_later, "generator": fail_stream, "async generator": fail_async_stream}


def run(style: str, function: Callable[..., Any], big: Big) -> None:
    """Run a call to its end, and let what it raises go."""
    try:
        made = function(big)
        if style == "coroutine":
            made.send(None)
        elif style == "generator":
            list(made)
        elif style == "async generator":
            while True:
                try:
                    made.__anext__().send(None)
                except StopIteration:
                    pass
    except (LookupError, OSError, StopIteration, StopAsyncIteration):
        pass


@pytest.mark.parametrize("style", TARGETS)
def test_an_exception_that_went_through_a_call_keeps_no_argument_alive(style: str) -> None:
    # `recover` and `fail` raised from frames that held the exception; frames of layers held the call that held it.
    kept: list[tuple[str, ...]] = []
    rows = [row for length in (1, 2, 3) for row in itertools.combinations_with_replacement(HOOKS, length)]
    with no_collector():
        for row in rows:
            if any(set(shorter) <= set(row) for shorter in kept):
                continue
            target = TARGETS[style]
            function = hookable(types.FunctionType(target.__code__, globals()))
            for name in row:
                kind, hook = HOOKS[name]
                later = name == "around" and style == "coroutine"
                hooks(function).add(kind, passed_on_later if later else hook, again=True)
            for _ in range(2):
                big = Big()
                gone = weakref.ref(big)
                run(style, function, big)
                del big
            if gone() is not None:
                kept.append(row)
    assert kept == []


async def give_later(x: object) -> AsyncIterator[object]:
    yield x


def give(x: object) -> Iterator[object]:
    yield x


@pytest.mark.parametrize("name", ["pre", "around", "around yields", "exception", "post", "always with call", "item"])
@pytest.mark.parametrize("target", [give, give_later])
def test_an_exception_thrown_into_a_generator_keeps_no_argument_alive(target: Any, name: str) -> None:
    # The step of an async generator that it was thrown with stayed in the frame that it then went through.
    function = hookable(types.FunctionType(target.__code__, globals()))
    hooks(function).add(*(HOOKS[name] if name != "item" else ("item", lambda item: None)))

    def throw(big: Big) -> None:
        stream = function(big)
        with pytest.raises(LookupError), suppress(StopIteration):
            if target is give:
                next(stream)
                stream.throw(LookupError())
            with suppress(StopIteration):
                anext(stream).send(None)
            stream.athrow(LookupError()).send(None)

    with no_collector():
        for _ in range(2):
            big = Big()
            gone = weakref.ref(big)
            throw(big)
            del big
            assert gone() is None


@pytest.mark.parametrize("kind", ["item", "post", "always", "around", "exception"])
def test_a_generator_abandoned_halfway_ends_and_lets_its_arguments_go(kind: str) -> None:
    log: list[str] = []

    @hookable
    def stream(x: object) -> Iterator[object]:
        try:
            yield 1
        finally:
            log.append("closed")

    stream.always(lambda exc: log.append(type(exc).__name__))
    hooks(stream).add(kind, HOOKS["around"][1] if kind == "around" else (lambda x: None))
    with no_collector():
        for _ in range(2):
            big = Big()
            gone = weakref.ref(big)
            running = stream(big)
            next(running)
            del running, big
            assert gone() is None
    assert log == ["closed", "GeneratorExit"] * 2


def test_a_finalizer_may_link_a_chain_in_the_middle_of_linking_one() -> None:
    # Broke: before 3.12 the compiler cannot make a syntax tree in the middle of making one.
    program = """
import gc
from aspecthook import hookable

def shape(name):
    f = hookable(eval(f"lambda {name}: {name}"))
    f.pre(eval(f"lambda *, {name}: None"))
    return f

busy, made = [], []

def collecting(phase, info):
    if phase == "start" and not busy:
        busy.append(1)
        f = shape(f"inner_{len(made)}")
        f(1)
        made.append(f)
        busy.clear()

gc.callbacks.append(collecting)
gc.set_threshold(50)
for number in range(300):
    g = shape(f"outer_{number}")
    g.post(lambda: None)
    assert g(number) == number
assert made and gc.isenabled()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
