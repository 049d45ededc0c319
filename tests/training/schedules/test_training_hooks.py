"""mmcv's way to register all hooks of a run, and taking hooks off a run."""

from __future__ import annotations

from typing import Any

import pytest

from aspecthook import ConfigError, hooks
from aspecthook.training import Hook
from aspecthook.training.keras import LambdaCallback
from tests.training.loop.test_runner import make


def test_the_hooks_of_a_usual_run_have_the_priorities_of_mmcv() -> None:
    runner = make()
    runner.optimizer.param_groups[0]["momentum"] = 0.9

    class Own(Hook):
        def before_run(self) -> None: ...

    configs: dict[str, Any] = {
        "lr_config": {"policy": "step", "step": [8, 11]},
        "optimizer_config": {"grad_clip": {"max_norm": 35}},
        "checkpoint_config": {"interval": 1},
        "log_config": {"interval": 50, "hooks": [{"type": "TextLoggerHook"}]},
        "momentum_config": {"policy": "cyclic"},
        "custom_hooks": [Own(), {"type": "NanGuardHook", "priority": "LOWEST", "name": "guard"}],
    }
    before = repr(configs)
    runner.register_training_hooks(**configs)
    assert repr(configs) == before
    mounts = [hooks(getattr(runner, stage)) for stage in ("run", "train_iter", "optimizer_step")]
    priorities = {hook.name: hook.priority for mount in mounts for hook in (*mount.pre, *mount.post)}
    assert [(name, priorities[name]) for name in (type(hook).__name__ for hook in runner.hooks)] == [
        ("LrUpdaterHook", 10),
        ("MomentumUpdaterHook", 30),
        ("OptimizerHook", 40),
        ("CheckpointHook", 50),
        ("IterTimerHook", 70),
        ("TextLoggerHook", 90),
        ("Own", 50),
        ("NanGuardHook", 100),
    ]
    assert runner.hooks[5].interval == 50
    for options, by_epoch in (
        ({}, True),
        ({"max_epochs": None, "max_iters": 3}, False),
    ):  # loggers count as the run does
        runner = make(**options)
        runner.register_training_hooks(log_config={"interval": 3})
        assert runner.hooks[-1].by_epoch is by_epoch


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"lr_config": {"policy": "stpe", "step": 3}}, "there is no policy 'stpe'.*did you mean 'step'"),
        ({"checkpoint_config": {"intervall": 1}}, "takes no 'intervall'.*did you mean 'interval'"),
        ({"custom_hooks": [{"type": "EMAHok"}]}, "'EMAHok' is not registered.*did you mean 'EMAHook'"),
        ({"log_config": {"intervall": 3}}, "takes no 'intervall'.*did you mean 'interval'"),
        ({"log_config": {"interval": 3, "hooks": ["TxtLoggerHook"]}}, "did you mean 'TextLoggerHook'"),
    ],
)
def test_if_one_cannot_be_built_none_is_registered(config: Any, message: str) -> None:
    runner = make()
    with pytest.raises(ConfigError, match=message):
        runner.register_training_hooks(**{"lr_config": {"policy": "fixed"}, **config})
    assert runner.hooks == []


def test_the_error_of_a_refused_hook_is_not_hidden_by_what_its_neighbours_have_brought_along() -> None:
    """The lifecycle of the callbacks was to be removed like a hook, which failed with another error."""

    class Misspelt(Hook):
        def before_tran_iter(self) -> None: ...

    runner = make()
    with pytest.raises(TypeError, match="before_train_iter"):
        runner.register_training_hooks(custom_hooks=[LambdaCallback(on_train_begin=lambda logs: None), Misspelt()])
    assert runner.hooks == []
