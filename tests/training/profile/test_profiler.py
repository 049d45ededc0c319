"""Where the time goes, by a clock that the test turns; and that nothing is left of the measuring."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aspecthook import Args, HookOptionError, HookTypeError, Return, hookable, hooks
from aspecthook.training import EvalHook, Hook, Runner
from aspecthook.training.loop._stages import STATE
from aspecthook.training.profile._hook import STAGES, ProfilerHook
from aspecthook.training.profile._profile import Part, Profile


class Clock:
    """Time passes where the test says so."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def wait(self, seconds: int) -> None:
        self.now += seconds * 1_000_000_000


class Loss(float):
    clock: Clock

    def backward(self) -> None:
        self.clock.wait(5)

    def __truediv__(self, n: float) -> Loss:
        return self


class Optimizer:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.param_groups: list[dict[str, Any]] = [{"lr": 0.1, "params": []}]

    def step(self) -> None:
        self.clock.wait(3)

    def zero_grad(self) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {"state": {}, "param_groups": [{"lr": 0.1, "params": []}]}

    def load_state_dict(self, state: Any) -> None: ...


class Model:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        self.clock.wait(7)
        loss = Loss(batch)
        loss.clock = self.clock
        return {"loss": loss, "log_vars": {"loss": batch}, "num_samples": 1}

    def val_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        self.clock.wait(2)
        return {"log_vars": {"loss": batch}, "num_samples": 1}


class Fresh(Runner):
    """Has stages that no other run has ever hooked, and one that is none."""

    @hookable(provides=STATE)
    def forward(self, batch: Any) -> Any:
        return super().forward(batch)

    @hookable(provides=STATE)
    def optimizer_step(self) -> None:
        super().optimizer_step()

    def backward(self, loss: Any) -> None:
        super().backward(loss)


