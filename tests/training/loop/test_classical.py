"""The methods of mmcv's runner beside its stages, and the questions of mmcv's and mmengine's hooks."""

from __future__ import annotations

from typing import Any

import pytest

from aspecthook import hooks
from aspecthook.training import Hook
from aspecthook.training.loop._dialect import NAMES
from tests.training.kit import data, run_of
from tests.training.loop.test_runner import make


@pytest.mark.parametrize(
    ("name", "config", "row"),
    [
        ("lr", {"policy": "step", "step": 3}, ("LrUpdaterHook", 10)),
        ("momentum", {"policy": "fixed"}, ("MomentumUpdaterHook", 30)),
        ("optimizer", {"grad_clip": None}, ("OptimizerHook", 40)),
        ("checkpoint", {"interval": 1}, ("CheckpointHook", 50)),
        ("timer", {"type": "IterTimerHook"}, ("IterTimerHook", 70)),
        ("log", {"interval": 5}, ("TextLoggerHook", 90)),
        ("custom", [{"type": "DistSamplerSeedHook"}], ("DistSamplerSeedHook", 50)),
    ],
)
def test_each_usual_hook_is_registered_alone_with_the_priority_of_mmcv(
    name: str, config: Any, row: tuple[str, int]
) -> None:
    runner = make()
    argument = f"{name}_{'hooks' if name == 'custom' else 'config'}"
    runner.register_training_hooks(**{"timer_config": None, argument: config})
    assert [type(hook).__name__ for hook in runner.hooks] == [row[0]]
    stages = [hooks(getattr(runner, stage.method)) for stage in NAMES.values()]
    found = {(hook.name, hook.priority) for stage in stages for hook in stage}
    assert found <= {row}
    runner.register_training_hooks(timer_config=None)
    assert len(runner.hooks) == 1


def test_a_hook_is_asked_whether_an_iteration_or_an_epoch_is_the_last() -> None:
    seen: list[Any] = []

    class Ask(Hook):
        def after_train_iter(self, runner: Any) -> None:
            seen.append(
                (
                    self.every_n_iters(runner, 2),
                    self.every_n_iters(runner, 2, start=1),
                    self.is_last_epoch(runner),
                    self.is_last_iter(runner),
                )
            )

    run_of("numpy", hooks=[Ask()], max_epochs=2).fit(data(2))
    assert seen == [
        (False, True, False, False),
        (True, False, False, False),
        (False, True, True, False),
        (True, False, True, True),
    ]
