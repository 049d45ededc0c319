"""Callbacks of a few lines: the history of the logs, learning rates by epoch, a stop at NaN, functions as callbacks."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from numbers import Integral, Real
from typing import Any, final

from aspecthook._errors import HookOptionError, HookSignatureError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, function, takes
from aspecthook.training._ranks import any_rank
from aspecthook.training.hooks._hook import HOOKS

from ._callback import METHODS, Callback, Logs
from ._run_model import rate_of


@HOOKS.register
class History(Callback):
    """Keep the logs of all epochs.

    Attributes:
        history: The values of all epochs, by name; those of further trainings are appended.
        epoch: The epochs of the last training.

    Example:
        >>> history = History()
        >>> history.on_train_begin()
        >>> history.on_epoch_end(0, {"loss": 0.5})
        >>> history.epoch, history.history
        ([0], {'loss': [0.5]})
    """

    _kept = ("history", "epoch")

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list[Any]] = {}
        self.epoch: list[int] = []

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin a new list of epochs, unless the run is resumed."""
        if self._begins_anew:
            self.epoch = []

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Append the logs."""
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)
        if self.model is not None:
            self.model.history = self


@HOOKS.register
class LearningRateScheduler(Callback):
    """Set the learning rate before each epoch.

    Args:
        schedule: A function of the epoch and the rate, or of the epoch alone, that returns the new rate as a float.
        verbose: 1 to print each rate.

    Example:
        >>> scheduler = LearningRateScheduler(lambda epoch, lr: lr if epoch < 10 else lr * 0.9)
        >>> scheduler.schedule(10, 1.0)
        0.9
    """

    # Nothing has to be kept: the optimizer of a resumed run has its rate, and must not get it again within an epoch.
    _kept = ()

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        self.schedule: Callable[..., float] = function("LearningRateScheduler", "schedule", schedule)
        self.verbose = verbose
        self._takes_rate = takes(schedule, 2)
        if not self._takes_rate and not takes(schedule, 1):
            raise HookSignatureError(
                "LearningRateScheduler: give a schedule that takes the epoch and the rate, or the epoch"
            )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Set the rate, which must be a float."""
        optimizer = self.model.optimizer
        rate: Any = self.schedule(epoch, rate_of(optimizer)) if self._takes_rate else self.schedule(epoch)
        if not isinstance(rate, Real) or isinstance(rate, Integral):
            raise TrainingError(
                f"LearningRateScheduler: the schedule returned {brief(rate)} for epoch {epoch}; return a float"
            )
        optimizer.learning_rate = float(rate)
        if self.verbose:
            print(f"LearningRateScheduler: the learning rate of epoch {epoch + 1} is {rate_of(optimizer):g}")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Put the rate into `logs`, for other callbacks."""
        if logs is not None:
            logs["learning_rate"] = rate_of(self.model.optimizer)


@HOOKS.register
class TerminateOnNaN(Callback):
    """Stop training when the loss is infinite or NaN; on all ranks, if it is so on one.

    Args:
        raise_error: Whether to raise an error instead; `on_train_end` is not called then.

    Example:
        >>> TerminateOnNaN().on_train_batch_end(0, {"loss": 0.5})
        >>> TerminateOnNaN(raise_error=True).on_train_batch_end(3, {"loss": float("nan")})
        Traceback (most recent call last):
          ...
        aspecthook.training.TrainingError: the loss is nan after batch 4 of the epoch; ...
    """

    def __init__(self, raise_error: bool = False) -> None:
        super().__init__()
        self.raise_error: bool = flag("TerminateOnNaN", "raise_error", raise_error)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Check the loss."""
        loss = (logs or {}).get("loss")
        if not any_rank(loss is not None and not isfinite(loss)):
            return
        text = f"the loss is {loss} after batch {batch + 1} of the epoch"
        if self.raise_error:
            raise TrainingError(f"{text}; lower the learning rate, clip the gradients, or check the data")
        print(f"TerminateOnNaN: {text}; training stops")
        self.model.stop_training = True


@final
@HOOKS.register
class LambdaCallback(Callback):
    """Make a callback of functions.

    Args:
        functions: Functions by the names of the methods, such as ``on_epoch_end``, which are called as those are.

    Example:
        >>> LambdaCallback(on_test_end=lambda logs: print(logs)).on_test_end({"loss": 0.5})
        {'loss': 0.5}
        >>> LambdaCallback(on_epoch_ends=print)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ... did you mean 'on_epoch_end'?
    """

    def __init__(self, **functions: Callable[..., Any] | None) -> None:
        super().__init__()
        for name, given in functions.items():
            if name not in METHODS:
                near = nearest(name, list(METHODS))
                raise HookOptionError(f"LambdaCallback: {name!r} is none of {', '.join(METHODS)}{near}")
            if given is not None:
                setattr(self, name, function("LambdaCallback", name, given))
