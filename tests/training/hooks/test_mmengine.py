"""Hooks that were written for mmengine, on our runner unchanged."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import pytest

from aspecthook import hooks
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
        name: lambda self, runner, checkpoint: None for name in ("before_save_checkpoint", "after_load_checkpoint")
    }
    body |= {
        f"_{when}_{what}": lambda self, runner, **_: None for when in ("before", "after") for what in ("epoch", "iter")
    }
    yield type("Hook", (), {**body, "__module__": module.__name__, "priority": "NORMAL"})


def _general(name: str, mode: str) -> Any:
    def call(self: Any, runner: Any, batch_idx: Any = None, data_batch: Any = None, outputs: Any = None) -> None:
        rest = {} if name.endswith("epoch") else {"batch_idx": batch_idx, "data_batch": data_batch}
        getattr(self, name)(runner, mode=mode, **rest, **({"outputs": outputs} if name == "_after_iter" else {}))

    return call


def test_a_hook_of_mmengine_is_called_with_the_arguments_that_mmengine_gives(base: Any) -> None:
    trail: list[Any] = []

    class Theirs(base):
        priority = "LOW"

        def before_train(self, runner: Any) -> None:
            trail.append("before_train")

        def before_train_epoch(self, runner: Any) -> None:
            trail.append(f"before_train_epoch {runner.epoch}")

        def after_train_iter(
            self, runner: Any, batch_idx: int, data_batch: Any = None, outputs: dict[str, Any] | None = None
        ) -> None:
            assert outputs is not None
            trail.append((runner.iter, batch_idx, data_batch, outputs["log_vars"]))

        def after_val_epoch(self, runner: Any, metrics: Any = None) -> None:
            trail.append(metrics)

        def after_run(self, runner: Any) -> None:
            trail.append("after_run")

    runner = make(max_epochs=1, hooks=[Theirs()])
    runner.fit([1.0, 2.0], [3.0])
    assert trail == [
        "before_train",
        "before_train_epoch 0",
        (0, 0, 1.0, {"loss": 1.0}),
        (1, 1, 2.0, {"loss": 2.0}),
        {"loss": 2.0, "val_loss": 3.0},
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
