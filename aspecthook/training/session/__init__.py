"""Session-run hooks as TensorFlow 1 has them, on the stages of a runner; and sessions that make a step at each call.

`_protocol` adds the hooks to the stages of a run, and has what the hooks of one runner share. `_fetches` reads the
values of a step. `MonitoredTrainingSession` runs the same stages with pauses.
"""

from __future__ import annotations

from ._hooks import CheckpointSaverHook, LoggingTensorHook, NanTensorHook, StopAtStepHook
from ._monitored import Estimator, MonitoredTrainingSession
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
    "Estimator",
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
    "StopAtStepHook",
]
