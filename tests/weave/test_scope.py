"""Hooks of ``scope="context"`` act in one context while its block lasts; woven async generators stay in their task."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aspecthook import WeaveError, weave
from tests.threads import at_once

log: list[object] = []
var: contextvars.ContextVar[object] = contextvars.ContextVar("var", default="unset")


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    log.clear()
    yield
    log.clear()


# What is woven


def double(n: int) -> int:
    return 2 * n


async def later(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


def count(n: int) -> Iterator[int]:
    yield from range(n)


async def acount(n: int) -> AsyncIterator[int]:
    for number in range(n):
        await asyncio.sleep(0)
        yield number


class Base:
    def plain(self, n: int = 1) -> int:
        return n

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__

    @staticmethod
    def static(n: int = 1) -> int:
        return n


class Child(Base):
    pass


one = Base()


class Subject(NamedTuple):
    """Something to weave, and how it is called."""

    target: Any
    call: Callable[[], Awaitable[object]]


async def _double() -> object:
    return double(3)


async def _later() -> object:
    return await later(3)


async def _count() -> object:
    return list(count(3))


async def _acount() -> object:
    return [number async for number in acount(3)]


async def _crc() -> object:
    return zlib.crc32(b"tea")


async def _one() -> object:
    return one.plain(3)


async def _child() -> object:
    return Child().plain(3)


async def _child_class() -> object:
    return Child.of_class()


async def _child_static() -> object:
    return Child.static(3)


SUBJECTS = {
    "function": Subject(double, _double),
    "coroutine": Subject(later, _later),
    "generator": Subject(count, _count),
    "async generator": Subject(acount, _acount),
    "C function": Subject("zlib:crc32", _crc),
    "method of one instance": Subject(one.plain, _one),
    "inherited method": Subject(f"{__name__}:Child.plain", _child),
    "inherited class method": Subject(f"{__name__}:Child.of_class", _child_class),
    "inherited static method": Subject(f"{__name__}:Child.static", _child_static),
}
subjects = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS.keys())


def traces() -> list[object]:
    """Return what a weaving might leave behind: compare with `==` only what is kept alive by the first look."""
    functions: list[Any] = [
        double,
        later,
        count,
        acount,
        source,
        Base.plain,
        Base.of_class.__func__,
        Base.static,
    ]
    found: list[object] = []
    for function in functions:
        found += [id(function.__code__), id(function.__dict__), dict(function.__dict__)]
    found += [dict(vars(Base)), dict(vars(Child)), dict(vars(one)), id(zlib.crc32), type(zlib.crc32)]
    return found


@pytest.fixture(autouse=True)
def _no_trace(_clean: None) -> Iterator[None]:
    before = traces()
    yield
    assert traces() == before


# Never another's


def test_a_context_weaving_without_its_block_waits_and_check_says_to_use_with() -> None:
    # It said "woven", and did nothing.
    weaving = weave(double, pre=lambda: log.append("pre"), scope="context")
    try:
        assert (weaving.state, len(weaving.mounts)) == ("waiting", 1)
        assert "waiting" in repr(weaving)
        with pytest.raises(WeaveError, match=r"act nowhere yet.*write `with weave\(\.\.\., scope='context'\):`"):
            weaving.check()
        with weaving:
            assert weaving.state == "woven"
            weaving.check()
            with weaving:
                assert weaving.state == "woven"
            assert weaving.state == "woven"
        assert weaving.state == "removed"
        weaving.check()
    finally:
        weaving.remove()


@subjects
def test_every_kind_is_kept_to_its_context(subject: Subject) -> None:
    def idle() -> Iterator[None]:  # a generator with one yield serves targets of every style
        log.append("around")
        yield

    async def main() -> None:
        with weave(
            subject.target,
            pre=lambda: log.append("pre"),
            around=idle,
            post=lambda: log.append("post"),
            always=lambda: log.append("always"),
            scope="context",
        ):
            inner = await subject.call()
            seen = log[:]
            outer = await asyncio.create_task(subject.call(), context=contextvars.Context())  # type: ignore[arg-type]
            assert inner == outer
            assert seen == ["pre", "around", "post", "always"]
            assert log == seen

    asyncio.run(main())


# Any order of blocks, in contexts that are copied from each other


BLOCKS = {
    "enter": st.tuples(st.integers(0, 2), st.integers(0, 2)),  # the context, the weaving
    "leave": st.tuples(st.integers(0, 2), st.integers(0, 2)),
    "fail": st.tuples(st.integers(0, 2), st.integers(0, 2)),  # leave by an exception
    "copy": st.tuples(st.integers(0, 2), st.integers(0, 2)),  # one context becomes a copy of another
    "pause": st.tuples(st.booleans(), st.integers(0, 2)),
}
STEPS = st.sampled_from(["enter", "enter", *BLOCKS]).flatmap(lambda step: st.tuples(st.just(step), BLOCKS[step]))


@given(st.lists(STEPS, max_size=12))
@example([("enter", (0, 1)), ("enter", (1, 1)), ("fail", (0, 1)), ("enter", (1, 2)), ("leave", (1, 1))])
def test_a_hook_acts_where_a_block_of_its_weaving_is_open(steps: list[tuple[str, tuple[int, int]]]) -> None:
    notes = [lambda number=number: log.append(number) for number in range(3)]
    targets = [Base.plain, f"{__name__}:Child.plain", f"{__name__}:Child.plain"]
    weavings = [weave(target, pre=note, scope="context") for target, note in zip(targets, notes, strict=True)]
    contexts = [contextvars.Context() for _ in range(3)]
    # The blocks of each weaving that are open, and those that each context is inside of, the latest last.
    opened: list[list[object]] = [[], [], []]
    inside: list[list[object]] = [[], [], []]
    paused, over = set[int](), set[int]()
    for step, (first, second) in steps:
        if step == "copy":
            contexts[first], inside[first] = contexts[second].copy(), inside[second][:]
        elif step == "pause":
            weavings[second].pause() if first else weavings[second].resume()
            (paused.add if first else paused.discard)(second)
        elif step == "enter" and second in over:
            with pytest.raises(WeaveError, match="has been removed"):
                contexts[first].run(weavings[second].__enter__)
        elif step == "enter":
            contexts[first].run(weavings[second].__enter__)
            block = object()
            opened[second].append(block)
            inside[first].append(block)
        elif opened[second]:
            error = KeyError() if step == "fail" else None
            contexts[first].run(weavings[second].__exit__, error and KeyError, error, None)
            # The latest that the context is inside of ends, or else the latest anywhere.
            block = ([one for one in inside[first] if one in opened[second]] or opened[second])[-1]
            opened[second].remove(block)
            inside[first] = [one for one in inside[first] if one is not block]
            if not opened[second]:
                over.add(second)
        states = ["removed" if number in over else "woven" if opened[number] else "waiting" for number in range(3)]
        assert [weaving.state for weaving in weavings] == states
        for context, blocks in zip(contexts, inside, strict=True):
            acting = [number for number in range(3) if number not in paused and {*blocks} & {*opened[number]}]
            for cls, meant in ((Base, acting[: acting[:1] == [0]]), (Child, acting)):
                log.clear()
                assert context.run(cls().plain) == 1
                assert log == meant
    for weaving in weavings:
        weaving.remove()


# Threads may inherit the context from 3.14 on, and do without the GIL; who has copied it cannot be told there.
COPIED = [] if getattr(sys.flags, "thread_inherit_context", False) else ["pre"]


def test_threads_do_not_inherit_the_block_unless_they_run_in_a_copy_of_the_context() -> None:
    with weave(double, pre=lambda: log.append("pre"), scope="context"):
        at_once(lambda: double(1))
        assert log == []
        context = contextvars.copy_context()
        at_once(lambda: context.run(double, 1))
        assert log == COPIED


# The end of the block


def test_a_call_that_began_inside_a_block_ends_well_outside_it() -> None:
    with weave(count, pre=lambda: log.append("pre"), always=lambda: log.append("always"), scope="context") as weaving:
        stream = count(3)
        assert next(stream) == 0
    assert weaving.state == "removed"
    assert list(stream) == [1, 2]
    assert log[0] == "pre"
    assert log.count("pre") == 1


def test_a_call_of_another_thread_that_began_inside_a_block_ends_with_all_its_hooks() -> None:
    begun, goes_on = Event(), Event()

    def work() -> None:
        begun.set()
        goes_on.wait(10)

    with weave(work, pre=lambda: log.append("pre"), post=lambda: log.append("post"), scope="context"):
        thread = Thread(target=contextvars.copy_context().run, args=(work,))
        thread.start()
        begun.wait(10)
    goes_on.set()
    thread.join()
    assert log == (["pre", "post"] if COPIED else [])


# Async generators keep their task and context: whatever is done with them, the log is that of the unwoven one


def where() -> str:
    task = asyncio.current_task()
    return task.get_name() if task is not None else "no task"


async def source(n: int = 3) -> AsyncGenerator[object, object]:
    """Note the task, and what a context variable is; set it between the yields."""
    log.append(("begun in", where(), var.get()))
    try:
        for number in range(n):
            var.set(f"generator {number}")
            await asyncio.sleep(0)
            try:
                got = yield number
                log.append(("got", got, where(), var.get()))
            except LookupError as error:
                log.append(("thrown", type(error).__name__, where(), var.get()))
                yield "caught"
    except BaseException as error:
        log.append(("left by", type(error).__name__, where(), var.get()))
        raise
    finally:
        log.append(("ended in", where(), var.get()))
        var.set("ended")
        await asyncio.sleep(0)
        log.append(("ended for good in", where(), var.get()))


def yielding() -> Iterator[None]:
    yield


async def async_yielding() -> AsyncIterator[None]:
    yield


IDLE: dict[str, dict[str, Any]] = {
    "item": {"item": lambda item: None},
    "always": {"always": lambda call: None},
    "proceed": {"around": lambda proceed: proceed()},
    "not reentrant": {"around": lambda proceed: proceed(), "reentrant": False},
    "all": {
        "pre": lambda: None,
        "around": [lambda proceed: proceed(), yielding, async_yielding],
        "item": lambda item: None,
        "post": lambda: None,
        "exception": lambda exc: None,
        "always": lambda: None,
    },
}


async def _steps() -> None:
    stream = source()
    var.set("consumer")
    for step in (stream.__anext__, lambda: stream.asend("sent"), lambda: stream.athrow(KeyError()), stream.__anext__):
        log.append(("item", await step(), var.get()))
        var.set(f"consumer after {var.get()}")
    await stream.aclose()
    log.append(("after", var.get()))


async def _dropped() -> None:
    stream = source()
    log.append(await stream.__anext__())
    del stream
    gc.collect()
    for _ in range(8):
        await asyncio.sleep(0)
    log[:] = [
        (*one[:1], *one[2:]) if isinstance(one, tuple) and str(one[1]).startswith("Task-") else one for one in log
    ]


unwoven: dict[object, list[object]] = {}  # what a script notes where nothing is woven; the same each time


SCRIPTS = [_steps, _dropped]


def without_numbers(entries: list[object]) -> list[object]:
    """Name the tasks that asyncio itself numbers alike."""

    def plain(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        return "Task" if isinstance(value, str) and value.startswith("Task-") else value

    return [plain(entry) for entry in entries]


def ran(script: Callable[[], Awaitable[None]]) -> list[object]:
    """Run a script in a loop of its own, and give what it has noted."""
    log.clear()
    contextvars.copy_context().run(asyncio.run, script())  # type: ignore[arg-type]
    return without_numbers(log)


@contextmanager
def woven(kinds: dict[str, Any], scope: Any) -> Iterator[None]:
    with weave(source, scope=scope, **kinds):
        yield


@pytest.mark.parametrize("scope", ["everywhere", "context"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.__name__.strip("_"))
@pytest.mark.parametrize("hook", IDLE)
def test_a_woven_async_generator_does_what_the_unwoven_does(
    hook: str, script: Callable[[], Awaitable[None]], scope: str
) -> None:
    if script not in unwoven:
        unwoven[script] = ran(script)
    with woven(IDLE[hook], scope):
        hooked = ran(script)
    assert hooked == unwoven[script]
    assert len(hooked) >= 1
