"""Session-run hooks in the style of TensorFlow 1, and sessions that make one step at each call.

For maintainers: `_protocol` adds the hooks to the stages of a run, and has the state that the hooks of one runner
share. `_fetches` reads the values of a step. `MonitoredTrainingSession` runs the same stages with pauses.
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
