"""The state machine: it passes on what keeps the laws, and finds, shrinks and tells what breaks them."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from aspecthook import (
    Hook,
    HookLookupError,
    HookOptionError,
    HookTypeError,
    MountPoint,
    Return,
    event,
    hookable,
    hooks,
    post,
    pre,
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


class Constrained(Handling):
    @pre(before="audit")
    def auth(self) -> None: ...

    @pre
    def audit(self) -> None: ...

    @law
    def auth_before_audit(trace: Trace) -> bool:
        return trace.before("auth", "audit")


class Unconstrained(Constrained):
    vary = ()

    @pre
    def auth(self) -> None: ...


def test_a_law_that_constraints_uphold_holds() -> None:
    explore(Constrained, settings=FEW)


def test_a_broken_law_is_told_with_the_call_the_chain_and_the_shortest_list_of_steps() -> None:
    error, steps = found(Unconstrained)
    assert error.law == "auth_before_audit"
    assert steps == ["add('pre audit')", "add('pre auth')", "call((0,))"]
    lines = str(error).splitlines()
    assert "handle breaks the law 'auth_before_audit': it answered False" in lines[0]
    assert lines[1:4] == ["", "the call:", f"  {error.trace.label} → 0"]  # type: ignore[union-attr]
    assert lines[4:6] == ["    pre     audit() → None", "    pre     auth() → None"]
    assert lines[6] == "    target  handle(request=0) → 0"
    assert lines[7:9] == ["", "the chain:"]
    assert lines[10:] == ["    pre  audit", "    pre  auth"]


def test_a_law_may_look_at_the_machine_and_be_static() -> None:
    seen: list[object] = []

    class Looking(Constrained):
        @law
        def looks(self, trace: Trace) -> bool:
            seen.append(self)
            return True

        @staticmethod
        @law
        def is_static(trace: Trace) -> bool:
            return isinstance(trace, Trace)

    explore(Looking, settings=settings(FEW, max_examples=5))
    assert seen
    assert all(isinstance(one, Looking) for one in seen)


def test_options_of_a_candidate_are_kept() -> None:
    class Fixed(Handling):
        candidates = (
            Candidate("post", lambda: None, name="last", priority=90, after=()),
            Candidate("post", lambda: None, name="first", priority=10, before=()),
        )
        vary = ("priority",)

        @law
        def first_before_last(trace: Trace) -> bool:
            return trace.before("first", "last")

    explore(Fixed, settings=FEW)


def test_marked_functions_are_candidates_and_what_is_neither_is_refused() -> None:
    @post
    def marked() -> None: ...

    class Marked(Handling):
        candidates: Any = (marked,)

    assert repr(Marked()._candidates) == "[post marked]"
    Marked.candidates = (len,)
    with pytest.raises(TypeError, match="is not a candidate"):
        Marked()


def test_a_candidate_that_a_story_misspells_is_refused_with_the_nearest() -> None:
    class Marked(Handling):
        candidates = (Candidate("pre", print),)

    with pytest.raises(HookLookupError, match="Marked has no candidate 'pre prnit'; did you mean 'pre print'"):
        Marked()._function("pre prnit")
    with pytest.raises(HookLookupError, match="the machine has added no 'pre print' that is still there"):
        Marked()._hook("pre print")


def test_arguments_come_from_a_strategy() -> None:
    class Words(Handling):
        arguments = st.tuples(st.just(("word",)), st.just({}))

        @law
        def is_a_word(trace: Trace) -> bool:
            return trace["handle"].given == {"request": "word"} if trace.ran("handle") else True

    explore(Words, settings=settings(FEW, max_examples=10))


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


def test_short_stories_come_whatever_hypothesis_is_told() -> None:
    class Four(Handling):
        candidates = tuple(Candidate("pre", lambda: None, name=name) for name in "abcd")

        @law
        def not_backwards(trace: Trace) -> bool:
            return trace.names[:4] != ("d", "c", "b", "a")

    least = settings(FEW, max_examples=1, stateful_step_count=1)
    for _ in range(2):
        with pytest.raises(LawError) as caught:
            explore(Four, settings=least)
        assert caught.value.law == "not_backwards"
    Four.TestCase.settings = least
    with pytest.raises(LawError, match="not_backwards"):
        Four.TestCase().runTest()


def test_a_failure_ends_with_a_test_function_that_fails_too() -> None:
    Unconstrained.TestCase.settings = FEW
    with pytest.raises(LawError) as caught:
        Unconstrained.TestCase().runTest()
    text = caught.value.__notes__[0].removeprefix("To see it again:\n\n")
    space: dict[str, Any] = {}
    exec(text, space)
    with pytest.raises(LawError, match="auth_before_audit"):
        space["test_auth_before_audit"]()


def test_a_long_story_is_a_test_function_too() -> None:
    class Rare(Handling):
        candidates = tuple(Candidate("pre", lambda: None, name=name) for name in "abc")

        @law
        def few(trace: Trace) -> bool:
            return len(trace.steps) < 7  # more than short stories have

    Rare.TestCase.settings = FEW
    with pytest.raises(LawError) as caught:
        Rare.TestCase().runTest()
    text = caught.value.__notes__[0]
    assert text.count("state.add(") >= 5
    assert "    state.teardown()" in text


def test_a_candidate_that_cannot_be_added_is_told() -> None:
    class Wrong(Handling):
        candidates = (Candidate("pre", lambda reqeust: None, name="wrong"),)

    with pytest.raises(HookTypeError, match=r"the candidate pre wrong cannot be added to .*handle: .*'reqeust'"):
        Wrong.TestCase().runTest()


def test_a_machine_that_can_do_nothing_is_refused() -> None:
    class Empty(Handling):
        candidates = ()

    with pytest.raises(HookTypeError, match="Empty has no candidates and no rules of its own"):
        Empty()


def test_hooks_and_targets_that_call_the_mount_point_again_are_no_violation() -> None:
    class Recursive(OracleMachine):
        candidates = (Candidate("pre", lambda: None, name="a"), Candidate("post", lambda: None, name="b"))

        def make(self) -> Any:
            @hookable
            def count(n: int) -> int:
                return 0 if n <= 0 else 1 + count(n - 1)

            return count

    Recursive.TestCase.settings = FEW
    Recursive.TestCase().runTest()


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


def test_the_example_finds_and_shrinks_the_bug() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "plugin_order.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert "breaks the law 'auth_before_audit': it answered False" in done.stdout
    assert "state.load(plugin=audit)\nstate.load(plugin=auth)\nstate.teardown()\n" in done.stdout
    assert "the law holds" in done.stdout


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
    Machine.TestCase.settings = FEW
    Machine.TestCase().runTest()
    gc.collect()
    assert "exception=Planned" not in caplog.text


@pytest.mark.parametrize(
    ("setting", "values", "message"),
    [
        ("vary", ("prioritiy",), "'prioritiy', which a machine cannot draw; .* can; did you mean 'priority'?"),
        ("vary", "priority", "'p', which"),
        ("disturb", ("fails", "sends"), "'sends', which"),
    ],
)
def test_what_a_machine_cannot_draw_is_refused(setting: str, values: Any, message: str) -> None:
    with pytest.raises(HookOptionError, match=rf"Mine\.{setting} has {message}"):
        type("Mine", (OracleMachine,), {setting: values})()


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
        machine.TestCase.settings = FEW
        machine.TestCase().runTest()


def test_a_target_that_calls_itself_is_no_violation_where_short_stories_are_left_out() -> None:
    class Machine(OracleMachine):
        candidates = (Candidate("pre", lambda: None, name="second", every=2),)

        def make(self) -> Any:
            return calls_itself()

        @initialize()
        def begin(self) -> None: ...

    explore(Machine, settings=FEW)


@pytest.mark.parametrize("name", ["target", "mount"])
def test_an_attribute_of_the_users_own_is_not_overwritten(name: str) -> None:
    class Machine(OracleMachine):
        def make(self) -> Any:
            setattr(self, name, 5)
            return function()

    with pytest.raises(HookTypeError, match=f"Machine sets '{name}' itself, but the machine keeps .* use another name"):
        Machine()


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
