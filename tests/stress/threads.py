"""Law 5 in threads: eight of them add, remove and call at once."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module, invalidate_caches
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from aspecthook import hookable, hooks, weave
from tests.stress.cases import THREADS, for_both, run
from tests.threads import at_once


def no_hook_is_lost(function: Any) -> None:
    # A thread that linked the chain for its call put that chain in although it had been changed meanwhile.
    log: list[int] = []
    handles: list[Any] = []

    def add(number: int) -> None:
        handles.append(hooks(function).add("pre", lambda: log.append(number)))
        function()

    for _ in range(100):
        at_once(*(partial(add, number) for number in range(THREADS)))
        log.clear()
        function()
        assert sorted(log) == list(range(THREADS)), log
        at_once(*(handle.remove for handle in handles), function, function)
        handles.clear()
        log.clear()
        function()
        assert log == [], log


def each_call_sees_one_chain(function: Any) -> None:
    # Hooks come in the order pre 0, post 0, pre 1 ... and go the other way: what a call sees is a beginning of that.
    local, over = threading.local(), threading.Event()
    order = [(kind, number) for number in range(6) for kind in ("pre", "post")]

    def note(one: tuple[str, int]) -> None:
        local.seen.append(one)

    def change() -> None:
        try:
            for _ in range(20):
                handles = [hooks(function).add(one[0], partial(note, one)) for one in order]
                while handles:
                    handles.pop().remove()
        finally:
            over.set()

    def call() -> None:
        while not over.is_set():
            local.seen = []
            function()
            assert sorted(local.seen, key=order.index) == order[: len(local.seen)], local.seen

    at_once(change, *[call] * (THREADS - 1))


def counted_hooks_run_exactly_so_often(function: Any) -> None:
    log: list[str] = []
    for _ in range(60):
        function.pre(once=True)(lambda: log.append("once"))
        function.post(times=5)(lambda: log.append("times"))
        function.always(every=3)(lambda: log.append("every"))
        at_once(*[lambda: [function() for _ in range(6)]] * THREADS)
        assert {name: log.count(name) for name in log} == {"once": 1, "times": 5, "every": THREADS * 6 // 3}
        assert [hook.kind for hook in hooks(function)] == ["always"]
        hooks(function).clear()
        log.clear()


def instances_have_each_their_own_hooks() -> None:
    class Room:
        @hookable
        def enter(self, guest: int) -> int:
            return guest

    code = Room.enter.__code__

    def visit() -> None:
        for number in range(250):
            room = Room()
            hook = hooks(room.enter).add("post", lambda result: result + 1)
            assert [room.enter(number), Room().enter(number)] == [number + 1, number]
            if number % 2:
                hook.remove()
                assert room.enter(number) == number

    at_once(*[visit] * THREADS)
    gc.collect()
    assert Room.enter.__code__ is code


def more_shapes_than_are_kept() -> None:
    # The shapes were kept without a lock: "dictionary changed size during iteration".
    def shape(thread: int) -> None:
        chance = random.Random(thread)
        for number in range(200):
            function = hookable(eval(f"lambda a{thread}_{number}=1, b{chance.randrange(9)}=2: 3"))
            function.post(lambda result: result + 1)
            assert function() == 4
            hooks(function).clear()

    at_once(*(partial(shape, thread) for thread in range(THREADS)))


@contextmanager
def modules(*names: str) -> Iterator[None]:
    """Have modules to import, each with a function that gives 1."""
    finders, before = list(sys.meta_path), list(sys.path)
    with TemporaryDirectory() as folder:
        for name in names:
            Path(folder, f"{name}.py").write_text("import errno\ndef one():\n    return 1\nmade = one.__code__\n")
        sys.path.insert(0, folder)
        invalidate_caches()
        yield
    sys.path[:] = before
    assert list(map(id, sys.meta_path)) == list(map(id, finders))


def imports_go_on_while_weavings_come_and_go() -> None:
    # Our finder went out of the list that importlib was going through: it passed by the finder that knows the module,
    # before 3.14; or ours did not find itself any more.
    names = [[f"ahs_{thread}_{number}" for number in range(150)] for thread in range(4)]
    over = threading.Event()

    def load(row: list[str]) -> None:
        for name in row:
            assert import_module(name).one() == 1

    def load_all() -> None:
        try:
            at_once(*(partial(load, row) for row in names))
        finally:
            over.set()

    def churn(pointcut: str) -> None:
        while not over.is_set():
            weave(pointcut, pre=lambda: None).remove()

    with modules(*[name for row in names for name in row]):
        at_once(load_all, partial(churn, "ahs_none:one"), partial(churn, "ahs_*:one"), partial(churn, "ahs_[01]_*:*"))


def a_weaving_that_begins_while_its_module_is_imported_is_woven() -> None:
    # It waited for ever, or found nothing where the next moment there was something.
    names = [f"ahs_{number}" for number in range(400)]

    def begin(pointcut: str) -> None:
        weavings.append(weave(pointcut, post=lambda result: result * 10))

    with modules(*names):
        for number, name in enumerate(names):
            weavings: list[Any] = []
            pointcut = name + (":one", ":*")[number % 2]
            at_once(partial(import_module, name), partial(begin, pointcut), partial(import_module, name))
            module: ModuleType = sys.modules[name]
            weavings[0].check()  # the import may have been past the place of our finder
            assert (weavings[0].state, module.one()) == ("woven", 10), (name, weavings)
            weavings[0].remove()
            assert module.one.__code__ is module.made


def who_makes_one_function_hookable_at_once_shares_its_mount_point() -> None:
    # Each thread made one of its own; the hooks of the others ran in no call and could not be seen.
    for _ in range(400):
        function: Any = eval("lambda x=1: x")
        log: list[int] = []
        at_once(*[lambda: hookable(function).pre(lambda: log.append(1))] * 4)
        function()
        assert (len(log), len(hooks(function))) == (4, 4)


WITH_FUNCTION = (
    no_hook_is_lost,
    each_call_sees_one_chain,
    counted_hooks_run_exactly_so_often,
)
ALONE = (
    instances_have_each_their_own_hooks,
    more_shapes_than_are_kept,
    who_makes_one_function_hookable_at_once_shares_its_mount_point,
    imports_go_on_while_weavings_come_and_go,
    a_weaving_that_begins_while_its_module_is_imported_is_woven,
)
CASES = {case.__name__: for_both(case) for case in WITH_FUNCTION} | {case.__name__: case for case in ALONE}
if __name__ == "__main__":
    run(CASES)
