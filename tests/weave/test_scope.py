"""Hooks of ``scope="context"`` act in one context while its block lasts; woven async generators stay in their task."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import pytest

from aspecthook import Args, Return, WeaveError, hooks, weave
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
        stuck,
        guarded,
        inner_session,
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


@subjects
def test_two_tasks_with_different_hooks_never_see_each_others(subject: Subject) -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}

    async def work(name: str, both: asyncio.Barrier) -> None:
        def note() -> None:
            task = asyncio.current_task()
            assert task is not None
            seen[name].append(task.get_name())

        with weave(subject.target, pre=note, scope="context"):
            for _ in range(3):
                await both.wait()
                await subject.call()

    async def main() -> object:
        both = asyncio.Barrier(2)
        bare = await subject.call()
        tasks = [asyncio.create_task(work(name, both), name=name) for name in seen]
        await asyncio.gather(*tasks)
        assert await subject.call() == bare
        return bare

    asyncio.run(main())
    assert seen == {"a": ["a"] * 3, "b": ["b"] * 3}


@subjects
def test_two_threads_with_different_hooks_never_see_each_others(subject: Subject) -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}
    both = threading.Barrier(2)

    def work(name: str) -> None:
        me = threading.get_ident()
        with weave(
            subject.target,
            pre=lambda: seen[name].append("mine" if threading.get_ident() == me else "other's"),
            scope="context",
        ):
            for _ in range(3):
                both.wait(60)
                asyncio.run(subject.call())  # type: ignore[arg-type]
            both.wait(60)

    at_once(lambda: work("a"), lambda: work("b"))
    assert seen == {"a": ["mine"] * 3, "b": ["mine"] * 3}


@subjects
def test_without_its_block_a_context_hook_acts_nowhere(subject: Subject) -> None:
    weaving = weave(subject.target, pre=lambda: log.append("pre"), scope="context")
    try:
        asyncio.run(subject.call())  # type: ignore[arg-type]
        assert log == []
        with weaving:
            asyncio.run(subject.call())  # type: ignore[arg-type]
        assert log == ["pre"]
        asyncio.run(subject.call())  # type: ignore[arg-type]
        assert log == ["pre"]
    finally:
        weaving.remove()


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


def test_a_context_weaving_that_another_thread_has_entered_is_woven() -> None:
    weaving = weave(double, pre=lambda: log.append("pre"), scope="context")
    thread = threading.Thread(target=weaving.__enter__)
    thread.start()
    thread.join()
    assert weaving.state == "woven"
    weaving.remove()
    assert weaving.state == "removed"


@subjects
def test_tasks_that_run_beside_the_block_are_left_alone(subject: Subject) -> None:
    async def main() -> None:
        inside, done = asyncio.Event(), asyncio.Event()

        async def other() -> None:
            await inside.wait()
            await subject.call()
            done.set()

        beside = asyncio.create_task(other())
        with weave(subject.target, pre=lambda: log.append("pre"), scope="context"):
            inside.set()
            await done.wait()
            assert log == []
            await subject.call()
        await beside

    asyncio.run(main())
    assert log == ["pre"]


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


# Blocks in blocks, and blocks of the same weaving


def test_nested_blocks_act_together_and_end_one_by_one() -> None:
    with weave(double, pre=lambda: log.append("outer"), scope="context"):
        with weave(double, pre=lambda: log.append("inner"), scope="context"):
            double(1)
            assert log == ["outer", "inner"]
        log.clear()
        double(1)
        assert log == ["outer"]
    double(1)
    assert log == ["outer"]


def test_nested_blocks_may_end_in_another_order() -> None:
    first = weave(double, pre=lambda: log.append("first"), scope="context")
    second = weave(double, pre=lambda: log.append("second"), scope="context")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    double(1)
    assert log == ["second"]
    second.__exit__(None, None, None)
    double(1)
    assert log == ["second"]


def test_a_task_that_inherits_a_block_and_enters_it_again_stays_in_the_inherited_one() -> None:
    weaving = weave(double, pre=lambda: log.append("pre"), scope="context")

    async def child() -> None:
        with weaving:
            double(1)
        double(1)

    async def main() -> None:
        with weaving:
            await asyncio.create_task(child())

    asyncio.run(main())
    assert log == ["pre", "pre"]


def test_the_same_hook_in_two_tasks_acts_in_each_while_its_own_block_lasts() -> None:
    def note() -> None:
        task = asyncio.current_task()
        assert task is not None
        log.append(task.get_name())

    async def work(times: int, step: asyncio.Barrier) -> None:
        with weave(double, pre=note, scope="context"):
            for _ in range(times):
                await step.wait()
                double(1)
        for _ in range(4 - times):
            await step.wait()
            double(1)

    async def main() -> None:
        step = asyncio.Barrier(2)
        tasks = [asyncio.create_task(work(times, step), name=f"{times} times") for times in (1, 3)]
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert sorted(map(str, log)) == ["1 times"] + ["3 times"] * 3


def test_one_weaving_entered_by_several_tasks_acts_in_each_until_its_own_block_ends() -> None:
    def note() -> None:
        task = asyncio.current_task()
        assert task is not None
        log.append(task.get_name())

    weaving = weave(double, pre=note, scope="context")

    async def work(times: int, step: asyncio.Barrier) -> None:
        with weaving:
            await step.wait()
            for _ in range(times):
                await step.wait()
                double(1)
        for _ in range(4 - times):
            await step.wait()
            double(1)

    async def main() -> None:
        step = asyncio.Barrier(3)
        tasks = [asyncio.create_task(work(times, step), name=f"{times} times") for times in (1, 2, 3)]
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert sorted(map(str, log)) == ["1 times"] + ["2 times"] * 2 + ["3 times"] * 3
    assert weaving.state == "removed"


def test_a_task_that_outlives_its_block_is_outside_though_the_weaving_is_entered_elsewhere() -> None:
    weaving = weave(double, pre=lambda: log.append("pre"), scope="context")

    async def main() -> None:
        over, called = asyncio.Event(), asyncio.Event()

        async def child() -> None:
            await over.wait()
            double(1)
            called.set()

        async def parent() -> asyncio.Task[None]:
            with weaving:
                return asyncio.create_task(child())

        async def elsewhere() -> None:
            with weaving:
                await called.wait()

        other = asyncio.create_task(elsewhere())
        await asyncio.sleep(0)
        task = await asyncio.create_task(parent())
        over.set()
        await task
        await other

    asyncio.run(main())
    assert log == []


def test_a_context_that_another_context_has_left_is_outside_though_the_weaving_is_entered_elsewhere() -> None:
    # Fixtures of async test runners are entered in one context and left in another.
    weaving = weave(double, pre=lambda: log.append("pre"), scope="context")
    first, second = contextvars.copy_context(), contextvars.copy_context()
    first.run(weaving.__enter__)
    second.run(weaving.__enter__)
    contextvars.copy_context().run(weaving.__exit__, None, None, None)
    contextvars.copy_context().run(weaving.__exit__, None, None, None)
    first.run(double, 1)
    second.run(double, 1)
    assert log == []
    assert weaving.state == "removed"


def test_leaving_in_another_context_than_entering_ends_the_block() -> None:
    weaving = weave(double, pre=lambda: log.append("pre"), scope="context")
    entered = contextvars.copy_context()
    entered.run(weaving.__enter__)
    entered.run(double, 1)
    double(1)
    assert log == ["pre"]
    weaving.__exit__(None, None, None)
    entered.run(double, 1)
    assert log == ["pre"]
    assert weaving.state == "removed"
    assert len(weaving.mounts) == 0 or all(len(mount) == 0 for mount in weaving.mounts)


# What inherits


@subjects
def test_tasks_started_inside_inherit_the_block(subject: Subject) -> None:
    async def main() -> None:
        with weave(subject.target, pre=lambda: log.append("pre"), scope="context"):
            await asyncio.create_task(subject.call())  # type: ignore[arg-type]
            await asyncio.gather(subject.call(), subject.call())
            async with asyncio.TaskGroup() as group:
                group.create_task(subject.call())  # type: ignore[arg-type]

    asyncio.run(main())
    assert log == ["pre"] * 4


def test_a_task_started_inside_that_outlives_the_block_is_left_alone_after_it() -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def child() -> None:
            double(1)
            await over.wait()
            double(1)

        with weave(double, pre=lambda: log.append("pre"), scope="context"):
            task = asyncio.create_task(child())
            await asyncio.sleep(0)
        over.set()
        await task

    asyncio.run(main())
    assert log == ["pre"]


# Threads may inherit the context from 3.14 on, and do without the GIL; who has copied it cannot be told there.
COPIED = [] if getattr(sys.flags, "thread_inherit_context", False) else ["pre"]


def test_threads_do_not_inherit_the_block_unless_they_run_in_a_copy_of_the_context() -> None:
    with weave(double, pre=lambda: log.append("pre"), scope="context"):
        at_once(lambda: double(1))
        assert log == []
        context = contextvars.copy_context()
        at_once(lambda: context.run(double, 1))
        assert log == COPIED


def test_to_thread_inherits_the_block_and_an_executor_does_not() -> None:
    async def main() -> None:
        with weave(double, pre=lambda: log.append("pre"), scope="context"):
            await asyncio.to_thread(double, 1)
            assert log == COPIED
            await asyncio.get_running_loop().run_in_executor(None, double, 1)

    asyncio.run(main())
    assert log == COPIED


def test_a_thread_may_enter_the_block_that_it_was_started_in() -> None:
    def work() -> None:
        with weaving:
            double(1)
        double(1)

    with weave(double, pre=lambda: log.append("pre"), scope="context") as weaving:
        at_once(work)
        assert log == ["pre"]
        double(1)
    double(1)
    assert log == ["pre", "pre"]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="threads inherit no context")
def test_threads_that_inherit_the_context_do_not_inherit_running_calls() -> None:
    program = """
