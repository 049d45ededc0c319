"""The state machine: it passes on what keeps the laws, and finds, shrinks and tells what breaks them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import initialize, rule

from aspecthook import (
    Hook,
    MountPoint,
    Return,
    event,
    hookable,
    hooks,
)
from aspecthook._core.law import order as _order
from aspecthook._core.law.guard import Guard
from aspecthook._core.mount import members as _mount
from aspecthook.testing import LawError, Trace, law
from tests.oracle.candidates import Candidate
from tests.oracle.machine import OracleMachine, explore

ROOT = Path(__file__).parents[2]
FEW = settings(max_examples=25, stateful_step_count=20, deadline=None, database=None, derandomize=True)
FINDING = settings(FEW, max_examples=200, phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False)


def found(machine: type[OracleMachine]) -> tuple[LawError, list[str]]:
    """Let a machine find what is wrong; give the error and the shortest list of steps."""
    with pytest.raises(LawError) as caught:
        explore(machine, settings=FINDING)
    notes = "\n".join(getattr(caught.value, "__notes__", ())).splitlines()
    steps = [line.strip().removeprefix("state.") for line in notes if line.strip().startswith("state.")]
    return caught.value, [step for step in steps if step != "teardown()"]


# It passes.


def function() -> Any:
    @hookable
    def target(a: int, *, b: int = 2) -> int:
        if a == 3:
            raise KeyError(a)
        return a + b

    return target


def method() -> Any:
    class Counter:
        @hookable
        def target(self, a: int) -> int:
            return a

    return Counter().target


def class_method() -> Any:
    class Counter:
        @classmethod
        @hookable
        def target(cls, a: int) -> int:
            return a

    return Counter.target


def coroutine() -> Any:
    @hookable
    async def target(a: int) -> int:
        return 6 // a

    return target


def generator() -> Any:
    @hookable
    def target(a: int) -> Any:
        yield from range(a)
        return a

    return target


def async_generator() -> Any:
    @hookable
    async def target(a: int) -> Any:
        for one in range(a):
            yield one

    return target


@pytest.mark.parametrize("make", [function, method, class_method, coroutine, generator, async_generator])
def test_it_passes_on_a_target_of_any_style(make: Callable[[], Any]) -> None:
    class Machine(OracleMachine):
        def make(self) -> Any:
            return make()

    explore(Machine, settings=FEW)


def test_it_passes_on_its_own_target_with_hooks_that_answer() -> None:
    explore(OracleMachine, settings=settings(FEW, max_examples=60))


def test_hooks_that_were_there_before_stay_there() -> None:
    ran: list[str] = []

    @hookable
    def target(a: int) -> int:
        return a

    first = hooks(target).add("pre", lambda: ran.append("first"), name="first", before="a")

    class Machine(OracleMachine):
        def make(self) -> Any:
            return target

    explore(Machine, settings=FEW)
    assert hooks(target).members == (first,)
    assert ran


def test_nothing_is_left_behind_on_a_function_that_outlives_the_machine() -> None:
    @hookable
    def target(a: int) -> int:
        return a

    code, space = target.__code__, dict(vars(target))

    class Machine(OracleMachine):
        def make(self) -> Any:
            return target

    explore(Machine, settings=FEW)
    assert target.__code__ is code
    assert dict(vars(target)) == space


# Laws and hooks of the user's own


class Handling(OracleMachine):
    def make(self) -> Any:
        @hookable
        def handle(request: int) -> int:
            return request

        return handle


def test_a_plugin_system_that_forgets_the_priority_is_found() -> None:
    class Forgetful(Handling):
        vary = ("priority",)
        candidates = Candidate("pre", lambda: None, name="a"), Candidate("pre", lambda: None, name="b")

        def attach(self, candidate: Candidate) -> Hook:
            return self.mount.add(candidate.kind, candidate.function, name=candidate.name, again=True)

    error, steps = found(Forgetful)
    assert error.law == "order"
    # One that is out of its place among two, or one alone that is not what was asked for.
    assert len(steps) <= 2
    assert all(step.startswith("add('pre ") for step in steps)
    assert "(50); they should run" in str(error)


def test_a_plugin_system_that_takes_off_too_much_is_found() -> None:
    class Greedy(Handling):
        candidates = (Candidate("pre", lambda: None, name="a"),)

        def detach(self, hook: Hook) -> None:
            self.mount.remove(hook.name)

    error, steps = found(Greedy)
    assert error.law == "members"
    assert steps[:2] == ["add('pre a')", "add('pre a')"]
    assert len(steps) == 3


def test_rules_of_the_users_own_may_change_the_mount_point_as_they_like() -> None:
    class Own(Handling):
        candidates = ()

        @rule()
        def plug(self) -> None:
            self.mount.add("pre", lambda: None, name="plugged")

        @rule()
        def unplug(self) -> None:
            self.mount.clear()

    explore(Own, settings=FEW)


def test_hooks_and_targets_that_call_the_mount_point_again_are_no_violation() -> None:
    class Recursive(OracleMachine):
        candidates = (Candidate("pre", lambda: None, name="a"), Candidate("post", lambda: None, name="b"))

        def make(self) -> Any:
            @hookable
            def count(n: int) -> int:
                return 0 if n <= 0 else 1 + count(n - 1)

            return count

    explore(Recursive, settings=FEW)


@pytest.mark.parametrize("option", [{"once": True}, {"times": 2}, {"every": 2}])
def test_a_count_that_is_wrong_is_found(option: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "admit", lambda self: True)

    class Counted(Handling):
        candidates = (Candidate("pre", lambda: None, name="a", **option),)

    error, steps = found(Counted)
    assert error.law in ("a call", "members")
    assert steps[0] == "add('pre a')"


# Planted bugs of the library itself


def test_an_order_that_is_not_stable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    arrange = _order.arrange

    def unstable(members: Any, label: str = "") -> Any:
        found = arrange(members, label)
        return (
            found
            if any(hook.before or hook.after for hook in found)
            else tuple(sorted(found, key=lambda hook: (hook.priority, -hook.added)))
        )

    monkeypatch.setattr(_order, "arrange", unstable)
    monkeypatch.setattr(_mount, "arrange", unstable)

    class Own(OracleMachine):
        pass

    error, steps = found(Own)
    assert error.law == "order"
    assert len(steps) == 2
    assert "should run" in str(error)


def test_a_cycle_that_is_not_refused_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_order.Mentions, "may_close_cycle", lambda self, hook: False)

    class Cycling(Handling):
        candidates = (Candidate("pre", lambda: None, name="a", before="a"),)

    error, steps = found(Cycling)
    assert (error.law, steps) == ("refusal", [])  # such a hook is offered to every mount point


def test_a_hook_that_goes_on_running_once_removed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # The change is stored, and the function keeps the code that it had.
    def change(self: MountPoint, store: Callable[[], None]) -> None:
        if self.place is None or not self.place.opened:
            self._open()
        store()
        self._chain = None

    monkeypatch.setattr(MountPoint, "_change", change)

    class Own(OracleMachine):
        pass

    error, _steps = found(Own)
    assert error.law in ("no trace", "a call")


def test_a_compiled_call_that_skips_a_hook_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from aspecthook._core.mount.place import Place

    bind = Place.bind

    def bound(self: Place, chain: Any, **options: Any) -> Any:
        chain.always = chain.always[1:]
        return bind(self, chain, **options)

    class Plain(OracleMachine):
        disturb = ()

    monkeypatch.setattr(Place, "bind", bound)
    error, steps = found(Plain)
    assert error.law == "a call"
    assert steps == ["add('always a')", "call((0, 0))"]
    assert "always a should have run at the end" in str(error)


def test_a_post_hook_that_is_not_given_the_result_so_far_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from aspecthook._core.mount.place import Place

    bind = Place.bind

    def bound(self: Place, chain: Any, **options: Any) -> Any:
        for hook in chain.post[1:]:
            inner = hook.function
            hook.function = lambda result, inner=inner: inner("stale")
        return bind(self, chain, **options)

    class Posting(Handling):
        disturb = ()
        candidates = (
            Candidate("post", lambda result: Return(5), name="five"),
            Candidate("post", lambda result: None, name="look"),
        )

    monkeypatch.setattr(Place, "bind", bound)
    error, _steps = found(Posting)
    assert error.law == "a call"
    assert "should have been given result=" in str(error)


# What the kit's own guests raise stays inside, and what a user's code may do is no violation


@event(gather=True)
async def happened(a: int) -> None: ...


def runs_tasks_of_itself() -> Any:
    @hookable
    async def target(a: int) -> int:
        return await asyncio.create_task(target(a - 1)) if a > 0 else a

    return target


def leaves_a_task() -> Any:
    tasks: list[Any] = []

    @hookable
    async def target(a: int) -> int:
        if a > 0:
            tasks.append(asyncio.create_task(target(a - 1)))
        return a

    return target


def is_interrupted() -> Any:
    @hookable
    async def target(a: int) -> int:
        if a == 3:
            raise KeyboardInterrupt
        return a

    return target


def calls_itself() -> Any:
    @hookable
    def target(a: int) -> int:
        return target(a - 1) if a > 0 else 0

    return target


@pytest.mark.parametrize("make", [lambda: happened, runs_tasks_of_itself, leaves_a_task, is_interrupted, calls_itself])
def test_an_exception_of_a_guest_never_leaves_the_machine(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Machine(OracleMachine):
        candidates = (Candidate("pre", lambda: None, name="second", every=2),)

        def make(self) -> Any:
            return make()

    # An interrupt would end the run of pytest, and asyncio raises it past whoever awaits the task.
    explore(Machine, settings=FEW)
    gc.collect()
    assert "exception=Planned" not in caplog.text


def test_a_law_may_call_the_target_which_no_guest_disturbs() -> None:
    class Machine(OracleMachine):
        @law
        def the_target_adds(self, trace: Trace) -> bool:
            return trace.exc is not None or self.target(0) is not None

    class Counted(OracleMachine):
        candidates = (Candidate("pre", lambda: None, name="second", every=2),)

        @law
        def a_call_more_changes_nothing(self, trace: Trace) -> bool:
            return self.target(1) == 2

    for machine in (Machine, Counted):
        explore(machine, settings=FEW)


def test_a_target_that_calls_itself_is_no_violation_where_short_stories_are_left_out() -> None:
    class Machine(OracleMachine):
        candidates = (Candidate("pre", lambda: None, name="second", every=2),)

        def make(self) -> Any:
            return calls_itself()

        @initialize()
        def begin(self) -> None: ...

    explore(Machine, settings=FEW)


def test_machines_of_one_class_note_what_their_hooks_do_apart_in_each_thread() -> None:
    class Machine(OracleMachine):
        pass

    first, second = Machine(), Machine()
    assert first._candidates is second._candidates
    first._candidates[0].function()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(second._candidates[1].function).result()
        assert len(pool.submit(second._ran.take).result()) == 1
    assert len(first._ran.take()) == 1
