"""A training runner in which every step is a mount point.

The runner imports neither NumPy nor PyTorch: it trains any object that has the methods it calls.
`aspecthook.training.numpy` has models, losses and optimizers for NumPy, and `aspecthook.training.data` has loaders that
can be resumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._errors import TrainingError
    from .hooks._checkpoint import CheckpointHook, CheckpointLoaderHook
    from .hooks._ema import EMAHook
    from .hooks._evaluation import EvalHook
    from .hooks._hook import HOOKS, DistSamplerSeedHook, Hook
    from .hooks._monitor import EarlyStoppingHook
    from .hooks._optimizer import AmpOptimizerHook, NanGuardHook, NanLossError, OptimizerHook
    from .logging._files import CsvLoggerHook, JsonLoggerHook, TensorboardLoggerHook, TextLoggerHook
    from .logging._loggers import IterTimerHook, LoggerHook, Row
    from .logging._progress import ProgressHook
    from .logging._report import PlotHook, ReportHook
    from .loop._runner import Runner
    from .registry._registry import Registry
    from .schedules._hooks import LrUpdaterHook, MomentumUpdaterHook

__all__ = [
    "HOOKS",
    "AmpOptimizerHook",
    "CheckpointHook",
    "CheckpointLoaderHook",
    "CsvLoggerHook",
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
    "ProgressHook",
    "Registry",
    "ReportHook",
    "Row",
    "Runner",
    "TensorboardLoggerHook",
    "TextLoggerHook",
    "TrainingError",
]

# The module of each name; it is loaded when the name is first asked for.
load_lazily(
    __name__,
    {
        "hooks._checkpoint": "CheckpointHook CheckpointLoaderHook",
        "hooks._evaluation": "EvalHook",
        "hooks._monitor": "EarlyStoppingHook",
        "hooks._optimizer": "AmpOptimizerHook NanGuardHook NanLossError OptimizerHook",
        "hooks._hook": "DistSamplerSeedHook HOOKS Hook",
        "schedules._hooks": "LrUpdaterHook MomentumUpdaterHook",
        "logging._files": "CsvLoggerHook JsonLoggerHook TensorboardLoggerHook TextLoggerHook",
        "logging._loggers": "IterTimerHook LoggerHook Row",
        "hooks._ema": "EMAHook",
        "logging._report": "PlotHook ReportHook",
        "logging._progress": "ProgressHook",
        "registry._registry": "Registry",
        "loop._runner": "Runner",
        "_errors": "TrainingError",
    },
)