class Slow(Hook):
    """Takes one second before an iteration, and ten after an epoch."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def before_train_iter(self) -> None:
        self.clock.wait(1)

    def after_train_epoch(self) -> None:
        self.clock.wait(10)

    def after_iter(self) -> None:
        self.clock.wait(4)


class Bench:
    """A run on a clock."""

    def __init__(
        self, work_dir: Path | None = None, *options: Any, start: int = 0, stop: int | None = None, **more: Any
    ) -> None:
        self.clock = Clock()
        more = {"max_epochs": 2} | more
        make = more.pop("make", Runner)
        self.runner = make(Model(self.clock), optimizer=Optimizer(self.clock), work_dir=work_dir, **more)
        self.slow = self.runner.register_hook(Slow(self.clock))
        self.hook: ProfilerHook = self.runner.register_hook(ProfilerHook(start, stop))
        self.hook.profile.clock = self.clock

    def fit(self, batches: int = 3, val: list[float] | None = None) -> Bench:
        self.runner.fit([1.0] * batches, val)
        return self

    def lines(self) -> dict[str, tuple[int, float, float]]:
        return {
            f"{line.stage} {line.kind} {line.hook}".strip(): (line.calls, round(line.own, 6), round(line.total, 6))
            for line in self.hook.profile.lines()
        }


# What is measured


def test_each_stage_and_each_hook_has_its_own_time_and_its_whole_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path).fit(3, [1.0])
    assert bench.lines() == {
        "run": (1, 0, 152),
        "train_loop": (1, 0, 152),
        "train_epoch": (2, 0, 140),
        "train_epoch post Slow.after_train_epoch": (2, 20, 20),
        "train_iter": (6, 0, 120),
        "train_iter pre Slow.before_train_iter": (6, 6, 6),
        "train_iter post Slow.after_iter": (6, 24, 24),
        "forward": (6, 42, 42),
        "backward": (6, 30, 30),
        "optimizer_step": (6, 18, 18),
        "val_loop": (2, 0, 12),
        "val_epoch": (2, 0, 12),
        "val_iter": (2, 4, 12),
        "val_iter post Slow.after_iter": (2, 8, 8),
    }
    profile = bench.hook.profile
    assert (profile.seconds, profile.iterations) == (152, 6)
    assert sum(line.own for line in profile.lines()) == pytest.approx(152)
    assert sum(line.share for line in profile.lines()) == pytest.approx(1)
    assert [line.mean for line in profile.lines() if line.stage == "forward"] == [7]


def test_stages_are_shown_in_each_other_and_hooks_in_their_stage() -> None:
    bench = Bench().fit()
    assert [(line.level, line.label) for line in bench.hook.profile.lines()] == [
        (0, "run"),
        (1, "train_loop"),
        (2, "train_epoch"),
        (3, "after Slow.after_train_epoch"),
        (3, "train_iter"),
        (4, "before Slow.before_train_iter"),
        (4, "after Slow.after_iter"),
        (4, "forward"),
        (4, "backward"),
        (4, "optimizer_step"),
    ]


def test_hooks_are_shown_in_the_order_in_which_they_run() -> None:
    bench = Bench(max_epochs=1)
    for name, priority in (("late", 90), ("early", 10)):
        hooks(bench.runner.forward).add("post", lambda: None, name=name, priority=priority)
    hooks(bench.runner.forward).add("pre", lambda: None, name="before")
    hooks(Runner.forward).add("post", lambda: None, name="shared", priority=20)
    try:
        bench.fit(1)
    finally:
        hooks(Runner.forward).remove("shared")
    found = [line.hook for line in bench.hook.profile.lines() if line.stage == "forward"]
    assert found == ["", "before", "early", "shared", "late"]


def test_the_inner_time_of_an_around_hook_is_not_its_own() -> None:
    bench = Bench()

    def outer(proceed: Any) -> Any:
        bench.clock.wait(100)
        proceed()
        return proceed()

    def inner(loss: float) -> Iterator[None]:
        bench.clock.wait(1000)
        yield
        bench.clock.wait(1000)

    hooks(bench.runner.optimizer_step).around(outer)
    hooks(bench.runner.backward).around(inner)
    bench.fit(1)
    lines = bench.lines()
    assert lines["optimizer_step"] == (2, 12, 212) and lines["optimizer_step around outer"] == (2, 200, 212)
    assert lines["backward"] == (2, 10, 4010) and lines["backward around inner"] == (2, 4000, 4010)


def test_hooks_that_come_first_and_last_of_all_are_a_part_of_their_stage() -> None:
    bench = Bench(max_epochs=1)
    mount = hooks(bench.runner.optimizer_step)

    def last(proceed: Any) -> None:
        bench.clock.wait(40)
        proceed()

    mount.add("pre", lambda: bench.clock.wait(10), name="first", priority=0)
    mount.add("around", last, priority=100)
    mount.add("always", lambda: bench.clock.wait(20), name="final", priority=100)
    bench.fit(1)
    assert {name: line for name, line in bench.lines().items() if name.startswith("optimizer_step")} == {
        "optimizer_step": (1, 3, 73),
        "optimizer_step pre first": (1, 10, 10),
        "optimizer_step around last": (1, 40, 43),
        "optimizer_step always final": (1, 20, 20),
    }


def test_a_validation_that_a_hook_makes_is_not_the_hooks_own() -> None:
    bench = Bench(max_epochs=1)
    bench.runner.register_hook(EvalHook([1.0, 1.0]))
    bench.fit(1)
    lines = bench.lines()
    assert lines["train_epoch post EvalHook.after_train_epoch"] == (1, 0, 12)
    assert lines["val_epoch"] == (1, 0, 12) and lines["val_iter"] == (2, 4, 12)


def test_two_hooks_of_a_class_are_told_apart_and_one_method_on_two_stages_too() -> None:
    bench = Bench(max_epochs=1)
    bench.runner.register_hook(Slow(Clock()))
    bench.fit(1, [1.0])
    lines = bench.lines()
    assert lines["train_iter post Slow.after_iter"] == (1, 4, 4) and lines["val_iter post Slow.after_iter"] == (1, 4, 4)
    assert lines["train_iter post Slow 2.after_iter"] == (1, 0, 0)


class Called:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def __call__(self, *, seconds: int = 2) -> None:
        self.clock.wait(seconds)


def wait(clock: Clock) -> None:
    clock.wait(6)


class Bound:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def hook(self) -> None:
        self.clock.wait(8)


class Slotted:
    __slots__ = ()

    def hook(self) -> None: ...


def test_hooks_of_all_sorts_are_measured_and_others_are_listed() -> None:
    bench, told = Bench(max_epochs=1), list[Any]()
    clock, bound = bench.clock, Bound(bench.clock)
    mount = hooks(bench.runner.forward)
    mount.add("pre", Called(clock), name="called")
    mount.add("pre", lambda: clock.wait(1), name="lambda")
    mount.add("pre", partial(wait, clock), name="partial")
    mount.add("pre", bound.hook, name="weak", weak=True)
    mount.add("pre", told.append, name="builtin")
    mount.add("post", Slotted().hook, name="slotted")
    hooks(Runner.forward).add("post", lambda: clock.wait(9), name="of all")
    try:
        bench.fit(1)
    finally:
        hooks(Runner.forward).remove("of all")
    lines = {name: line for name, line in bench.lines().items() if name.startswith("forward ")}
    assert lines == {
        "forward pre called": (1, 2, 2),
        "forward pre lambda": (1, 1, 1),
        "forward pre partial": (1, 6, 6),
        "forward pre weak": (1, 8, 8),
        "forward post of all": (1, 9, 9),
    }
    builtin, slotted = bench.hook.profile.unmeasured
    assert builtin == "builtin on forward, which has no Python code" and "__slots__" in slotted
    assert len(told) == 1


def test_measuring_keeps_the_answers_of_hooks() -> None:
    seen: list[Any] = []

    def run(*options: int) -> list[Any]:
        bench, given = Bench(max_epochs=1, start=options[0]), list[Any]()
        runner = bench.runner
        hooks(runner.forward).add("pre", lambda batch: Args(batch=batch + 1))
        hooks(runner.forward).add("post", lambda result: Return(result))
        hooks(runner.train_iter).add("pre", lambda runner: Return("skipped") if runner.iter == 1 else None)
        hooks(runner.train_iter).add("post", lambda result: given.append(result))
        hooks(runner.optimizer_step).add("around", lambda proceed: Return(proceed()))
        hooks(runner.backward).add("exception", lambda exc: Return(None), ValueError)
        hooks(runner.backward).add("pre", lambda runner: int("x") if runner.iter == 2 else None)
        bench.fit(4)
        seen.append([line.calls for line in bench.hook.profile.lines()])
        return [one if isinstance(one, str) else one["log_vars"] for one in given]

    assert run(0) == run(100) == [{"loss": 2.0}, "skipped", {"loss": 2.0}, {"loss": 2.0}]
    assert seen[0] and not seen[1]


def test_hooks_added_later_are_measured_from_the_next_call() -> None:
    bench = Bench(max_epochs=1)

    def late() -> None:
        bench.clock.wait(1)

    def later(iter: int) -> None:
        if iter == 1:
            hooks(bench.runner.forward).pre(late)
            hooks(bench.runner.train_iter).post(late)

    hooks(bench.runner.train_iter).pre(later)
    bench.fit(4)
    lines = bench.lines()
    assert lines["forward pre late"] == (3, 3, 3)
    assert lines["train_iter post late"] == (2, 2, 2)


def test_a_hook_that_fails_is_measured_and_later_times_are_right() -> None:
    bench = Bench(max_epochs=1)

    def fails(iter: int) -> None:
        bench.clock.wait(1)
        if iter == 1:
            raise KeyError

    hooks(bench.runner.backward).add("pre", fails)
    hooks(bench.runner.backward).add("exception", lambda: bench.clock.wait(2), name="seen")
    hooks(bench.runner.train_iter).add("exception", lambda: None, KeyError, name="also")
    with pytest.raises(KeyError):
        bench.fit(3)
    lines = bench.lines()
    assert lines["backward pre fails"] == (2, 2, 2) and lines["backward exception seen"] == (1, 2, 2)
    assert lines["backward"] == (2, 5, 9) and lines["train_iter"] == (2, 0, 32) and lines["run"] == (1, 0, 32)


def test_a_stage_that_is_no_mount_point_in_a_subclass_is_left_out() -> None:
    lines = Bench(make=Fresh).fit().lines()
    assert "backward" not in lines and lines["train_iter"] == (6, 30, 120) and lines["forward"] == (6, 42, 42)


# That nothing is left


def functions(bench: Bench) -> dict[str, Any]:
    """Return functions that carry a hook while it is measured: of hooks, and stages that nothing else is on."""
    own = [getattr(Slow, name) for name in ("before_train_iter", "after_train_epoch", "after_iter")]
    return {one.__qualname__: one for one in (*own, Fresh.forward, Fresh.optimizer_step, wait, Called.__call__)}


@pytest.mark.parametrize("error", [None, ValueError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize(("start", "stop"), [(0, None), (2, 4), (4, None), (100, None)])
def test_after_the_run_every_function_has_the_code_that_it_had(
    error: BaseException | None, start: int, stop: int | None
) -> None:
    bench = Bench(start=start, stop=stop, make=Fresh)
    hooks(bench.runner.train_epoch).add("pre", partial(wait, bench.clock), name="partial")
    hooks(bench.runner.train_epoch).add("pre", Called(bench.clock), name="called")
    before = {name: (one.__code__, dict(one.__dict__)) for name, one in functions(bench).items()}
    stages = [stage for stage in STAGES if stage != "backward"]
    mounts = {stage: len(hooks(getattr(bench.runner, stage))) for stage in stages}
    changed: list[bool] = []

    def look(iter: int) -> None:
        changed.append(Slow.after_iter.__code__ is not before["Slow.after_iter"][0])
        if error is not None and iter == 4:
            raise error

    look_hook = hooks(bench.runner.train_iter).add("pre", look)
    if error is None:
        bench.fit()
    else:
        with pytest.raises(type(error)) as caught:
            bench.fit()
        assert caught.value is error
    assert changed == [start <= at < (stop or 100) for at in range(len(changed))]
    look_hook.remove()
    for name, one in functions(bench).items():
        assert one.__code__ is before[name][0] and one.__dict__ == before[name][1], name
    assert {stage: len(hooks(getattr(bench.runner, stage))) for stage in stages} == mounts


def test_if_measuring_cannot_begin_no_hook_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    code = Slow.after_iter.__code__
    monkeypatch.setattr(Profile, "begin", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bench.fit()
    assert Slow.after_iter.__code__ is code and not len(hooks(bench.runner.forward))


# The window


def test_only_the_iterations_of_the_window_are_measured() -> None:
    bench = Bench(start=2, stop=5).fit(4, [1.0])
    lines = bench.lines()
    assert lines["train_iter"] == (3, 0, 60) and lines["forward"] == (3, 21, 21)
    assert lines["run"] == lines["train_loop"] == (1, 0, 76)
    assert lines["train_epoch"] == (2, 0, 70)  # two iterations and the end of the first, one of the second
    assert lines["train_epoch post Slow.after_train_epoch"] == (1, 10, 10)


def test_outside_of_the_window_an_iteration_carries_no_more_than_without_the_hook() -> None:
    bench, counts = Bench(start=2, stop=4), list[int]()
    plain = len(hooks(bench.runner.train_iter))
    hooks(bench.runner.optimizer_step).pre(lambda runner: counts.append(len(hooks(runner.train_iter)) - plain))
    bench.fit(4)
    assert counts == [1, 1, 3, 3, 0, 0, 0, 0]
    counts.clear()
    bench.runner.max_epochs = 3
    bench.runner.fit([1.0] * 4)
    assert counts == [0, 0, 0, 0]


def test_a_resumed_run_continues_the_profile(tmp_path: Path) -> None:
    first = Bench(max_epochs=1).fit()
    first.runner.save_checkpoint(tmp_path / "saved.ckpt")
    second = Bench(max_epochs=2)
    second.runner.resume(tmp_path / "saved.ckpt")
    second.fit()
    whole = Bench(max_epochs=2).fit()
    expected = whole.lines() | {"run": (2, 0, 140), "train_loop": (2, 0, 140)}
    assert second.lines() == expected


def test_a_run_that_is_saved_in_an_epoch_and_resumed_has_the_profile_of_the_whole(tmp_path: Path) -> None:
    first, saved = Bench(), tmp_path / "saved.ckpt"
    middle = list[dict[str, tuple[int, float, float]]]()

    class Save(Hook):
        priority = 100

        def after_train_iter(self, runner: Runner, iter: int) -> None:
            if iter == 3:
                runner.save_checkpoint(saved)
                middle.append(first.lines())
                runner.request_stop()

    first.runner.register_hook(Save())
    first.fit()
    assert middle[0]["run"] == (1, 0, 90) and middle[0]["train_epoch"] == (1, 0, 90)
    second, whole = Bench(), Bench().fit()
    second.runner.resume(saved)
    second.fit()
    lines = {name: line for name, line in second.lines().items() if "save" not in name and "write" not in name}
    # An iteration, that in which it was saved, was not over yet, and is not counted.
    expected = whole.lines() | {"train_iter": (5, 0, 120)}
    assert lines == {**expected, "train_iter post Save.after_train_iter": (3, 0, 0)}


def test_a_second_fit_adds_to_the_profile() -> None:
    bench = Bench(max_epochs=1).fit()
    bench.runner.max_epochs = 2
    bench.fit()
    assert bench.lines()["train_iter"] == (6, 0, 120) and bench.lines()["run"] == (2, 0, 140)


def test_a_run_that_is_resumed_past_the_window_is_not_measured(tmp_path: Path) -> None:
    first = Bench(max_epochs=1).fit()
    first.runner.save_checkpoint(tmp_path / "saved.ckpt")
    second = Bench(max_epochs=2, start=0, stop=2)
    second.runner.resume(tmp_path / "saved.ckpt")
    second.hook.load_state_dict({"profile": Profile().state_dict()})
    assert second.fit().lines() == {}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ((-1,), HookOptionError, "start=-1"),
        ((5, 5), HookOptionError, "stop=5 is not after start=5"),
        (("1",), HookTypeError, "start='1'"),
    ],
)
def test_impossible_windows_are_refused(options: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ProfilerHook(*options)


# What is told


def test_the_table_is_logged_and_written_as_json(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "aspecthook.training"):
        bench = Bench(tmp_path).fit(3, [1.0])
    (record,) = [record for record in caplog.records if "profile of" in record.message]
    lines = record.message.splitlines()
    assert lines[0].startswith("profile of 6 iterations in 2 min 32 s")
    assert lines[1].split() == ["stage,", "and", "hooks", "on", "it", "calls", "own", "share", "total", "mean"]
    assert re.fullmatch(r" {8}before Slow\.before_train_iter +6 +6\.0 s +3\.9% +6\.0 s +1\.0 s", lines[7])
    assert len({len(line) for line in lines[1:]}) == 1
    made = json.loads((tmp_path / "profile.json").read_text())
    assert (made["iterations"], made["seconds"], made["unmeasured"]) == (6, 152, [])
    forward = next(row for row in made["stages"] if row["stage"] == "forward")
    assert (forward["calls"], forward["own"], forward["mean"], forward["in"]) == (6, 42, 7, "train_iter")
    hook = next(row for row in made["hooks"] if row["hook"] == "Slow.after_iter" and row["stage"] == "val_iter")
    assert (hook["kind"], hook["total"]) == ("post", 8) and hook["where"].endswith(
        f":{Slow.after_iter.__code__.co_firstlineno}"
    )
    assert bench.hook.profile.as_json() == made


def test_without_a_folder_nothing_is_written_and_a_full_disk_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    Bench().fit()
    assert not any(tmp_path.iterdir())
    monkeypatch.setattr("aspecthook.training.profile._hook.put", full)
    assert Bench(tmp_path).fit().runner.iter == 6
    assert "profile.json could not be written: No space left on device" in caplog.text


def test_another_rank_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert Bench(tmp_path).fit().lines() == {} and not any(tmp_path.iterdir())


# The stack


def test_calls_in_another_thread_are_left_alone() -> None:
    from threading import Thread

    profile = Profile(Clock())
    profile.begin()
    outer = profile.enter(Part("run"))
    thread = Thread(target=lambda: (profile.enter(Part("other")), profile.leave(outer)))
    thread.start()
    thread.join()
    assert profile.stage == "run" and len(profile._frames) == 1


def test_a_stage_in_itself_is_counted_whole_once() -> None:
    clock = Clock()
    profile = Profile(clock)
    part = profile.part("run")
    profile.begin()
    outer = profile.enter(part)
    clock.wait(1)
    inner = profile.enter(part)
    clock.wait(2)
    profile.leave(inner)
    profile.leave(outer)
    (line,) = profile.lines()
    assert (line.calls, line.own, line.total) == (2, 3, 3)


def test_the_time_of_measuring_a_call_is_own_time_of_the_call_around_it() -> None:
    ticks = iter(range(0, 10**11, 10**9))
    profile = Profile(lambda: next(ticks))  # reading the clock takes a second, and nothing else takes any time
    outer, inner = profile.part("train_iter"), profile.part("train_iter", "hook", "pre")
    profile.begin()
    outer_call = profile.enter(outer)
    profile.leave(profile.enter(inner))
    profile.leave(outer_call)
    seconds = {line.hook: (line.own, line.total) for line in profile.lines()}
    assert seconds == {"": (2, 3), "hook": (1, 1)}


@pytest.mark.torch
def test_times_are_read_once_the_gpu_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    waits: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(1))
    clock = ProfilerHook(synchronize=True).profile.clock
    assert clock() <= clock() and len(waits) == 2
