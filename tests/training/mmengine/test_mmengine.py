"""Hooks that were written for mmengine, and real ones of its package, on our runner unchanged."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest

from aspecthook import hooks
from aspecthook.training import Runner, TrainingError
from aspecthook.training.mmengine._bindings import _changed
from aspecthook.training.mmengine._runner import MMRunner
from tests.training.loop.test_runner import make

pytestmark = pytest.mark.filterwarnings("ignore")  # what mmengine itself does


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[type]:
    """A base class like mmengine's, for where it is not installed: the same names, calling the same general ones."""
    try:
        from mmengine.hooks import Hook

        yield Hook
        return
    except ImportError:
        pass
    module = types.ModuleType("mmengine.hooks.hook")
    names = [
        "before_run",
        "after_run",
        *(f"{when}_{mode}" for when in ("before", "after") for mode in ("train", "val")),
    ]
    body: dict[str, Any] = {name: lambda self, runner: None for name in names}
    for mode in ("train", "val", "test"):
        for when in ("before", "after"):
            body |= {f"{when}_{mode}_epoch": _general(f"_{when}_epoch", mode)}
            body |= {f"{when}_{mode}_iter": _general(f"_{when}_iter", mode)}
    body |= {
        f"_{when}_{what}": lambda self, runner, **_: None for when in ("before", "after") for what in ("epoch", "iter")
    }
    yield type("Hook", (), {**body, "__module__": module.__name__, "priority": "NORMAL"})


def _general(name: str, mode: str) -> Any:
    def call(self: Any, runner: Any, batch_idx: Any = None, data_batch: Any = None, outputs: Any = None) -> None:
        rest = {} if name.endswith("epoch") else {"batch_idx": batch_idx, "data_batch": data_batch}
        getattr(self, name)(runner, mode=mode, **rest, **({"outputs": outputs} if name == "_after_iter" else {}))

    return call


def test_a_hook_of_mmengine_is_called_as_mmengine_calls_it(base: Any) -> None:
    trail: list[Any] = []

    class Theirs(base):
        priority = "LOW"

        def before_run(self, runner: Any) -> None:
            trail.append("before_run")

        def before_train(self, runner: Any) -> None:
            trail.append("before_train")

        def after_train(self, runner: Any) -> None:
            trail.append("after_train")

        def after_run(self, runner: Any) -> None:
            trail.append("after_run")

        def before_train_epoch(self, runner: Any) -> None:
            trail.append(f"before_train_epoch {runner.epoch}")

        def after_train_iter(
            self, runner: Any, batch_idx: int, data_batch: Any = None, outputs: dict[str, Any] | None = None
        ) -> None:
            trail.append((runner.iter, batch_idx, data_batch, outputs))

        def before_val(self, runner: Any) -> None:
            trail.append("before_val")

        def before_val_epoch(self, runner: Any) -> None:
            trail.append("before_val_epoch")

        def after_val_epoch(self, runner: Any, metrics: Any = None) -> None:
            trail.append(metrics)

        def after_val(self, runner: Any) -> None:
            trail.append("after_val")

    runner = make(max_epochs=1, hooks=[Theirs()])
    runner.fit([1.0, 2.0], [3.0])
    assert trail == [
        "before_run",
        "before_train",
        "before_train_epoch 0",
        (0, 0, 1.0, {"loss": 1.0}),
        (1, 1, 2.0, {"loss": 2.0}),
        "before_val",
        "before_val_epoch",
        {"loss": 3.0},
        "after_val",
        "after_train",
        "after_run",
    ]
    assert {hook.priority for hook in hooks(runner.train_iter)} == {70}


def test_mmengine_methods_not_overridden_are_never_called(base: Any) -> None:
    class Theirs(base):
        def _after_iter(
            self, runner: Any, batch_idx: int, data_batch: Any = None, outputs: Any = None, mode: str = "train"
        ) -> None:
            trail.append((mode, batch_idx))

    trail: list[Any] = []
    runner = make(max_epochs=1, hooks=[Theirs()])
    stages = [name for name in ("run", "train_loop", "train_epoch", "val_epoch") if len(hooks(getattr(runner, name)))]
    assert stages == [] and len(hooks(runner.train_iter)) == 1
    runner.fit([1.0, 2.0], [3.0])
    assert trail == [("train", 0), ("train", 1), ("val", 0)]


