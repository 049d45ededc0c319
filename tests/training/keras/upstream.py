"""A plugin of pytest, with which the tests that Keras ships of its callbacks test ours, in a fit of Keras.

``python -m pytest -p tests.training.keras.upstream``, on files of ``keras/src/callbacks``. They read private
attributes, so `OURS` are our callbacks with these. Tests in `EXPECTED` fail for a reason, and must fail.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any
from unittest.mock import MagicMock

import keras.src.callbacks
import keras.src.trainers.trainer
import pytest
from keras.src import ops

from aspecthook.training import keras as ours
from aspecthook.training.keras._monitor import MonitorCallback

_WORDS = "our message has other words"
_PRINTED = "what verbose=1 prints has other words, and is printed, not logged"
EXPECTED = {
    "test_terminate_on_nan_raise_error_raises_error": _WORDS,
    "LearningRateSchedulerTest::test_verbose_logging": _PRINTED,
    "ReduceLROnPlateauTest::test_verbose_logging": _PRINTED,
    "test_lambda_callback_with_additional_kwargs": "a function that would never be called is refused",
}
# Those that pass now and then.
SOMETIMES = {
    "test_raise_error_terminate_stops_on_later_batch": "our message counts batches from 1, and the data are shuffled",
}


class Monitor(MonitorCallback):
    """What Keras's tests ask of a monitor."""

    def _set_monitor_op(self) -> None:
        self._resolve_mode()

    def _is_improvement(self, value: float, other: float | None) -> bool:
        return self.is_better(value, other)

    @property
    def monitor_op(self) -> Any:
        return ops.less if self._resolve_mode() == "min" else ops.greater


class EarlyStopping(Monitor, ours.EarlyStopping):
    pass


class ModelCheckpoint(Monitor, ours.ModelCheckpoint):
    """Warns where ours logs or refuses: one long test has this among much else, and would end there."""

    def __init__(self, *args: Any, mode: Any = "auto", save_freq: Any = "epoch", **options: Any) -> None:
        if mode == "unknown":  # ours: HookOptionError
            warnings.warn("ModelCheckpoint mode 'unknown' is unknown", stacklevel=2)
            mode = "auto"
        try:
            super().__init__(*args, mode=mode, save_freq=save_freq, **options)
        except TypeError as error:
            raise ValueError("Unrecognized save_freq") from error

    def get_monitor_value(self, logs: Any) -> Any:
        value = super().get_monitor_value(logs)
        if value is None:  # ours: a line in the log
            warnings.warn("there is no such number", stacklevel=2)
        return value


OURS: dict[str, Any] = {
    **{name: getattr(ours, name) for name in ours.__all__ if name not in ("Callback", "CallbackList", "Model")},
    "MonitorCallback": Monitor,
    "EarlyStopping": EarlyStopping,
    "ModelCheckpoint": ModelCheckpoint,
}
for _name, _callback in OURS.items():
    setattr(keras.src.callbacks, _name, _callback)

_compile = keras.src.trainers.trainer.Trainer.compile


def _without_jit(self: Any, *args: Any, jit_compile: object = None, **options: Any) -> None:
    _compile(self, *args, jit_compile=False, **options)  # a compiler takes minutes, and is not what is tested


keras.src.trainers.trainer.Trainer.compile = _without_jit

# Imported by files whose tests use it only where it is the back end; while tests run, Keras must not find it.
_TENSORFLOW = ("tensorflow", "tensorflow.python", "tensorflow.python.eager", "tensorflow.python.eager.context")
_stubs = [module for module in _TENSORFLOW if module not in sys.modules]
sys.modules.update({module: MagicMock(__spec__=None) for module in _stubs})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are expected to fail; raise if one of them is gone."""
    for end, why in {**EXPECTED, **SOMETIMES}.items():
        found = [item for item in items if item.nodeid.endswith(f"::{end}")]
        if not found:
            raise pytest.UsageError(f"Keras has no test {end} any more")
        for item in found:
            item.add_marker(pytest.mark.xfail(reason=why, strict=end in EXPECTED))


def pytest_collection_finish() -> None:
    for module in _stubs:
        del sys.modules[module]