import threading
from aspecthook import events, hookable, hooks, weave
from aspecthook.testing import Tape
def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
def double(n): return 2 * n
log = []
with weave(double, pre=lambda: log.append("context"), scope="context"):
    in_thread(lambda: double(1))
    double(1)
assert log == ["context"], log

log.clear()
@hookable
def target(deep): ...
@target.pre(reentrant=False)
def once_here(deep):
    log.append(deep)
    if not deep:
        target(1)
        in_thread(lambda: target(2))
target(0)
assert log == [0, 2], log

log.clear()
event = events.audit("ahw.told")
@event.on
def told(args):
    log.append(args[0])
    if not args[0]:
        sys.audit("ahw.told", 1)
        in_thread(lambda: sys.audit("ahw.told", 2))
import sys
sys.audit("ahw.told", 0)
assert log == [0, 2], log

def outer(): in_thread(inner)
def inner(): ...
with Tape().record(outer).record(inner) as tape:
    outer()
assert [call.depth for call in tape] == [0, 0]
"""
    done = subprocess.run(
        [sys.executable, "-X", "thread_inherit_context=1", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_callback_scheduled_inside_acts_only_if_it_runs_while_the_block_lasts() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with weave(double, pre=lambda: log.append("pre"), scope="context"):
            loop.call_soon(double, 1)
            await asyncio.sleep(0)
            assert log == ["pre"]
            loop.call_soon(double, 1)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert log == ["pre"]


# With the other conditions


def test_when_is_asked_only_inside_the_block() -> None:
    def asked(n: int) -> bool:
        log.append(("asked", n))
        return n > 1

    weaving = weave(double, pre=lambda: log.append("pre"), when=asked, scope="context")
    double(5)
    assert log == []
    with weaving:
        double(1)
        double(2)
    assert log == [("asked", 1), ("asked", 2), "pre"]


def test_calls_outside_the_block_do_not_count_for_times_and_every() -> None:
    weaving = weave(double, pre=lambda: log.append("pre"), every=2, times=1, scope="context")
    for _ in range(5):
        double(1)
    with weaving:
        double(1)
        assert log == []
        double(1)
        assert log == ["pre"]
        double(1)
        double(1)
    assert log == ["pre"]


def test_a_hook_that_is_not_reentrant_is_entered_by_two_contexts_at_once() -> None:
    async def note() -> None:
        task = asyncio.current_task()
        assert task is not None
        log.append(task.get_name())
        await later(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    weaving = weave(later, pre=note, reentrant=False, scope="context")

    async def work() -> None:
        with weaving:
            await later(1)

    async def main() -> None:
        await asyncio.gather(*[asyncio.create_task(work(), name=name) for name in "ab"])

    asyncio.run(main())
    assert log == ["a", "b"]


def test_priorities_hold_across_contexts_and_scopes() -> None:
    with (
        weave(double, pre=lambda: log.append("everywhere"), priority="NORMAL"),
        weave(double, pre=lambda: log.append("low"), priority="LOW", scope="context"),
    ):
        entered = contextvars.copy_context()
        with weave(double, pre=lambda: log.append("high"), priority="HIGH", scope="context"):
            double(1)
            assert log == ["high", "everywhere", "low"]
            log.clear()
            entered.run(double, 1)
            assert log == ["everywhere", "low"]


def test_answers_reach_only_the_callers_of_the_context() -> None:
    with weave(double, pre=lambda: Args(n=10), post=lambda result: result + 1, scope="context"):
        assert double(1) == 21
        assert contextvars.Context().run(double, 1) == 2
    with weave(double, pre=lambda: Return("skipped"), scope="context"):
        assert double(1) == "skipped"
        assert contextvars.Context().run(double, 1) == 2


def test_an_exception_is_handled_only_in_the_context() -> None:
    with weave(double, exception={TypeError: lambda exc: Return("handled")}, scope="context"):
        assert double(object()) == "handled"  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="unsupported operand"):
            contextvars.Context().run(double, object())  # type: ignore[arg-type]


def test_pause_stops_a_context_hook_and_resume_starts_it() -> None:
    with weave(double, pre=lambda: log.append("pre"), scope="context") as weaving:
        weaving.pause()
        double(1)
        assert log == []
        weaving.resume()
        double(1)
        assert log == ["pre"]
        at_once(lambda: double(1))
        assert log == ["pre"]


def test_a_class_and_a_module_woven_for_a_context_are_left_alone_outside() -> None:
    with weave(Base, pre=lambda: log.append("pre"), scope="context") as weaving:
        assert len(weaving.mounts) == 3
        Base().plain()
        Base.of_class()
        Child.static()
        assert log == ["pre"] * 3
        contextvars.Context().run(Base().plain)
        contextvars.Context().run(Base.of_class)
        assert log == ["pre"] * 3


def test_hooks_on_an_inherited_method_act_for_the_heir_in_the_context_alone() -> None:
    with weave(f"{__name__}:Child.plain", pre=lambda: log.append("pre"), scope="context"):
        Base().plain()
        assert log == []
        Child().plain()
        assert log == ["pre"]
        contextvars.Context().run(Child().plain)
        assert log == ["pre"]


# The end of the block


def test_an_exception_leaves_the_block_as_the_same_object_and_the_hooks_are_off() -> None:
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught, weave(double, pre=lambda: log.append("pre"), scope="context") as weaving:
        double(1)
        raise error
    assert caught.value is error
    double(1)
    assert log == ["pre"]
    assert weaving.state == "removed"


def test_a_cancelled_task_leaves_its_block() -> None:
    code = double.__code__

    async def main() -> None:
        async def work() -> None:
            with weave(double, pre=lambda: log.append("pre"), scope="context"):
                double(1)
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        assert double.__code__ is not code
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert double.__code__ is code

    asyncio.run(main())
    assert log == ["pre"]


@subjects
def test_nothing_remains_after_the_last_of_several_blocks(subject: Subject) -> None:
    before = traces()
    weavings = [weave(subject.target, pre=lambda: None, post=lambda: None, scope="context") for _ in range(3)]
    for weaving in weavings:
        weaving.__enter__()
    for weaving in (weavings[1], weavings[2], weavings[0]):
        assert traces() != before
        weaving.__exit__(None, None, None)
    assert traces() == before
    assert all(weaving.state == "removed" for weaving in weavings)


def test_a_call_that_began_inside_a_block_ends_well_outside_it() -> None:
    with weave(count, pre=lambda: log.append("pre"), always=lambda: log.append("always"), scope="context") as weaving:
        stream = count(3)
        assert next(stream) == 0
    assert weaving.state == "removed"
    assert list(stream) == [1, 2]
    assert log[0] == "pre"
    assert log.count("pre") == 1


def test_a_coroutine_that_began_inside_a_block_keeps_its_hooks_to_its_end() -> None:
    # Law 2: the call sees the chain as it was when the call began. What a pre hook opens, its always hook closes.
    async def main() -> None:
        with weave(
            later,
            pre=lambda: log.append("pre"),
            post=lambda: log.append("post"),
            always=lambda: log.append("always"),
            scope="context",
        ):
            task = asyncio.create_task(later(1))
            await asyncio.sleep(0)
            assert log == ["pre"]
        await task

    asyncio.run(main())
    assert log == ["pre", "post", "always"]


def test_a_generator_that_began_inside_a_block_loses_its_hooks_where_the_context_leaves_it() -> None:
    # The block decides, not the call: what goes on outside of it is none of its business.
    with weave(count, pre=lambda: log.append("pre"), always=lambda: log.append("always"), scope="context"):
        stream = count(3)
        assert next(stream) == 0
    assert list(stream) == [1, 2]
    assert log == ["pre"]


def test_a_hook_that_is_removed_everywhere_runs_to_the_end_of_the_calls_under_way() -> None:
    weaving = weave(count, pre=lambda: log.append("pre"), always=lambda: log.append("always"))
    stream = count(3)
    next(stream)
    weaving.remove()
    assert list(stream) == [1, 2]
    assert log == ["pre", "always"]


def test_a_generator_made_inside_and_begun_outside_is_not_hooked() -> None:
    # A generator's call begins at its first `next`.
    with weave(count, pre=lambda: log.append("pre"), item=lambda item: -item, scope="context"):
        stream = count(3)
    assert list(stream) == [0, 1, 2]
    assert log == []


def test_a_generator_made_outside_and_begun_inside_is_hooked() -> None:
    weaving = weave(count, pre=lambda: log.append("pre"), scope="context")
    stream = count(3)
    with weaving:
        assert list(stream) == [0, 1, 2]
    assert log == ["pre"]


def test_a_generator_passed_to_another_context_is_hooked_as_the_context_that_runs_it() -> None:
    with weave(count, item=lambda item: 10 * item, scope="context"):
        stream = count(3)
        assert next(stream) == 0
        assert next(stream) == 10
        stream.close()  # type: ignore[attr-defined]
        free = count(3)
        assert contextvars.Context().run(list, free) == [0, 1, 2]


def test_a_block_that_is_left_by_a_hook_of_its_own_ends_well() -> None:
    weaving = weave(double, pre=lambda: weaving.__exit__(None, None, None), scope="context")
    weaving.__enter__()
    assert double(1) == 2
    assert double(1) == 2
    assert weaving.state == "removed"


def test_an_unknown_scope_is_refused_and_nothing_is_woven() -> None:
    with pytest.raises(Exception, match="scope='task'"):
        weave(double, pre=lambda: None, scope="task")  # type: ignore[arg-type]


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


async def stuck() -> AsyncGenerator[object, None]:
    """Yield once, then wait for good."""
    try:
        yield "first"
        await asyncio.Event().wait()
    except BaseException as error:
        log.append(("left by", type(error).__name__, where()))
        raise
    finally:
        log.append(("ended in", where()))


async def guarded() -> AsyncGenerator[object, None]:
    """Use a timeout and a task group between yields."""
    for _ in range(2):
        try:
            async with asyncio.timeout(0):
                log.append(("waits in", where()))
                await asyncio.Event().wait()
        except TimeoutError:
            yield "timed out"
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_failing())
                group.create_task(asyncio.Event().wait())
        except* KeyError as errors:
            log.append(("group", [str(error) for error in errors.exceptions], where()))
            yield "failed"


async def _failing() -> None:
    await asyncio.sleep(0)
    raise KeyError("child")


@asynccontextmanager
async def session(name: str) -> AsyncIterator[str]:
    """Set a variable for the block, and note how the block is left."""
    token = var.set(name)
    log.append(("opened", name, where()))
    try:
        yield name
    except KeyError as error:
        log.append(("swallowed", str(error), where()))
    finally:
        var.reset(token)
        log.append(("closed", name, where(), var.get()))


inner_session: Any = session.__wrapped__  # type: ignore[attr-defined]


def yielding() -> Iterator[None]:
    yield


async def async_yielding() -> AsyncIterator[None]:
    yield


async def looping(proceed: Callable[[], AsyncGenerator[object, object]]) -> AsyncIterator[object]:
    async for item in proceed():
        yield item


async def async_idle() -> None:
    await asyncio.sleep(0)


IDLE: dict[str, dict[str, Any]] = {
    "pre": {"pre": lambda: None},
    "item": {"item": lambda item: None},
    "exception": {"exception": {BaseException: lambda exc: None}},
    "post": {"post": lambda: None},
    "always": {"always": lambda exc: None},
    "call": {"always": lambda call: None},
    "proceed": {"around": lambda proceed: proceed()},
    "yield": {"around": yielding},
    "async yield": {"around": async_yielding},
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
# A loop takes neither what is sent nor what is thrown, and says so in its own way; what only iterates works in it.
LOOPING = {"loop": {"around": looping}}


async def _steps() -> None:
    stream = source()
    var.set("consumer")
    for step in (stream.__anext__, lambda: stream.asend("sent"), lambda: stream.athrow(KeyError()), stream.__anext__):
        log.append(("item", await step(), var.get()))
        var.set(f"consumer after {var.get()}")
    await stream.aclose()
    log.append(("after", var.get()))


async def _iterated() -> None:
    async for item in source():
        log.append((item, var.get()))  # noqa: PERF401
    log.append(("after", var.get()))


async def _broken_off() -> None:
    stream = source()
    async for item in stream:
        log.append((item, var.get()))
        break
    await stream.aclose()
    log.append(("after", var.get()))


async def _items_in_several_tasks() -> None:
    stream = source()
    for name in ("first", "second", "third", "fourth"):

        async def step() -> None:
            try:
                log.append((name, await stream.__anext__(), var.get()))
            except StopAsyncIteration:
                log.append((name, "over", var.get()))

        await asyncio.create_task(step(), name=name)
        log.append(("main has", var.get()))


async def _timeout_around_a_step() -> None:
    stream = stuck()
    log.append(await stream.__anext__())
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(0.001):
            await stream.__anext__()
    except TimeoutError:
        log.append(("timed out", where(), task is not None and task.cancelling()))
    log.append([item async for item in stream])


async def _timeout_around_a_loop() -> None:
    try:
        async with asyncio.timeout(0.001):
            async for item in stuck():
                log.append(item)  # noqa: PERF401
    except TimeoutError:
        log.append(("timed out", where()))
    gc.collect()
    await asyncio.sleep(0)


async def _timeout_and_group_inside() -> None:
    log.append([item async for item in guarded()])


async def _group_around() -> None:
    try:
        async with asyncio.TaskGroup() as group:
            stream = stuck()
            log.append(await stream.__anext__())
            group.create_task(_failing(), name="failing")
            await stream.__anext__()
    except* KeyError as errors:
        log.append(("group", [str(error) for error in errors.exceptions], where()))


async def _consumers_in_a_group() -> None:
    async def consume() -> None:
        async for _ in source(2):
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(consume(), name=name)


async def _cancelled() -> None:
    async def consume() -> None:
        async for item in stuck():
            log.append(item)  # noqa: PERF401

    task = asyncio.create_task(consume(), name="consumer")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel("enough")
    try:
        await task
    except asyncio.CancelledError as error:
        log.append(("cancelled", str(error), where()))
    gc.collect()
    await asyncio.sleep(0)


async def _closed_by_another_task() -> None:
    stream = source()
    log.append(await stream.__anext__())
    await asyncio.create_task(stream.aclose(), name="closer")  # type: ignore[arg-type]
    log.append(("after", var.get(), [item async for item in stream]))


async def _closed_by_another_task_while_it_runs() -> None:
    stream = stuck()
    log.append(await stream.__anext__())

    async def step() -> None:
        await stream.__anext__()

    runner = asyncio.create_task(step(), name="runner")
    await asyncio.sleep(0)
    for act in (stream.aclose, stream.__anext__, lambda: stream.athrow(KeyError())):
        try:
            await act()
        except RuntimeError as error:
            log.append(("refused", str(error)))
    runner.cancel()
    await asyncio.wait([runner])
    log.append(("runner cancelled", runner.cancelled()))
    await stream.aclose()


async def _closed_before_it_began() -> None:
    stream = source()
    await asyncio.create_task(stream.aclose(), name="closer")  # type: ignore[arg-type]
    log.append([item async for item in stream])


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


async def _dropped_before_it_began() -> None:
    stream = source()
    del stream
    gc.collect()
    await asyncio.sleep(0)
    log.append("dropped")


async def _kept_to_the_end_of_the_loop() -> None:
    # The loop closes it in a task of its own, whose number is not the same each time.
    stream = stuck()
    kept.append(stream)
    log.append(await stream.__anext__())


kept: list[object] = []
unwoven: dict[object, list[object]] = {}  # what a script notes where nothing is woven; the same each time


async def _as_a_context_manager() -> None:
    async with session("one") as name:
        log.append((name, var.get()))
        async with session("two"):
            log.append(var.get())
        async with session("three"):
            raise KeyError("inside")
        log.append(var.get())
    log.append(var.get())


async def _as_a_context_manager_with_a_timeout() -> None:
    try:
        async with asyncio.timeout(0.001), session("one"):
            await asyncio.Event().wait()
    except TimeoutError:
        log.append(("timed out", where(), var.get()))


async def _as_a_decorator() -> None:
    @session("decorator")
    async def work() -> None:
        log.append(var.get())

    await work()
    await work()


async def _failing_consumer() -> None:
    stream = source()
    try:
        await stream.__anext__()
        await stream.athrow(OSError("through"))
    except OSError as error:
        log.append(("rose", str(error), error.__context__, var.get()))


ITERATES = [
    _iterated,
    _items_in_several_tasks,
    _timeout_around_a_step,
    _timeout_and_group_inside,
    _group_around,
    _consumers_in_a_group,
    _cancelled,
    _closed_by_another_task_while_it_runs,
    _closed_before_it_began,
    _dropped_before_it_began,
]
SENDS = [
    _steps,
    _broken_off,
    _timeout_around_a_loop,
    _closed_by_another_task,
    _dropped,
    _kept_to_the_end_of_the_loop,
    _as_a_context_manager,
    _as_a_context_manager_with_a_timeout,
    _as_a_decorator,
    _failing_consumer,
]
CASES = [
    *((hook, script) for hook in IDLE for script in [*ITERATES, *SENDS]),
    *((hook, script) for hook in LOOPING for script in ITERATES),
]


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
    kept.clear()
    contextvars.copy_context().run(asyncio.run, script())  # type: ignore[arg-type]
    kept.clear()
    return without_numbers(log)


@contextmanager
def woven(kinds: dict[str, Any], scope: Any) -> Iterator[None]:
    with (
        weave(source, scope=scope, **kinds),
        weave(stuck, scope=scope, **kinds),
        weave(guarded, scope=scope, **kinds),
        weave(inner_session, scope=scope, **kinds),
    ):
        yield


@pytest.mark.parametrize("scope", ["everywhere", "context"])
@pytest.mark.parametrize(("hook", "script"), CASES, ids=lambda one: getattr(one, "__name__", str(one)).strip("_"))
def test_a_woven_async_generator_does_what_the_unwoven_does(
    hook: str, script: Callable[[], Awaitable[None]], scope: str
) -> None:
    if script not in unwoven:
        unwoven[script] = ran(script)
    with woven((IDLE | LOOPING)[hook], scope):
        hooked = ran(script)
    assert hooked == unwoven[script]
    assert len(hooked) >= 1


def test_the_decorated_function_itself_can_be_woven_too() -> None:
    bare = ran(_as_a_context_manager)
    opened: list[str] = []
    with weave(session, pre=lambda args: opened.append(args[0])):
        assert ran(_as_a_context_manager) == bare
    assert opened == ["one", "two", "three"]


def test_hooks_of_an_async_generator_run_in_the_task_of_each_step() -> None:
    async def main() -> None:
        stream = source(2)
        for name in ("first", "second", "third"):

            async def step() -> None:
                try:
                    await stream.__anext__()
                except StopAsyncIteration:
                    pass

            await asyncio.create_task(step(), name=name)

    seen: list[object] = []
    with weave(
        source,
        pre=lambda: seen.append(("pre", where())),
        item=lambda item: seen.append((item, where())),
        post=lambda: seen.append(("post", where())),
        always=lambda: seen.append(("always", where())),
    ):
        asyncio.run(main())
    assert seen == [("pre", "first"), (0, "first"), (1, "second"), ("post", "third"), ("always", "third")]


def test_context_set_by_an_item_hook_is_seen_by_consumer_and_generator() -> None:
    async def main() -> list[object]:
        found: list[object] = []
        async for _ in acount(2):
            found.append(var.get())  # noqa: PERF401
        return found

    with weave(acount, item=lambda item: var.set(f"hook {item}") and None):
        assert contextvars.copy_context().run(asyncio.run, main()) == ["hook 0", "hook 1"]


def test_an_async_generator_that_two_tasks_share_is_hooked_in_the_one_inside_the_block() -> None:
    async def main() -> None:
        ready, over = asyncio.Event(), asyncio.Event()

        async def inside() -> list[object]:
            with weave(acount, item=lambda item: -item, scope="context"):
                ready.set()
                found = [item async for item in acount(3)]
                await over.wait()
                return found

        task = asyncio.create_task(inside())
        await ready.wait()
        log.append([item async for item in acount(3)])
        over.set()
        log.append(await task)

    asyncio.run(main())
    assert log == [[0, 1, 2], [0, -1, -2]]


def test_a_block_inside_an_async_generator_ends_with_the_generator() -> None:
    async def inside() -> AsyncGenerator[int, None]:
        with weave(double, post=lambda result: -result, scope="context"):
            yield double(1)
            yield double(2)

    async def main() -> None:
        stream = inside()
        log.append(await stream.__anext__())
        log.append(await asyncio.create_task(stream.__anext__()))  # type: ignore[arg-type]
        await asyncio.create_task(stream.aclose())  # type: ignore[arg-type]
        log.append(double(3))

    code = double.__code__
    asyncio.run(main())
    assert log == [-2, -4, 6]
    assert double.__code__ is code


# Many at once


def test_twenty_tasks_and_eight_threads_count_only_their_own() -> None:
    rounds, calls = 12, 3
    code = double.__code__

    def counting(mine: list[int]) -> Callable[[], None]:
        return lambda: mine.append(1)

    async def work(number: int) -> None:
        for turn in range(rounds):
            mine: list[int] = []
            with weave(double, pre=counting(mine), priority=number, scope="context"):
                for _ in range(calls):
                    assert double(2) == 4
                    await asyncio.sleep(0)
            double(2)
            assert len(mine) == calls, (number, turn, len(mine))
            await asyncio.sleep(0)

    async def tasks() -> None:
        await asyncio.gather(*(work(number) for number in range(20)))

    def thread(number: int) -> None:
        for turn in range(rounds):
            mine: list[int] = []
            with weave(double, pre=counting(mine), priority=number, scope="context"):
                for _ in range(calls):
                    assert double(2) == 4
            double(2)
            assert len(mine) == calls, (number, turn, len(mine))

    works = [lambda number=number: thread(number) for number in range(8)]
    at_once(lambda: asyncio.run(tasks()), *works, switching=1e-5)
    assert double.__code__ is code
    assert type(vars(double)) is dict and "__aspecthook__" not in vars(double)


def test_twenty_tasks_and_eight_threads_share_one_hook_and_lose_no_call() -> None:
    counts: dict[object, int] = {}
    me: contextvars.ContextVar[object] = contextvars.ContextVar("me", default="nobody")

    def note() -> None:
        who = me.get()
        counts[who] = counts.get(who, 0) + 1

    async def work(number: int) -> None:
        me.set(("task", number))
        for _ in range(10):
            with weave(double, pre=note, scope="context"):
                double(1)
                await asyncio.sleep(0)
                double(1)
            double(1)

    async def tasks() -> None:
        await asyncio.gather(*(asyncio.create_task(work(number)) for number in range(20)))

    def thread(number: int) -> None:
        me.set(("thread", number))
        for _ in range(10):
            with weave(double, pre=note, scope="context"):
                double(1)
                double(1)
            double(1)

    works = [lambda number=number: thread(number) for number in range(8)]
    at_once(lambda: asyncio.run(tasks()), *works, switching=1e-5)
    expected = [("task", number) for number in range(20)] + [("thread", number) for number in range(8)]
    assert counts == dict.fromkeys(expected, 20)
    with weave(double, pre=note, scope="context"):
        assert len(hooks(double)) == 1


def test_a_block_that_raises_ends_while_another_of_the_same_weaving_goes_on() -> None:
    weaving = weave(double, post=lambda result: -result, scope="context")
    other = contextvars.copy_context()
    other.run(weaving.__enter__)
    with pytest.raises(KeyError), weaving:
        assert double(2) == -4
        raise KeyError
    assert (double(2), other.run(double, 2)) == (4, -4)
    other.run(weaving.__exit__, None, None, None)
    assert double(2) == 4 and not vars(double)
