"""The runner: its stages in their order, what hooks may do in them, and how it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspecthook import (
    Args,
    AspecthookError,
    ConfigError,
    HookOptionError,
    HookSignatureError,
    HookTypeError,
    Return,
    hooks,
)
from aspecthook.training import Hook, Runner, TrainingError
from aspecthook.training.loop import _runner
from aspecthook.training.loop._interrupts import Terminated
from tests.training.kit import registered


class Loss(float):
    """A loss that notes what is done with it."""

    log: list[Any]

    def backward(self) -> None:
        self.log.append(("backward", float(self)))

    def __truediv__(self, n: float) -> Loss:
        return self.made(float(self) / n)

    def __mul__(self, n: float) -> Loss:
        return self.made(float(self) * n)

    def made(self, value: float) -> Loss:
        made = Loss(value)
        made.log = self.log
        return made


class Model:
    """A model with mm's protocol: the loss of a batch is the batch."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.training = True

    def train(self) -> None:
        self.training = True

    def eval(self) -> None:
        self.training = False

    def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        assert self.training
        loss = Loss(batch)
        loss.log = self.log
        return {"loss": loss, "log_vars": {"loss": float(batch)}, "num_samples": 2}

    def val_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
        assert not self.training
        return {"log_vars": {"loss": float(batch)}, "num_samples": int(batch)}

    def __call__(self, batch: float) -> float:
        return batch * 10


