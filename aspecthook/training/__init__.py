"""A training runner whose every step is a mount point.

The runner imports neither NumPy nor PyTorch: it works on what has their shapes. `aspecthook.training.numpy` has models,
losses and optimizers for NumPy, `aspecthook.training.loading` loaders that can be resumed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._activations import ActivationHistogramHook, DeadNeuronHook
    from ._checkpoint_hooks import CheckpointHook, CheckpointLoaderHook
    from ._ema import EMAHook
    from ._errors import TrainingError
    from ._evaluation import DistEvalHook, EarlyStoppingHook, EvalHook
    from ._guards import AmpOptimizerHook, DistSamplerSeedHook, NanGuardHook, NanLossError, OptimizerHook
    from ._hooks import HOOKS, Hook
    from ._loggers import CsvLoggerHook, JsonLoggerHook, LoggerHook, TextLoggerHook
    from ._plots import PlotHook
    from ._profiler import ProfilerHook
    from ._progress import ProgressHook
    from ._report import ReportHook
    from ._runner import Runner
    from ._schedules import LrUpdaterHook, MomentumUpdaterHook
    from ._tensorboard import TensorboardLoggerHook
    from ._timers import IterTimerHook

__all__ = [
    "HOOKS",
    "ActivationHistogramHook",
    "AmpOptimizerHook",
    "CheckpointHook",
    "CheckpointLoaderHook",
    "CsvLoggerHook",
    "DeadNeuronHook",
    "DistEvalHook",
    "DistSamplerSeedHook",
    "EMAHook",
    "EarlyStoppingHook",
    "EvalHook",
    "Hook",
    "IterTimerHook",
    "JsonLoggerHook",
    "LoggerHook",
    "LrUpdaterHook",
    "MomentumUpdaterHook",
    "NanGuardHook",
    "NanLossError",
    "OptimizerHook",
    "PlotHook",
    "ProfilerHook",
    "ProgressHook",
    "ReportHook",
    "Runner",
    "TensorboardLoggerHook",
    "TextLoggerHook",
    "TrainingError",
]

# Where each is written; the modules are loaded when they are first asked for.
_HOMES = {
    **dict.fromkeys(("ActivationHistogramHook", "DeadNeuronHook"), "_activations"),
    **dict.fromkeys(("CheckpointHook", "CheckpointLoaderHook"), "_checkpoint_hooks"),
    **dict.fromkeys(("DistEvalHook", "EarlyStoppingHook", "EvalHook"), "_evaluation"),
    **dict.fromkeys(
        ("AmpOptimizerHook", "DistSamplerSeedHook", "NanGuardHook", "NanLossError", "OptimizerHook"), "_guards"
    ),
    **dict.fromkeys(("HOOKS", "Hook"), "_hooks"),
    **dict.fromkeys(("LrUpdaterHook", "MomentumUpdaterHook"), "_schedules"),
    **dict.fromkeys(("CsvLoggerHook", "JsonLoggerHook", "LoggerHook", "TextLoggerHook"), "_loggers"),
    "EMAHook": "_ema",
    "IterTimerHook": "_timers",
    "PlotHook": "_plots",
    "ProfilerHook": "_profiler",
    "ProgressHook": "_progress",
    "ReportHook": "_report",
    "TensorboardLoggerHook": "_tensorboard",
    "Runner": "_runner",
    "TrainingError": "_errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
