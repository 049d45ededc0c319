"""The order of what hooks are told, against TensorFlow's three sessions written plainly, with failures anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aspecthook import HookSignatureError, Return, hooks
from aspecthook.training.session import (
    AbortedError,
    OutOfRangeError,
    SessionRunArgs,
    SessionRunHook,
)
from tests.training.session.kit import Model, Trail, drive, fit, plain

KINDS: dict[str, Callable[[], Exception]] = {
    "fails": lambda: ValueError("fails"),
    "stops iterating": StopIteration,
    "out of range": lambda: OutOfRangeError("out of range"),
    "aborted": lambda: AbortedError("aborted"),
}
QUIET = (StopIteration, OutOfRangeError)


class World:
    """What happens, one event after the other; some of them fail, or ask to stop."""

    def __init__(self, plan: dict[int, str]) -> None:
        self.plan = plan
        self.events: list[str] = []
        self.raised: list[Exception] = []

    def event(self, name: str, context: Any = None) -> None:
        kind = self.plan.get(len(self.events))
        self.events.append(name)
        if kind == "asks to stop":
            if context is not None:
                context.request_stop()
        elif kind is not None:
            # Outside of a step, what ends a loop quietly is an error as any other, and a generator turns this one into
            # another.
            outside = kind == "stops iterating" and name.split(".")[1] in ("begin", "create", "end")
            self.raised.append(KINDS["out of range" if outside else kind]())
            raise self.raised[-1]


# TensorFlow's


class Context:
    def __init__(self) -> None:
        self.stop_requested = False

    def request_stop(self) -> None:
        self.stop_requested = True


class MonitoredSession:
    """TensorFlow's monitored, recoverable, coordinated and hooked sessions, one inside the other there."""

    def __init__(self, hooks: list[str], world: World, data: list[int]) -> None:
        self.hooks, self.world, self.data, self.stop = hooks, world, data, False
        self.tell("begin")
        self.create()

    def tell(self, name: str, context: Any = None) -> None:
        for hook in self.hooks:
            self.world.event(f"{hook}.{name}", context)

    def create(self) -> None:
        self.stop = False
        try:
            self.tell("create")
        except AbortedError:
            self.create()

    def should_stop(self) -> bool:
        return self.stop or not self.data

    def run(self) -> None:
        context = Context()
        try:
            if not self.data:
                raise OutOfRangeError("no more batches")
            self.tell("before", context)
            self.world.event(".step")
            self.data.pop(0)
            self.tell("after", context)
        except AbortedError:
            self.create()
            return self.run()
        self.stop = self.stop or context.stop_requested

    def __enter__(self) -> MonitoredSession:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if error is None or isinstance(error, QUIET):
            self.tell("end")
            return True
        return False


def expected(names: list[str], plan: dict[int, str], steps: int) -> tuple[list[str], str | None]:
    world = World(plan)

    def program() -> None:
        with MonitoredSession(names, world, list(range(steps))) as session:
            while not session.should_stop():
                session.run()

    return ended(program, world)


def ended(program: Callable[[], None], world: World) -> tuple[list[str], str | None]:
    """Return the events of a program, and what it has raised; it must be the very error that was planned."""
    raised: Exception | None = None
    try:
        program()
    except Exception as error:
        raised = error
    assert raised is None or any(raised is one for one in world.raised)
    return world.events, raised and type(raised).__name__


# Ours


