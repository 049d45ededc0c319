"""Callbacks that watch a number: when it has become better, and what they do when it has not."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Literal, TypeAlias

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._options import finite_number, whole_number
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._monitor import known_rule

from ._callback import Continuing, Logs

Mode: TypeAlias = Literal["auto", "min", "max"]

_VAL = "val_"


def direction(monitor: str) -> Mode | None:
    """Say by the name of a number whether its minimum or its maximum is sought; None if the name does not tell."""
    rule = known_rule(monitor)
    return None if rule is None else "min" if rule == "less" else "max"


class MonitorCallback(Continuing):
    """The base of callbacks that watch a number. It is better if it is so by more than `min_delta`, or the first.

    Args:
        monitor: The name of the number in `logs`.
        mode: Whether ``"min"`` or ``"max"`` is sought; ``"auto"`` asks the metrics that ``keras.Model`` has compiled,
            and else goes by the name, such as ``loss`` or ``accuracy``.
        baseline: What counts as the best one at first.
        min_delta: By how much it must be better.

    Attributes:
        best: The best one so far.

    Raises:
        HookOptionError: There is no such mode, or `min_delta` is not finite.
        HookTypeError: An option is of another type.

    Example:
        >>> class Record(MonitorCallback):
        ...     def on_epoch_end(self, epoch, logs=None):
        ...         value = self.get_monitor_value(logs)
        ...         if self.is_better(value, self.best):
        ...             self.best = value
        >>> record = Record("val_accuracy")
        >>> for epoch, accuracy in enumerate([0.5, 0.75, 0.6]):
        ...     record.on_epoch_end(epoch, {"val_accuracy": accuracy})
        >>> record.best
        0.75
    """

    def __init__(
        self, monitor: str = "val_loss", mode: Mode = "auto", baseline: float | None = None, min_delta: float = 0.0
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if not isinstance(monitor, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"{who}: monitor={brief(monitor)} is no name of a number")
        if mode not in ("auto", "min", "max"):
            near = nearest(str(mode), ["auto", "min", "max"])
            raise HookOptionError(f"{who}(mode={brief(mode)}): give 'min', 'max' or 'auto'{near}")
        self.monitor = monitor
        self.mode: Mode = mode
        self.best: float | None = baseline if baseline in (None, inf) else finite_number(who, "baseline", baseline)
        self.min_delta = abs(finite_number(who, "min_delta", min_delta))
        self._seeks: Mode | None = None if mode == "auto" else mode

    def is_better(self, value: float, other: float | None) -> bool:
        """Say whether a number is better than another one by more than `min_delta`.

        Raises:
            HookOptionError: Which way is better was not said, and cannot be known.
        """
        if other is None:
            return True
        if self._seeks is None:
            self._seeks = self._known()
        return value + self.min_delta < other if self._seeks == "min" else value - self.min_delta > other

    def _known(self) -> Mode:
        name = self.monitor.removeprefix(_VAL)
        for metric in _metrics(self.model):
            if getattr(metric, "name", None) == name and hasattr(metric, "_direction"):
                return "max" if metric._direction == "up" else "min"
        found = direction(name)
        if found is None:
            raise HookOptionError(
                f"{type(self).__name__}: whether a greater or a lesser {self.monitor!r} is better cannot be known by "
                "its name; give mode='max' or mode='min'"
            )
        return found

    def get_monitor_value(self, logs: Logs) -> Any:
        """Give the number; None, and a warning in the log, if it is not there."""
        found = (logs or {}).get(self.monitor)
        if found is None and not getattr(self.model, "stop_training", False):  # else nothing was validated any more
            there = list(logs or {})
            _log().warning(
                "%s: there is no %r; there are: %s%s",
                type(self).__name__,
                self.monitor,
                ", ".join(there) or "none",
                nearest(self.monitor, there),
            )
        return found


def _metrics(model: Any) -> Iterator[Any]:
    for metric in getattr(model, "metrics", ()):
        yield metric
        yield from getattr(metric, "metrics", ())


def _log() -> logging.Logger:
    return logging.getLogger("aspecthook.training")


@HOOKS.register
class EarlyStopping(MonitorCallback):
    """End training where a number has become no better for some epochs.

    Args:
        monitor: The name of the number in `logs`.
        min_delta: By how much it must be better.
        patience: After how many epochs without that to stop.
        verbose: Whether to say so.
        mode: See `MonitorCallback`.
        baseline: What must be bettered, too, for the waiting to begin anew.
        restore_best_weights: Whether to put the weights of the best epoch back when training ends, for whatever reason.
        start_from_epoch: How many epochs to let pass first.

    Attributes:
        best: The best number so far.
        best_epoch: The epoch that made it.
        wait: How many epochs were no better since.
        stopped_epoch: The epoch after which it has stopped; 0 if it has not.

    Raises:
        HookOptionError: An option has a value that it cannot have.
        HookTypeError: An option is of another type.

    Example:
        >>> EarlyStopping("val_accuracy", patience=3, restore_best_weights=True).patience
        3
        >>> EarlyStopping(mode="maximum")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: EarlyStopping(mode='maximum'): give 'min', 'max' or 'auto'; did you mean 'max'?
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        verbose: int = 0,
        mode: Mode = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta=min_delta)
        who = type(self).__name__
        self.patience = whole_number(who, "patience", patience, 0)
        self.verbose = verbose
        self.baseline = None if baseline is None else finite_number(who, "baseline", baseline)
        self.restore_best_weights = restore_best_weights
        self.start_from_epoch = whole_number(who, "start_from_epoch", start_from_epoch, 0)
        self._reset()

    def _reset(self) -> None:
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best = None
        self.best_weights: list[Any] | None = None  # Any: arrays

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Forget the last training; one that had been stopped, and is resumed, is stopped again."""
        if self.begins_anew():
            self._reset()
        elif self.stopped_epoch > 0:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Judge the epoch."""
        value = self.get_monitor_value(logs)
        if value is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:  # even one that is not a number
            self._keep(epoch)
        self.wait += 1
        if self.is_better(value, self.best):
            self.best = value
            self._keep(epoch)
            if self.baseline is None or self.is_better(value, self.baseline):
                self.wait = 0
        elif self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def _keep(self, epoch: int) -> None:
        self.best_epoch = epoch
        if self.restore_best_weights:
            self.best_weights = self.model.get_weights()

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Put the best weights back."""
        if self.verbose and self.stopped_epoch:
            print(f"EarlyStopping: ended after epoch {self.stopped_epoch + 1}; the best was {self.best}")
        if self.best_weights is not None:
            if self.verbose:
                print(f"EarlyStopping: the weights are those of epoch {self.best_epoch + 1}")
            self.model.set_weights(self.best_weights)

    def state_dict(self) -> dict[str, Any]:
        """Give what was best, and how long it has been waited."""
        return {
            "wait": self.wait,
            "stopped_epoch": self.stopped_epoch,
            "best": self.best,
            "best_epoch": self.best_epoch,
            "best_weights": self.best_weights,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self.wait, self.stopped_epoch = int(state["wait"]), int(state["stopped_epoch"])
        self.best, self.best_epoch, self.best_weights = state["best"], state["best_epoch"], state["best_weights"]
        self._loaded = True


@HOOKS.register
class ReduceLROnPlateau(MonitorCallback):
    """Lower the learning rate where a number has become no better for some epochs.

    Args:
        monitor: The name of the number in `logs`.
        factor: What the rate is multiplied by; less than 1.
        patience: After how many epochs without an improvement.
        verbose: Whether to say so.
        mode: See `MonitorCallback`.
        min_delta: By how much the number must be better.
        cooldown: How many epochs to wait, after the rate was lowered, before counting again.
        min_lr: The least rate.

    Attributes:
        best: The best number so far.
        wait: How many epochs were no better since.
        cooldown_counter: How many epochs are still to be waited.

    Raises:
        HookOptionError: An option has a value that it cannot have.
        HookTypeError: An option is of another type.

    Example:
        >>> ReduceLROnPlateau(factor=0.5, patience=5).in_cooldown()
        False
        >>> ReduceLROnPlateau(factor=2.0)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ReduceLROnPlateau: factor=2.0; give a number below 1
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: Mode = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        super().__init__(monitor, mode, min_delta=min_delta)
        who = type(self).__name__
        self.factor = finite_number(who, "factor", factor, below=1)
        self.patience = whole_number(who, "patience", patience, 0)
        self.verbose = verbose
        self.cooldown = whole_number(who, "cooldown", cooldown, 0)
        self.min_lr = finite_number(who, "min_lr", min_lr)
        self.cooldown_counter = self.wait = 0

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Forget the last training."""
        if self.begins_anew():
            self.best = None
            self.cooldown_counter = self.wait = 0

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Judge the epoch; other callbacks find the rate in `logs`."""
        logs = {} if logs is None else logs
        logs.update(rates(self.model))
        value = self.get_monitor_value(logs)
        if value is None:
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if self.is_better(value, self.best):
            self.best, self.wait = value, 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience and self._reduce(epoch):
                self.cooldown_counter, self.wait = self.cooldown, 0

    def _reduce(self, epoch: int) -> bool:
        """Lower the rates, and say whether any was."""
        lowered = False
        for optimizer in optimizers(self.model):
            rate = rate_of(optimizer)
            if rate > self.min_lr:
                lowered = True
                optimizer.learning_rate = max(rate * self.factor, self.min_lr)
                if self.verbose:
                    print(f"ReduceLROnPlateau: the learning rate after epoch {epoch + 1} is {rate_of(optimizer):g}")
        return lowered

    def in_cooldown(self) -> bool:
        """Say whether it is waiting after it has lowered the rate."""
        return self.cooldown_counter > 0

    def state_dict(self) -> dict[str, Any]:
        """Give what was best, and how long it has been waited."""
        return {"best": self.best, "wait": self.wait, "cooldown_counter": self.cooldown_counter}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self.best, self.wait = state["best"], int(state["wait"])
        self.cooldown_counter, self._loaded = int(state["cooldown_counter"]), True


def optimizers(model: Any) -> list[Any]:
    """Give the optimizer of a model; those of Keras's ``MultiOptimizer``."""
    return list(getattr(model.optimizer, "optimizers", (model.optimizer,)))


def rate_of(optimizer: Any) -> float:
    """Give the learning rate of an optimizer, ours or one of Keras."""
    rate = optimizer.learning_rate
    return float(rate.numpy() if hasattr(rate, "numpy") else rate)


def rates(model: Any) -> dict[str, float]:
    """Give the learning rates as Keras logs them."""
    if hasattr(model.optimizer, "optimizers"):
        return {f"learning_rate_{optimizer.name}": rate_of(optimizer) for optimizer in optimizers(model)}
    return {"learning_rate": rate_of(model.optimizer)}
