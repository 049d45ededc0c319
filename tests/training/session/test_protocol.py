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
    CheckpointSaverHook,
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
    """TensorFlow's monitored, recoverable, coordinated and hooked sessions, one inside the other there.

    It goes on from a checkpoint of the last complete step, or without checkpoints not at all.
    """

    def __init__(self, hooks: list[str], world: World, data: list[int], *, recovers: bool) -> None:
        self.hooks, self.world, self.data, self.stop, self.recovers = hooks, world, data, False, recovers
        self.tell("begin")
        self.create()

    def tell(self, name: str, context: Any = None) -> None:
        for hook in self.hooks:
            self.world.event(f"{hook}.{name}", context)

    def create(self) -> None:
        self.stop, self.is_created = False, False
        try:
            self.tell("create")
        except AbortedError:
            if not self.recovers:
                raise
            self.create()
        self.is_created = True

    def should_stop(self) -> bool:
        return self.stop or not self.data

    def run(self) -> None:
        context = Context()
        try:
            if not self.data:
                raise OutOfRangeError("no more batches")
            self.tell("before", context)
            self.world.event(".step")
            self.tell("after", context)
            self.data.pop(0)
        except AbortedError:
            if not self.recovers:
                raise
            self.create()
            return self.run()
        self.stop = self.stop or context.stop_requested

    def __enter__(self) -> MonitoredSession:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if error is None or isinstance(error, QUIET):
            if self.is_created:
                self.tell("end")
            return True
        return False


def expected(names: list[str], plan: dict[int, str], steps: int, *, recovers: bool) -> tuple[list[str], str | None]:
    world = World(plan)

    def program() -> None:
        with MonitoredSession(names, world, list(range(steps)), recovers=recovers) as session:
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
        assert session.runner is coord.runner
        self.world.event(f"{self.name}.create")

    def before_run(self, run_context: Any) -> Any:
        self.world.event(f"{self.name}.before", run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        assert run_values.results is None
        self.world.event(f"{self.name}.after", run_context)

    def end(self, session: Any) -> None:
        assert session.runner
        self.world.event(f"{self.name}.end")


class First(CheckpointSaverHook):
    """Saves before any other hook can lose the session."""

    priority = "HIGHEST"


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
@pytest.mark.parametrize("way", ["driven", "saved", "fitted"])
def test_hooks_are_called_as_by_tensorflow(
    way: str,
    tmp_path_factory: pytest.TempPathFactory,
    priorities: list[int],
    plan: dict[int, str],
    batches: int,
    epochs: int,
) -> None:
    if way == "fitted" and not priorities:  # then there is nobody who knows of sessions
        plan = {}
    world = World(plan)
    told = [Told(f"hook{place}", world, priority) for place, priority in enumerate(priorities)]
    names = [hook.name for hook in sorted(told, key=lambda hook: hook.priority)]
    runner = plain(Steps(world), max_epochs=epochs)
    if way == "fitted":
        found = ended(lambda: fit(runner, [1.0] * batches, hooks=told), world)
    else:
        folder = tmp_path_factory.mktemp("saved") if way == "saved" else None
        savers = [First(folder, save_steps=1)] if folder is not None else []
        found = ended(lambda: drive(runner, [1.0] * batches, hooks=[*savers, *told], folder=folder), world)
    assert found == expected(names, plan, batches * epochs, recovers=way == "saved")
    left = [hook for name in ("run", "train_epoch", "train_iter", "forward") for hook in hooks(getattr(runner, name))]
    assert way == "fitted" or not left
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


def test_an_error_of_the_data_counts_as_one_of_a_step() -> None:
    log: list[str] = []

    def data() -> Any:
        yield 1.0
        raise OutOfRangeError("no more")

    plain(hooks=[Trail("hook", log)]).fit(data())
    assert log == ["hook.begin", "hook.create", "hook.before", "hook.after", "hook.end"]