class Told(SessionRunHook):
    def __init__(self, name: str, world: World, priority: int) -> None:
        self.name, self.world, self.priority = name, world, priority

    def begin(self) -> None:
        self.world.event(f"{self.name}.begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        assert session.runner is coord.runner and not coord.should_stop()
        self.world.event(f"{self.name}.create")

    def before_run(self, run_context: Any) -> Any:
        self.world.event(f"{self.name}.before", run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        assert run_values.results is None
        self.world.event(f"{self.name}.after", run_context)

    def end(self, session: Any) -> None:
        assert session.runner
        self.world.event(f"{self.name}.end")


class Steps(Model):
    def __init__(self, world: World) -> None:
        self.world = world

    def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        self.world.event(".step")
        return super().train_step(batch, optimizer)


plans = st.dictionaries(st.integers(0, 30), st.sampled_from([*KINDS, "asks to stop"]), max_size=4)


@settings(max_examples=200)
@given(st.lists(st.sampled_from([0, 30, 50, 90]), max_size=3), plans, st.integers(1, 4), st.integers(1, 2))
@example([0, 30], {7: "asks to stop", 8: "aborted"}, 3, 1)  # a stop that was asked for in a lost step is lost with it
@pytest.mark.parametrize("way", [drive, fit])
def test_hooks_are_called_as_by_tensorflow(
    way: Callable[..., None], priorities: list[int], plan: dict[int, str], batches: int, epochs: int
) -> None:
    if way is fit and not priorities:  # then there is nobody who knows of sessions
        plan = {}
    world = World(plan)
    told = [Told(f"hook{place}", world, priority) for place, priority in enumerate(priorities)]
    names = [hook.name for hook in sorted(told, key=lambda hook: hook.priority)]
    runner = plain(Steps(world), max_epochs=epochs)
    found = ended(lambda: way(runner, [1.0] * batches, hooks=told), world)
    assert found == expected(names, plan, batches * epochs)
    left = [hook for name in ("run", "train_epoch", "train_iter", "forward") for hook in hooks(getattr(runner, name))]
    assert way is fit or not left
    assert not hooks(runner.forward) and not runner.after_stage_calls


# What stands beside


def test_methods_not_overridden_are_never_called_and_cost_nothing() -> None:
    runner = plain()

    class Ends(SessionRunHook):
        def end(self, session: Any) -> None: ...

    runner.register_hook(Ends())
    assert not hooks(runner.train_iter).pre and not hooks(runner.train_iter).post
    assert not hooks(runner.run).pre and [hook.name for hook in hooks(runner.run).post] == ["Ends"]
    runner.remove_hook(runner.hooks[0])
    assert not any(len(hooks(getattr(runner, name))) for name in ("run", "train_epoch", "train_iter"))


def test_a_hook_that_misspells_the_protocol_is_refused() -> None:
    class Misspelt(SessionRunHook):
        def after_create_sesion(self, session: Any, coord: Any) -> None: ...

    with pytest.raises(HookSignatureError, match="'after_create_sesion', .*did you mean 'after_create_session'"):
        plain().register_hook(Misspelt())


def test_a_foreign_object_with_the_methods_is_one() -> None:
    log: list[str] = []

    class Theirs:  # has no base class of ours
        def after_create_session(self, session: Any, coord: Any) -> None: ...

        def before_run(self, run_context: Any) -> Any:
            return SessionRunArgs("loss")

        def after_run(self, run_context: Any, run_values: Any) -> None:
            log.append(str(run_values.results))

        def end(self, session: Any) -> None:
            log.append("end")

    plain(hooks=[Theirs()]).fit([1.0])
    assert log == ["1.0", "end"]


@pytest.mark.parametrize("priority", ["HIGH", "LOW"])
def test_a_step_that_a_hook_skips_is_none(priority: str) -> None:
    log: list[str] = []
    runner = plain()
    hooks(runner.train_iter).pre(lambda batch: Return(None) if batch == 2.0 else None, priority=priority)
    runner.register_hook(Trail("hook", log))
    runner.fit([1.0, 2.0, 3.0])
    assert log.count("hook.after") == 2
    assert log.count("hook.before") == (2 if priority == "HIGH" else 3)


@pytest.mark.parametrize("error", [OutOfRangeError("no more"), AbortedError("lost")])
def test_errors_of_the_data_count_as_those_of_a_step(error: Exception) -> None:
    log: list[str] = []

    class Data:
        failed = False

        def __iter__(self) -> Any:
            yield 1.0
            if not self.failed:
                self.failed = True
                raise error
            yield 2.0

    runner = plain(hooks=[Trail("hook", log)])
    runner.fit(Data())
    once = ["hook.before", "hook.after"]
    again = ["hook.create", *once] if isinstance(error, AbortedError) else []
    assert log == ["hook.begin", "hook.create", *once, *again, "hook.end"]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_lost_group_of_batches_begins_anew(accumulate: int) -> None:
    """The gradients of one that had been counted before the loss were in it twice."""
    seen: list[float] = []
    steps: list[float] = []
    held: list[float] = []

    class Counting(Model):
        def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
            seen.append(batch)
            return super().train_step(batch, optimizer)

    runner = plain(Counting(), accumulate=accumulate)
    hooks(runner.backward).post(lambda loss: held.append(float(loss)))
    hooks(runner.optimizer_step).post(lambda: steps.append(sum(held)))
    runner.optimizer.zero_grad = held.clear

    class Lose(SessionRunHook):
        lost = False

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if seen[-1] == 2.0 and not self.lost:
                self.lost = True
                raise AbortedError("lost")

    runner.register_hook(Lose())
    runner.fit([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    if accumulate == 1:
        assert seen == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] and steps == seen
    else:
        assert seen == [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0] and steps == pytest.approx([2.0, 5.0])
