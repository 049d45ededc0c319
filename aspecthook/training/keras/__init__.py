"""Keras's callbacks on our runner, and ours in a fit of Keras.

A callback is registered by ``runner.register_hook(callback)``, whether it is one of these or of the real
``keras.callbacks``; Keras itself is not needed.
"""

from __future__ import annotations

from ._backup import BackupAndRestore
from ._callback import Callback
from ._files import CSVLogger, ModelCheckpoint
from ._list import CallbackList
from ._model import Model
from ._monitor import EarlyStopping, MonitorCallback, ReduceLROnPlateau
from ._progress import ProgbarLogger
from ._simple import History, LambdaCallback, LearningRateScheduler, TerminateOnNaN
from ._tensorboard import TensorBoard

__all__ = [
    "BackupAndRestore",
    "CSVLogger",
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "Model",
    "ModelCheckpoint",
    "MonitorCallback",
    "ProgbarLogger",
    "ReduceLROnPlateau",
    "TensorBoard",
    "TerminateOnNaN",
]
