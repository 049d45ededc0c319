"""The settings of an estimator: how often it saves and logs, and the data to train and evaluate on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, final

from aspecthook._errors import HookOptionError
from aspecthook.training._options import function, one_of, optional_number
from aspecthook.training.loop._run import Run

# Any: an input_fn returns a loader, or anything else that yields batches.
InputFn = Callable[..., Any]


def checked_input(input_fn: Any, who: str) -> InputFn:
    """Return a function that returns data; refuse the data themselves."""
    found: InputFn = function(who, "input_fn", input_fn, "give a function that returns the data: lambda: loader")
    return found


@final
@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """How often an `Estimator` saves, writes and logs.

    Args:
        save_checkpoints_steps: The steps between two checkpoints.
        save_checkpoints_secs: The seconds between two checkpoints; 600 unless steps are given.
        keep_checkpoint_max: How many checkpoints to keep; None for all.
        save_summary_steps: The steps between two summaries; None for none.
        log_step_count_steps: Log the loss, and the steps per second, every N steps; None for never.

    Example:
        >>> RunConfig(save_checkpoints_steps=100).save_checkpoints_secs is None
        True
    """

    save_checkpoints_steps: int | None = None
    save_checkpoints_secs: float | None = None
    keep_checkpoint_max: int | None = 5
    save_summary_steps: int | None = 100
    log_step_count_steps: int | None = 100

    def __post_init__(self) -> None:
        for name in ("save_checkpoints_steps", "keep_checkpoint_max", "save_summary_steps", "log_step_count_steps"):
            optional_number("RunConfig", name, getattr(self, name), 1)
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise HookOptionError("RunConfig: give save_checkpoints_steps or save_checkpoints_secs; both are given")
        if self.save_checkpoints_steps is None and self.save_checkpoints_secs is None:
            object.__setattr__(self, "save_checkpoints_secs", 600.0)


class ModeKeys(StrEnum):
    """What a `model_fn` is called for.

    Example:
        >>> ModeKeys.EVAL == "eval"
        True
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "predict"


@final
@dataclass(frozen=True)
class EstimatorSpec:
    """A runner with hooks, which a `model_fn` may return in place of a runner alone.

    Args:
        mode: The mode that the function was called for.
        runner: The runner.
        training_hooks: The hooks of each training.
        training_chief_hooks: Hooks of each training for rank 0 alone.
        evaluation_hooks: The hooks of each evaluation.
        prediction_hooks: The hooks of each prediction.

    Example:
        >>> from aspecthook.training import Runner
        >>> EstimatorSpec(ModeKeys.TRAIN, Runner(abs)).training_hooks
        ()
        >>> EstimatorSpec("training", Runner(abs))
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: EstimatorSpec(mode='training'): give 'train', 'eval' or 'predict'...
    """

    mode: str
    runner: Run
    training_hooks: Iterable[Any] = ()
    training_chief_hooks: Iterable[Any] = ()
    evaluation_hooks: Iterable[Any] = ()
    prediction_hooks: Iterable[Any] = ()

    def __post_init__(self) -> None:
        one_of("EstimatorSpec", "mode", self.mode, [str(key) for key in ModeKeys])
        for name in ("training_hooks", "training_chief_hooks", "evaluation_hooks", "prediction_hooks"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def hooks_for(self, mode: str) -> list[Any]:
        """Return the hooks of this process for a mode."""
        by_mode = {"train": self.training_hooks, "eval": self.evaluation_hooks, "predict": self.prediction_hooks}
        chief = self.training_chief_hooks if mode == "train" and self.runner.rank == 0 else ()
        return [*chief, *by_mode[mode]]