class Optimizer:
    """One that notes its steps."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.param_groups = [{"lr": 0.1}]

    def step(self) -> None:
        self.log.append("step")

    def zero_grad(self) -> None: ...


def make(hooks: Iterable[Any] = (), **options: Any) -> Runner:
    model = Model()
    return registered(Runner(model, optimizer=Optimizer(model.log), **({"max_epochs": 2} | options)), hooks)


class Everything(Hook):
    """Notes each stage that it comes to."""

    def __init__(self) -> None:
        self.trail: list[str] = []


def _noting(name: str) -> Any:
    def note(self: Everything, runner: Runner, mode: str) -> None:
        self.trail.append(f"{name} {mode} {runner.epoch}.{runner.iter}")

    return note


for _name in ("before_run", "after_run", "before_epoch", "after_epoch", "before_iter", "after_iter"):
    setattr(Everything, _name, _noting(_name))


def test_the_stages_of_a_run_come_in_the_order_of_mmcv() -> None:
    runner = make()
    hook = runner.register_hook(Everything())
    runner.fit([1.0, 2.0], [3.0])
    epochs = [
        [
            f"before_epoch train {epoch}.{begun}",
            *(f"{when}_iter train {epoch}.{begun + turn}" for turn in (0, 1) for when in ("before", "after")),
            f"after_epoch train {epoch}.{begun + 2}",
            *(f"{stage} val {epoch + 1}.{begun + 2}" for stage in ("before_epoch", "before_iter", "after_iter")),
            f"after_epoch val {epoch + 1}.{begun + 2}",
        ]
        for epoch, begun in ((0, 0), (1, 2))
    ]
    assert hook.trail == ["before_run train 0.0", *epochs[0], *epochs[1], "after_run val 2.4"]


def test_a_run_by_iterations_ends_at_its_number() -> None:
    runner = make(max_epochs=None, max_iters=5, workflow=[("train", 2), ("val", 1)])
    hook, places = runner.register_hook(Everything()), list[int]()
    hooks(runner.val_iter).pre(lambda inner_iter: places.append(inner_iter))
    runner.fit([1.0, 2.0, 3.0], [4.0])
    assert runner.iter == 5 and runner.epoch == 1 and places == [0, 0, 0]
    assert [line for line in hook.trail if line.startswith("after_epoch val")] == [
        "after_epoch val 0.2",
        "after_epoch val 1.4",
        "after_epoch val 1.5",
    ]


@given(st.integers(1, 7), st.integers(1, 4), st.integers(1, 5))
def test_the_loss_of_each_batch_is_divided_by_the_size_of_its_group(batches: int, epochs: int, accumulate: int) -> None:
    runner = make(max_epochs=epochs, accumulate=accumulate)
    runner.fit([1.0] * batches)
    total = batches * epochs
    expected: list[Any] = []
    for begun in range(0, total, accumulate):
        size = min(accumulate, total - begun)
        expected += [("backward", 1.0 / size)] * size + ["step"]
    assert runner.model.log == expected
    assert (runner.iter, runner.step, runner.epoch) == (total, -(-total // accumulate), epochs)


def test_request_stop_ends_after_the_iteration() -> None:
    runner = make()

    class Stop(Hook):
        def after_train_iter(self, runner: Runner, iter: int) -> None:
            if iter == 2:
                runner.request_stop()

    hook = runner.register_hook(Everything())
    runner.register_hook(Stop())
    runner.fit([1.0, 2.0], [3.0])
    assert (
        runner.iter == 3 and runner.epoch == 1 and hook.trail[-2:] == ["after_epoch train 1.3", "after_run train 1.3"]
    )


# What a hook may do here that it can do nowhere else


def test_hooks_replace_the_batch_and_the_loss_and_skip_iterations_and_steps() -> None:
    runner = make(max_epochs=1)
    hooks(runner.train_iter).pre(lambda batch: Args(batch=batch + 10))
    hooks(runner.train_iter).pre(lambda batch: Return(None) if batch == 12 else None)
    hooks(runner.forward).post(lambda result: result * 2)
    hooks(runner.optimizer_step).pre(lambda step: Return(None) if step == 1 else None)
    runner.fit([1.0, 2.0, 3.0, 4.0])
    assert runner.model.log == [
        *[("backward", 22.0), "step"],
        ("backward", 26.0),
        *[("backward", 28.0), "step"],
    ]
    assert (runner.iter, runner.step) == (4, 3)


# Registering


class BeforeTran(Hook):
    def before_tran_iter(self) -> None: ...


class AsksForRuner(Hook):
    def before_run(self) -> None: ...

    def before_train_iter(self, runer: Runner) -> None: ...


@pytest.mark.parametrize(
    ("hook", "error", "says"),
    [
        (
            BeforeTran(),
            HookSignatureError,
            "has a method 'before_tran_iter', which would never be called; the methods that are called: .*before",
        ),
        (AsksForRuner(), HookSignatureError, "asks for 'runer', .*did you mean 'runner'"),
        ({"type": "NoSuchHook"}, ConfigError, "'NoSuchHook' is not registered"),
    ],
)
def test_methods_that_would_never_be_called_are_refused(hook: Any, error: type[Exception], says: str) -> None:
    runner = make()
    with pytest.raises(error, match=says):
        runner.register_hook(hook)
    assert runner.hooks == [] and not any(len(hooks(getattr(runner, name))) for name in ("run", "train_iter"))


def test_the_priority_of_the_argument_wins_over_the_config_and_the_config_over_the_class() -> None:
    class Ranked(Hook):
        priority = "HIGH"

        def before_run(self, runner: Runner) -> None: ...

    runner = make()
    runner.register_hook({"type": Ranked})
    runner.register_hook({"type": Ranked, "priority": "low"})
    runner.register_hook({"type": Ranked}, 5)
    for priority in (101, 1.5):  # those of any hook
        with pytest.raises((HookOptionError, HookTypeError)):
            runner.register_hook(Ranked(), priority)  # type: ignore[arg-type]
    assert [hook.priority for hook in hooks(runner.run)] == [5, 30, 70]


def test_a_removed_hook_has_left_every_stage_and_is_the_last_of_its_priority_when_it_comes_back() -> None:
    class Told(Hook):
        def before_run(self) -> None:
            told.append(self)

        after_epoch = before_train_iter = before_run

    told, several = list[Told](), [Told(), Told()]
    runner = make(several, max_epochs=1)
    runner.remove_hook(several[0])
    runner.fit([1.0])
    assert told == [several[1]] * 3
    told.clear()
    runner.register_hook(several[0])
    runner.max_epochs = 2
    runner.fit([1.0])
    assert told == several[::-1] * 3


# When


@pytest.mark.parametrize("start", [None, 0, 1, 3])
@pytest.mark.parametrize("n", [-1, 0, 1, 2, 3])
def test_every_n_is_counted_as_in_mm(n: int, start: int | None) -> None:
    runner = make()
    for count in range(12):
        runner.epoch = runner.iter = runner.inner_iter = count
        past = count + 1 - (start or 0)
        expected = n > 0 and past >= 0 and past % n == 0
        hook = Hook()
        assert hook.every_n_epochs(runner, n, start) is expected
        assert hook.every_n_iters(runner, n, start) is expected
        assert hook.every_n_inner_iters(runner, n, start) is expected


# Errors and interrupts


def test_an_error_passes_the_stages_from_the_inside_out_and_reaches_the_caller() -> None:
    runner, trail, error = make(), list[str](), ValueError("batch")
    for name in ("run", "train_epoch", "train_iter", "forward"):
        mount = hooks(getattr(runner, name))
        mount.exception(lambda exc, name=name: trail.append(f"exception {name}"))
        mount.always(lambda name=name: trail.append(f"always {name}"))
    everything = runner.register_hook(Everything())

    def fail() -> None:
        raise error

    hooks(runner.forward).post(fail)
    with pytest.raises(ValueError, match="batch") as caught:
        runner.fit([1.0])
    assert caught.value is error
    assert trail == [
        *["always forward", "exception train_iter", "always train_iter"],
        *["exception train_epoch", "always train_epoch", "exception run", "always run"],
    ]
    assert not any(line.startswith("after") for line in everything.trail)


# Bad input


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_epochs": 0}, "Runner: max_epochs=0; give a number from 1 up"),
        ({"max_epochs": True}, "max_epochs=True is not a whole number"),
        ({"accumulate": 0}, "accumulate=0"),
        ({"workflow": [("trian", 1)]}, "did you mean 'train'"),
        ({"workflow": ["train"]}, "give pairs of 'train' or 'val' and a number"),
        ({"workflow": [("train", 0)]}, "the number after 'train'=0; give a number from 1 up"),
        ({"workflow": [("val", 1)]}, "never ends"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(AspecthookError, match=says):
        make(**options)


def test_a_run_that_cannot_begin_says_what_is_missing() -> None:
    with pytest.raises(TrainingError, match="without an optimizer"):
        Runner(Model(), max_epochs=1).fit([1.0])
    with pytest.raises(TrainingError, match="must know when to stop"):
        make(max_epochs=None).fit([1.0])
    with pytest.raises(TrainingError, match="has no batches"):
        make().fit([])
    with pytest.raises(TrainingError, match="cannot be iterated"):
        make().fit(3)
    with pytest.raises(TrainingError, match="was given no data for it"):
        make(workflow=[("train", 1), ("val", 1)]).fit([1.0])
    with pytest.raises(TrainingError, match="no train_step, and the runner has no loss"):
        Runner(lambda inputs: inputs, optimizer=Optimizer([]), max_epochs=1).fit([(1, 2)])


def test_a_train_step_without_a_loss_is_refused() -> None:
    class Lossless(Model):
        def train_step(self, batch: float, optimizer: Any) -> dict[str, Any]:
            return {"log_vars": {}}

    with pytest.raises(TrainingError, match="not a dict with a 'loss'"):
        Runner(Lossless(), optimizer=Optimizer([]), max_epochs=1).fit([1.0])


def test_a_hook_may_replace_the_model_by_one_that_has_steps_of_its_own_or_none() -> None:
    class Replaces(Hook):
        def before_train_iter(self, runner: Runner, batch: Any) -> None:
            runner.model = (lambda inputs: inputs) if isinstance(batch, tuple) else own

    def loss_of(outputs: object, _: object) -> Loss:
        seen.append(outputs)
        return loss

    seen: list[object] = []
    runner = make([Replaces()], max_epochs=1, loss=loss_of)
    own, loss = runner.model, Loss(7.0)
    loss.log = own.log
    runner.fit([1.0, ([2.0], [0]), 3.0])
    assert seen == [[2.0]] and own.log.count("step") == 3


# The other ways in


def test_validate_test_and_predict_run_one_pass_each() -> None:
    runner = make()
    hook = runner.register_hook(Everything())
    assert runner.validate([2.0, 4.0])["val_loss"] == (2 * 2 + 4 * 4) / 6
    assert runner.test([3.0])["test_loss"] == 3.0
    assert runner.predict([1.0, (2.0, "target")]) == [10.0, 20.0]
    assert [line for line in hook.trail if "epoch" in line and "before" in line] == [
        f"before_epoch {mode} 0.0" for mode in ("val", "test", "predict")
    ]


def test_after_stage_calls_functions_after_all_hooks() -> None:
    runner = make()
    trail: list[str] = []

    def leave(mode: str, iter: int) -> None:
        trail.append(f"{mode} {iter}")
        runner.after_stage(lambda: trail.append(f"left {runner.progress.iter}"))
        runner.after_stage(lambda: trail.append("gone"))

    hooks(runner.train_iter).add("post", leave, priority=0)
    hooks(runner.train_iter).add("post", lambda: trail.append("last"), priority=100)
    hooks(runner.train_epoch).add("post", leave, priority=0)
    runner.fit([1.0, 2.0])
    iters = [
        ["train 0", "last", "left 1", "gone", "train 1", "last", "left 2", "gone"],
        ["train 2", "last", "left 3", "gone", "train 3", "last"],
    ]
    assert trail == [*iters[0], "train 2", "left 2", "gone", *iters[1], "left 4", "gone", "train 4", "left 4", "gone"]
    hooks(runner.val_epoch).post(lambda: runner.after_stage(lambda: trail.append("at once")))
    runner.validate([1.0])
    assert trail[-1] == "at once"  # outside a run


@pytest.mark.parametrize("data", [lambda: iter([]), lambda: (batch for batch in [1.0, 2.0])])
def test_data_that_run_out_are_an_error_where_they_have_no_length(data: Any) -> None:
    """Each epoch after the first would be empty, and the run end as if it had trained."""
    runner = make(max_epochs=3)
    with pytest.raises(TrainingError, match=r"had no batches in epoch [12]: .* give a list or a loader"):
        runner.fit(data())


def test_an_interrupt_is_raised_again_though_nothing_can_be_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runner = make(work_dir=tmp_path)

    def full() -> None:
        raise OSError(28, "No space left on device")

    def interrupt() -> None:
        raise KeyboardInterrupt

    hooks(runner.write_checkpoint).pre(full)
    hooks(runner.backward).pre(interrupt)
    with pytest.raises(KeyboardInterrupt):
        runner.fit([1.0])
    assert "could not be saved" in caplog.text and "No space left" in caplog.text


def test_an_epoch_that_a_hook_skips_is_counted() -> None:
    """It came again, for ever."""
    runner = make(max_epochs=3)
    seen: list[Any] = []
    hooks(runner.train_epoch).pre(lambda epoch: Return(None) if epoch == 1 else None)
    hooks(runner.val_epoch).pre(lambda epoch: Return(None) if epoch == 2 else None)
    hooks(runner.train_iter).pre(lambda epoch, iter: seen.append((epoch, iter)))
    hooks(runner.val_iter).pre(lambda epoch: seen.append(f"val {epoch}"))
    runner.fit([1.0, 2.0], [1.0])
    assert seen == [(0, 0), (0, 1), "val 1", (2, 2), (2, 3), "val 3"] and runner.epoch == 3


def test_a_run_of_iterations_cannot_skip_an_epoch() -> None:
    runner = make(max_epochs=None, max_iters=3)
    hooks(runner.train_epoch).pre(lambda: Return(None))
    with pytest.raises(TrainingError, match="in a run that counts iterations"):
        runner.fit([1.0, 2.0])


@pytest.mark.parametrize("skipped", [0, 1, 2, 4, 5])
def test_a_skipped_batch_takes_no_step_from_the_others_of_its_group(skipped: int) -> None:
    """The last of a group took the step with it, and five batches made one."""
    runner = make(max_epochs=1, accumulate=3)
    hooks(runner.train_iter).pre(lambda iter: Return(None) if iter == skipped else None)
    runner.fit([1.0] * 6)
    log = runner.optimizer.log
    assert log.count("step") == 2 and runner.step == 2
    assert len(log) == 7 and log[-1] == "step"


def test_a_hook_that_fails_as_an_interrupted_run_ends_costs_neither_checkpoint_nor_interrupt(tmp_path: Path) -> None:
    runner = make(work_dir=tmp_path)
    hooks(runner.train_iter).post(lambda: os.kill(os.getpid(), signal.SIGINT))
    hooks(runner.train_epoch).post(lambda logs: logs["val_accuracy"])
    with pytest.raises(KeyboardInterrupt) as caught:
        runner.fit([1.0, 2.0])
    assert isinstance(caught.value.__cause__, KeyError) and (tmp_path / "interrupted.ckpt").exists()


def test_objects_that_are_not_hooks_are_refused() -> None:
    class OnlyOthers(Hook):
        def on_train_begin(self) -> None: ...

    runner = make()
    with pytest.raises(
        HookTypeError, match=r"register_hook was given the class OnlyOthers; give a hook: OnlyOthers\(...\)"
    ):
        runner.register_hook(OnlyOthers)
    for unfit in (OnlyOthers(), object(), lambda: None):
        with pytest.raises(HookSignatureError, match="no method named after a stage, and would never be called"):
            runner.register_hook(unfit)


def test_a_hook_may_be_around_a_stage() -> None:
    class Twice(Hook):
        def around_optimizer_step(self, proceed: Any) -> None:
            proceed()
            proceed()

        def around_val_epoch(self, proceed: Any) -> Any:
            return super().around_val_epoch(proceed)

    runner = make(max_epochs=1, hooks=[Twice()])
    runner.fit([1.0], [3.0])
    assert runner.optimizer.log == [("backward", 1.0), "step", "step"] and runner.logs["val_loss"] == 3.0


def test_a_loss_that_is_none_is_named() -> None:
    runner = make()
    hooks(runner.forward).pre(lambda: Return(None))
    with pytest.raises(TrainingError, match="the loss is None, which has no backward"):
        runner.fit([1.0])


def test_a_run_ends_when_another_rank_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = make()
    monkeypatch.setattr(_runner, "process_group", lambda: "two ranks")
    monkeypatch.setattr(_runner, "highest", lambda number: 2 if runner.iter == 1 else number)
    with pytest.raises(Terminated, match="another rank was interrupted"):
        runner.fit([1.0, 2.0, 3.0])
    assert runner.iter == 1
