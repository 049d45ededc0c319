"""Keras callbacks on a `Runner`, and the callbacks of this package in ``keras.Model.fit``.

Register a callback of this module, or of ``keras.callbacks``, with ``runner.register_hook(callback)``. Keras need not
be installed.

For maintainers: `_callback` has the base class and the model that a callback sees, and finds the methods that a
callback overrides. `_lifecycle` turns these methods into hooks on the stages of a run, and determines where an epoch
ends and what its logs are. `_monitor` and `_callbacks` are the callbacks themselves.
"""

from __future__ import annotations

from ._callback import Callback
from ._callbacks import (
    BackupAndRestore,
    CallbackList,
    CSVLogger,
    History,
    LambdaCallback,
    LearningRateScheduler,
    TerminateOnNaN,
)
from ._monitor import EarlyStopping, ModelCheckpoint, ReduceLROnPlateau

__all__ = [
    "BackupAndRestore",
    "CSVLogger",
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "ReduceLROnPlateau",
    "TerminateOnNaN",
]
