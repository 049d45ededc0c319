"""Session-run hooks as TensorFlow 1 has them, on the stages of a runner; and sessions that make a step at each call.

`_bindings` adds the hooks to the stages of a run; the hooks of one runner share a `SessionState`. `_drive` runs the
same stages with pauses, for `MonitoredTrainingSession`, and `Estimator` uses such sessions.

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

from typing import TYPE_CHECKING

from aspecthook._lazy import lazy

if TYPE_CHECKING:
    from ._checkpoints import CheckpointSaverHook, CheckpointSaverListener
    from ._errors import AbortedError, NanLossDuringTrainingError, OutOfRangeError, UnavailableError
    from ._estimator import Estimator, train_and_evaluate
    from ._hooks import FeedFnHook, FinalOpsHook, LoggingTensorHook, NanTensorHook, StepCounterHook, StopAtStepHook
    from ._monitored import MonitoredTrainingSession
    from ._protocol import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
    from ._session import Coordinator, Session
    from ._specs import EvalSpec, RunConfig, TrainSpec
    from ._summaries import SummarySaverHook
    from ._timers import SecondOrStepTimer

__all__ = [
    "AbortedError",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "Coordinator",
    "Estimator",
    "EvalSpec",
    "FeedFnHook",
    "FinalOpsHook",
    "LoggingTensorHook",
    "MonitoredTrainingSession",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "OutOfRangeError",
    "RunConfig",
    "SecondOrStepTimer",
    "Session",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "TrainSpec",
    "UnavailableError",
    "train_and_evaluate",
]

# The module of each name; it is loaded when the name is first asked for.
__getattr__ = lazy(
    __name__,
    {
        **dict.fromkeys(
            ("FeedFnHook", "FinalOpsHook", "LoggingTensorHook", "NanTensorHook", "StepCounterHook", "StopAtStepHook"),
            "_hooks",
        ),
        **dict.fromkeys(
            ("AbortedError", "NanLossDuringTrainingError", "OutOfRangeError", "UnavailableError"), "_errors"
        ),
        **dict.fromkeys(("Estimator", "train_and_evaluate"), "_estimator"),
        **dict.fromkeys(("SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues"), "_protocol"),
        **dict.fromkeys(("CheckpointSaverHook", "CheckpointSaverListener"), "_checkpoints"),
        **dict.fromkeys(("Coordinator", "Session"), "_session"),
        **dict.fromkeys(("EvalSpec", "RunConfig", "TrainSpec"), "_specs"),
        "MonitoredTrainingSession": "_monitored",
        "SecondOrStepTimer": "_timers",
        "SummarySaverHook": "_summaries",
    },
)
