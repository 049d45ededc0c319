"""Session-run hooks as TensorFlow 1 has them, on the stages of a runner; and sessions that make a step at each call.

`_bindings` adds the hooks to the stages of a run, and has what the hooks of one runner share. `_fetches` reads the
values of a step. `MonitoredTrainingSession` runs the same stages with pauses, and `Estimator` uses such sessions.

Example:
    >>> import numpy as np
    >>> from aspecthook.training import Runner
    >>> from aspecthook.training.numpy import SGD, Linear, mse
    >>> from aspecthook.training.session import MonitoredTrainingSession
    >>> model = Linear(1, 1)
    >>> runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse, max_epochs=1)
    >>> with MonitoredTrainingSession(runner, [(np.ones((4, 1)), np.zeros((4, 1)))] * 3) as session:
    ...     while not session.should_stop():
    ...         step, rate = session.run(["global_step", "lr"])
    >>> step, rate
    (2, 0.1)
"""

from __future__ import annotations

from ._checkpoints import CheckpointSaverHook, CheckpointSaverListener
from ._estimator import Estimator
from ._hooks import (
    FinalOpsHook,
    LoggingTensorHook,
    NanTensorHook,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
)
from ._monitored import MonitoredTrainingSession
from ._protocol import (
    AbortedError,
    NanLossDuringTrainingError,
    OutOfRangeError,
    Session,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

__all__ = [
    "AbortedError",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "Estimator",
    "FinalOpsHook",
    "LoggingTensorHook",
    "MonitoredTrainingSession",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "OutOfRangeError",
    "Session",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
]
