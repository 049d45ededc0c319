"""`HookMachine`: it finds order bugs of users with few calls, in minimal stories, and writes tests that repeat them."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from aspecthook import Hook, HookLookupError, HookTypeError, Return, exception, hookable, hooks, post
from aspecthook.testing import Candidate, HookMachine, LawError, Trace, before, commutes, law

# What Hypothesis explains of a failure takes seconds.
MANY = settings(max_examples=200, database=None, deadline=None, phases=[Phase.generate, Phase.shrink])


def story_of(machine: type[HookMachine]) -> list[str]:
    """Run a machine that must fail; return the steps of its story."""
    with pytest.raises(LawError) as caught:
        machine.TestCase().runTest()
    return steps_in(caught.value)


def steps_in(error: BaseException) -> list[str]:
    lines = "\n".join(error.__notes__).splitlines()
    steps = [line.strip().removeprefix("state.") for line in lines if line.strip().startswith("state.")]
    return [step for step in steps if step != "teardown()"]


class Total(HookMachine):
    """Calls of a function that returns its argument; it counts them."""

    calls = 0

    def make(self) -> Any:
        @hookable
        def total(n: float) -> float:
            type(self).calls += 1
            return n

        return total


def posts(**functions: Callable[..., Any]) -> tuple[Candidate, ...]:
    return tuple(Candidate("post", function, name=name) for name, function in functions.items())


class Taxed(Total):
    arguments = st.tuples(st.tuples(st.integers(6, 50)), st.just({}))
    candidates = posts(tax=lambda result: result * 1.19, rounding=lambda result: round(result, 2))


class Cents(Taxed):
    @law
    def the_result_is_in_cents(trace: Trace) -> bool:
        return not trace.ran("rounding") or bool(trace.result == round(trace.result, 2))


# What it finds


ROUNDED_TOO_EARLY = ["add('post rounding')", "add('post tax')", "call((9,))"]


def test_a_bug_that_depends_on_the_arguments_is_found_and_told_with_the_simplest() -> None:
    assert story_of(Cents) == ROUNDED_TOO_EARLY


def test_a_machine_that_is_run_without_its_test_case_finds_the_same_by_long_stories() -> None:
    with pytest.raises(LawError) as caught:
        run_state_machine_as_test(Cents, settings=settings(MANY, derandomize=True))
    assert caught.value.law == "the_result_is_in_cents" and "call(" in steps_in(caught.value)[-1]


def test_a_run_calls_the_target_of_two_hooks_sixty_times_at_most() -> None:
    Taxed.calls = 0
    Taxed.TestCase().runTest()
    assert 20 <= Taxed.calls <= 60


class Cached(Total):
    """A cache that keeps a price in which a discount is already; a second call takes it off again."""

    arguments = st.tuples(st.tuples(st.integers(0, 50)), st.just({}))

    @property
    def candidates(self) -> Sequence[Candidate]:
        return [
            Candidate("pre", self.cached, name="cached"),
            Candidate("post", self.keep, name="keep"),
            Candidate("post", lambda result: result + 1, name="fee"),
        ]

    def make(self) -> Any:
        self.cache: dict[float, float] = {}
        return super().make()

    def cached(self, n: float) -> Return[float] | None:
        return Return(self.cache[n]) if n in self.cache else None

    def keep(self, n: float, result: float) -> None:
        self.cache[n] = result

    @law
    def there_is_one_fee(trace: Trace) -> bool:
        return bool(trace.result == trace.arguments["n"] + trace.ran("fee"))


class Forgetful(Total):
    """A hook that is removed leaves its mark: what it has set is never unset."""

    candidates = posts(loud=lambda: None)

    def make(self) -> Any:
        self.volume = 0
        return super().make()

    def attach(self, candidate: Candidate) -> Hook:
        self.volume = 11
        return super().attach(candidate)

    @law
    def it_is_quiet(self, trace: Trace) -> bool:
        return trace.ran("loud") or self.volume == 0 or any(hook.paused for hook in self.mount.members)


class Fourth(Total):
    """Of the 24 orders of four hooks, one is wrong."""

    candidates = posts(**dict.fromkeys("abcd", lambda: None))

    @law
    def it_is_not_this_order(trace: Trace) -> bool:
        return trace.names != ("total", "c", "a", "d", "b")


class Tidy(Forgetful):
    """The same hook, removed by code that takes its mark away."""

    def detach(self, hook: Hook) -> None:
        self.volume = 0
        super().detach(hook)


class Named(Total):
    """An argument that can only be given by name."""

    candidates = posts(a=lambda: None)

    def make(self) -> Any:
        return hookable(lambda *, n: n)

    @law
    def it_does_not_run(trace: Trace) -> bool:
        return not trace.ran("a")


FOUND: dict[type[HookMachine], list[str]] = {
    Named: ["add('post a')", "call((), kwargs={'n': 0})"],
    Cached: ["add('pre cached')", "add('post fee')", "add('post keep')", "call((0,))", "call((0,))"],
    Forgetful: ["add('post loud')", "remove('post loud')", "call((0,))"],
    Fourth: ["add('post c')", "add('post a')", "add('post d')", "add('post b')", "call((0,))"],
}


def test_hooks_are_removed_by_the_code_of_the_user() -> None:
    Tidy.TestCase().runTest()


@pytest.mark.parametrize("machine", FOUND, ids=lambda machine: machine.__name__)
def test_an_order_bug_is_found_in_its_shortest_story(machine: type[HookMachine]) -> None:
    assert story_of(machine) == FOUND[machine]


def test_a_ready_law_that_makes_the_call_again_works_in_a_machine() -> None:
    class Commuting(Taxed):
        any_order = commutes("tax", "rounding")

    assert story_of(Commuting)[-1] == "call((9,))"


def test_a_ready_law_makes_an_async_call_again_in_the_loop_of_the_machine() -> None:
    class Fetching(Taxed):
        def make(self) -> Any:
            self.loops: set[object] = set()

            @hookable
            async def fetch(n: int) -> int:
                self.loops.add(asyncio.get_running_loop())
                return n

            return fetch

        any_order = commutes("tax", "tax2")
        candidates = posts(tax=lambda result: result + 1, tax2=lambda result: result + 2)

        @law
        def there_is_one_loop(self, trace: Trace) -> bool:
            return len(self.loops) == 1

    Fetching.TestCase().runTest()


# What it passes


class Account:
    @hookable
    def pay(self, n: int) -> int:
        return n


# Targets of every shape: the arguments that a machine draws by itself fit.
SHAPES: list[Callable[..., Any]] = [
    lambda n, by, /: n,
    lambda *, n, by=2: n,
    lambda n, *rest, by=2, **more: n,
    lambda: 0,
    (lambda size: lambda n: n * size)(3),
    Account().pay,
]


@pytest.mark.parametrize("target", SHAPES)
def test_without_arguments_of_its_own_a_machine_calls_targets_of_every_shape(target: Any) -> None:
    class Shaped(Total):
        candidates = posts(one=lambda result: result + 1)

        def make(self) -> Any:
            hooks(target if isinstance(target, MethodType) else hookable(target)).clear()
            return target

        @law
        def it_fits(trace: Trace) -> bool:
            return trace.exc is None and trace.result == trace.steps[0].answer + trace.ran("one")

    Shaped.TestCase().runTest()


def test_each_call_is_given_arguments_of_its_own() -> None:
    class Popping(Total):
        arguments = st.builds(lambda: (([1],), {}))
        candidates = (Candidate("pre", lambda n: n.pop() and None, name="pop"),)

        @law
        def there_was_one(trace: Trace) -> bool:
            return trace.exc is None

    Popping.TestCase().runTest()


def test_ctrl_c_in_the_target_ends_a_machine() -> None:
    class Stopped(Taxed):
        def make(self) -> Any:
            @hookable
            def stop(n: int) -> int:
                raise KeyboardInterrupt

            return stop

    with pytest.raises(KeyboardInterrupt):
        Stopped.TestCase().runTest()
    with pytest.raises(KeyboardInterrupt):
        Stopped().call((1,))


def test_constraints_that_uphold_a_law_hold() -> None:
    class Repaired(Cents):
        candidates = (
            *Taxed.candidates[:1],
            Candidate("post", Taxed.candidates[1].function, name="rounding", after="tax"),
        )

    Repaired.TestCase().runTest()


def test_a_machine_may_check_the_hooks_that_its_target_has_already() -> None:
    # Its own hooks were too few for a call to be left, which Hypothesis refused; those of the class were not seen.
    class Till:
        @hookable
        def total(self, n: int) -> int:
            return n

    Till.total.post(lambda result: result, name="tax")
    till = Till()
    calls: list[Any] = []

    class Ready(Total):
        def make(self) -> Any:
            return till.total

        @law
        def taxed(trace: Any) -> bool:
            calls.append(trace)
            return trace.ran("tax")

    hooks(till.total).post(lambda result: result, name="own")
    Ready.TestCase().runTest()
    assert 0 < len(calls) < 100
    assert [hook.name for hook in (*hooks(Till.total), *hooks(till.total))] == ["tax", "own"]


def test_hooks_that_contradict_each_other_or_run_once_or_are_isolated_are_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Odd(Total):
        candidates = (
            Candidate("pre", lambda: None, name="x", once=True, before="y"),
            Candidate("pre", lambda: None, name="y", before="z"),
            Candidate("pre", lambda: None, name="z", before="x"),
            Candidate("pre", lambda: 1 // 0, name="isolated", isolate=True),
        )

        @law
        def it_assumes(trace: Trace) -> bool:
            if trace.arguments["n"] > 5:
                raise UnsatisfiedAssumption  # as `hypothesis.assume` does
            return True

    Odd.TestCase().runTest()
    run_state_machine_as_test(Odd, settings=settings(MANY, max_examples=10, stateful_step_count=10))
    assert not caplog.records and not logging.getLogger("aspecthook").disabled


def test_a_function_that_outlives_the_machine_is_left_as_it_was() -> None:
    def lasting(n: int) -> int:
        return n

    code = lasting.__code__
    hookable(lasting)

    class Lasting(Total):
        candidates = Taxed.candidates

        def make(self) -> Any:
            return lasting

    Lasting.TestCase().runTest()
    assert lasting.__code__ is code
    assert len(hooks(lasting)) == 0


# Rules of the user's own


class Loading(Total):
    @initialize()
    def begin(self) -> None:
        self.loaded: set[str] = set()

    @rule(name=st.sampled_from(["a", "b"]))
    def load(self, name: str) -> None:
        if name not in self.loaded:
            self.loaded.add(name)
            hooks(self.target).add("pre", lambda: None, name=name)

    in_order = before("a", "b")


def test_short_stories_are_not_played_where_something_must_come_first() -> None:
    class Begun(Loading):
        candidates = posts(c=lambda: None)

        @law
        def a_begun(self, trace: Trace) -> bool:
            return self.loaded is not None

    with pytest.raises(LawError) as caught:
        Begun.TestCase().runTest()
    assert caught.value.law == "before('a', 'b')"


def test_a_story_of_the_users_own_rules_is_shrunk_and_printed() -> None:
    with pytest.raises(LawError) as caught:
        run_state_machine_as_test(Loading, settings=settings(MANY, derandomize=True, stateful_step_count=6))
    steps = [step for step in steps_in(caught.value) if not step.startswith("call")]
    assert steps == ["begin()", "load(name='b')", "load(name='a')"]
    assert steps_in(caught.value)[-1] == "call(args=(0,))"


class Plugins(Total):
    """A system that loads hooks by its own code; a hook that is loaded again comes last."""

    @rule(name=st.sampled_from(["a", "b"]))
    def load(self, name: str) -> None:
        hooks(self.target).add("pre", lambda: None, name=name)

    @precondition(lambda self: len(self.mount) > 0)
    @rule()
    def unload(self) -> None:
        hooks(self.target).clear()

    in_order = before("a", "b")


def test_a_story_of_rules_alone_is_minimal_and_repeats_the_failure() -> None:
    with pytest.raises(LawError) as caught:
        Plugins.TestCase().runTest()
    assert steps_in(caught.value) == ["load(name='b')", "load(name='a')", "call(args=(0,))"]
    assert str(caught.value.__cause__) == "'b' ran before 'a'"
    # Hypothesis adds a second note, with its `@reproduce_failure`, where the variable `CI` is set.
    story = "\n".join(caught.value.__notes__).partition("\nYou can reproduce")[0]
    with pytest.raises(LawError, match="in_order|before"):
        exec(story[story.index("state = ") :], {"Plugins": Plugins})


# The test to paste


def pasted(error: BaseException, space: dict[str, Any]) -> None:
    """Run the test that ends an error."""
    source = error.__notes__[0].partition("\n\n")[2]
    exec(source, space)
    for test in [value for name, value in space.items() if name.startswith("test_")]:
        test()


def test_the_test_that_ends_a_failure_fails_too() -> None:
    with pytest.raises(LawError) as caught:
        Cents.TestCase().runTest()
    with pytest.raises(LawError, match="the_result_is_in_cents"):
        pasted(caught.value, {})


def test_the_test_of_a_class_that_a_function_makes_is_pasted_behind_it() -> None:
    class Local(Cents):
        pass

    with pytest.raises(LawError) as caught:
        Local.TestCase().runTest()
    assert "# In test_the_test_of_a_class" in caught.value.__notes__[0]
    with pytest.raises(LawError, match="the_result_is_in_cents"):
        pasted(caught.value, {"Local": Local})


def test_the_test_of_a_script_imports_the_machine_from_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__file__ = str(Path("somewhere") / "orders.py")
    monkeypatch.setitem(sys.modules, "__main__", main)
    machine = type("Scripted", (Cents,), {"__module__": "__main__", "__qualname__": "Scripted"})
    with pytest.raises(LawError) as caught:
        machine.TestCase().runTest()
    assert "from orders import Scripted" in caught.value.__notes__[0]


# What is refused


def refused(**members: Any) -> type[HookMachine]:
    return type("Refused", (Total,), {"candidates": Taxed.candidates, **members})


REFUSED: dict[str, tuple[type[HookMachine], str]] = {
    "arguments of one number": (
        refused(arguments=st.integers()),
        "Refused.arguments draws 0; it must draw pairs of the positional arguments and a dict of the named ones, for "
        "example st.tuples(st.tuples(st.integers()), st.just({}))",
    ),
    "arguments of three things": (
        refused(arguments=st.just(((), {}, 0))),
        "Refused.arguments draws ((), {}, 0); it must",
    ),
    "arguments that are no strategy": (refused(arguments=(1, 2)), "Refused.arguments is (1, 2); it must be a strategy"),
    "nothing to do": (refused(candidates=()), "Refused has no candidates and no rules of its own"),
    "no candidate": (refused(candidates=(len,)), "is not a candidate; use Candidate(kind, function)"),
    "a candidate that asks for what nobody offers": (
        refused(candidates=[Candidate("pre", lambda nobody: None, name="asks")]),
        "Refused: the candidate pre asks cannot be added to",
    ),
    "a target of its own": (refused(target=5), "Refused sets 'target' itself, but the machine keeps what make()"),
    "a mount of its own": (refused(mount=5), "Refused sets 'mount' itself, but the machine keeps its mount point"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_machine_that_cannot_work_is_refused(name: str) -> None:
    machine, message = REFUSED[name]
    with pytest.raises(HookTypeError, match=re.escape(message)):
        machine.TestCase().runTest()


def test_a_machine_without_make_says_so() -> None:
    with pytest.raises(NotImplementedError, match="HookMachine needs a method make"):
        HookMachine()


@pytest.mark.parametrize(
    ("method", "message"), [("add", "has no candidate 'post tx'; did you mean 'post tax'"), ("remove", "has not added")]
)
def test_a_hook_that_a_story_misspells_is_refused_with_the_nearest(method: str, message: str) -> None:
    with pytest.raises(HookLookupError, match=message):
        getattr(Taxed(), method)("post tx")


def test_candidates_are_named_by_kind_and_name_and_each_mark_of_a_function_is_one() -> None:
    @post(priority="LOW")
    @exception(KeyError, OSError, name="other")
    def marked() -> None: ...

    candidates = (marked, *posts(marked=lambda: None), Candidate("pre", marked), Candidate("post", marked))
    assert {key: (one.types, one.options) for key, one in refused(candidates=candidates)()._keys.items()} == {
        "exception other": ((KeyError, OSError), {"name": "other"}),
        "post marked": ((), {"priority": "LOW"}),
        "post marked#2": ((), {"name": "marked"}),
        "pre marked": ((), {}),
        "post marked#3": ((), {}),
    }


def test_a_target_that_has_the_candidates_already_is_refused():
    def tax(result):
        return result * 2

    price = hookable(lambda n: n)
    price.post(tax)

    class Real(HookMachine):
        candidates = (Candidate("post", tax),)

        def make(self):
            return price

    with pytest.raises(HookTypeError, match=r"Real\.make\(\) returned .* with 'tax' on it already, so its order would"):
        Real()