def test_missing_attributes_of_the_mmengine_runner_are_named(base: Any) -> None:
    class Theirs(base):
        def before_run(self, runner: Any) -> None:
            runner.build_evaluator("x")

    runner = make(hooks=[Theirs()])
    with pytest.raises(AttributeError, match="uses 'build_evaluator' of its runner, which our runner does not have"):
        runner.fit([1.0])

    class Deep(base):
        def before_run(self, runner: Any) -> None:
            print(runner.train_loop.param_schedulers)

    runner = make(hooks=[Deep()])
    with pytest.raises(AttributeError, match="uses 'param_schedulers' of a loop, which our loops do not have"):
        runner.fit([1.0])

    class Where(base):
        def before_run(self, runner: Any) -> None:
            print(runner.work_dir)

    runner = make(hooks=[Where()])
    with pytest.raises(TrainingError, match=r"a hook of mmengine uses the work_dir; give Runner\(..., work_dir=...\)"):
        runner.fit([1.0])


# The real ones


@pytest.fixture
def mm() -> Any:
    return pytest.importorskip("mmengine.hooks", reason="mmengine is not installed")


class Data(list[float]):
    """Batches with what hooks of mmengine look for in a loader."""

    def __init__(self, *batches: float) -> None:
        super().__init__(batches)
        self.turns: list[int] = []
        self.dataset = types.SimpleNamespace(metainfo={"classes": 10})
        self.sampler = types.SimpleNamespace(set_epoch=self.turns.append)


def accuracies(*numbers: float) -> Runner:
    """A runner whose validations give these."""
    rows = iter(numbers)
    runner = make(max_epochs=len(numbers))
    runner.model.val_step = lambda batch, optimizer: {"log_vars": {"accuracy": next(rows)}, "num_samples": 1}
    return runner


@pytest.mark.parametrize(
    ("numbers", "end"), [((0.1, 0.2, 0.3, 0.4, 0.5), 5), ((0.5, 0.4, 0.3, 0.2, 0.1), 3), ((0.5, 0.4, 0.6, 0.5, 0.5), 5)]
)
def test_their_early_stopping_ends_our_run(mm: Any, numbers: tuple[float, ...], end: int) -> None:
    runner = accuracies(*numbers)
    runner.register_hook(mm.EarlyStoppingHook("accuracy", patience=2, min_delta=0.0, rule="greater"))
    runner.fit([1.0], [1.0])
    assert runner.epoch == end


def test_their_timer_and_their_notes_go_to_their_message_hub(mm: Any) -> None:
    runner = make(max_epochs=2)
    timer, notes = runner.register_hook(mm.IterTimerHook()), runner.register_hook(mm.RuntimeInfoHook())
    runner.fit(Data(1.0, 2.0))
    hub = MMRunner.of(runner).message_hub
    assert hub.get_info("epoch") == 1 and hub.get_info("max_epochs") == 2 and hub.get_info("iter") == 3
    assert hub.get_scalar("train/loss").current() == 2.0 and hub.get_scalar("train/lr").current() == 0.1
    assert len(hub.get_scalar("train/time")._log_history) == 4
    assert {"IterTimerHook", "RuntimeInfoHook"} == {type(timer).__name__, type(notes).__name__}


def test_their_sampler_seed_turns_our_sampler(mm: Any) -> None:
    runner, data = make(max_epochs=3), Data(1.0)
    runner.register_hook(mm.DistSamplerSeedHook())
    runner.fit(data)
    assert data.turns == [0, 1, 2]


@pytest.mark.torch
def test_a_hook_that_may_change_checkpoints_leaves_the_state_of_the_optimizer() -> None:
    """The numbers of its parameters had become strings, and PyTorch forgot the momentum of a resumed run."""
    pytest.importorskip("torch")
    momentum = np.ones(2)
    checkpoint = {"model": {"weight": np.ones(2)}, "optimizer": {"state": {0: {"momentum_buffer": momentum}}}}
    made = _changed(lambda runner, checkpoint: None, MMRunner(make()), checkpoint)
    assert made == {"model": ANY, "optimizer": {"state": {0: {"momentum_buffer": momentum}}}}
    assert (made["model"]["weight"] == 1).all()


@pytest.mark.torch
def test_their_average_is_saved_and_comes_back(mm: Any, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def begun() -> tuple[Runner, Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        runner = Runner(model, optimizer=optimizer, loss=torch.nn.functional.mse_loss, max_epochs=4, work_dir=tmp_path)
        return runner, runner.register_hook(mm.EMAHook(momentum=0.5))

    data = [(torch.full((1, 2), float(n)), torch.ones(1, 2)) for n in (1, 2)]
    whole, average = begun()
    whole.fit(data)
    part, _ = begun()
    part.max_epochs = 2
    part.fit(data)
    saved = part.save_checkpoint(tmp_path / "part.safetensors")
    again, resumed = begun()
    again.resume(saved)
    again.fit(data)
    for ours, theirs in zip(average.ema_model.parameters(), resumed.ema_model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert "mmengine" in sys.modules
