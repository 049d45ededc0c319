"""Keras callbacks on a `Runner`, and the callbacks of this package in ``keras.Model.fit``.

Register a callback by ``runner.register_hook(callback)``, whether it is one of these or one of the real
``keras.callbacks``. Keras need not be installed.

Inside: `_callback` has the base class and the model that a callback sees, and finds the methods of a callback that do
anything. `_lifecycle` makes them hooks on the stages of a run, finds out where an epoch ends, and what its logs are.
`_monitor` and `_callbacks` are the callbacks themselves.
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
