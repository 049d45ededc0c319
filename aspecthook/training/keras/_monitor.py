"""Callbacks that watch a number: they stop, lower the learning rate, or save the model."""

from __future__ import annotations

import logging
import os
from typing import Any, Literal, TypeAlias, get_args

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number, flag, one_of, whole_number
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._monitor import known_rule

from ._callback import Callback, Logs, RunModel

Mode: TypeAlias = Literal["min", "max", "auto"]

_USUAL = ["loss", "val_loss", "accuracy", "val_accuracy"]


def mode_by_name(monitor: str) -> Mode:
    """Return ``"min"`` or ``"max"``, whichever is better for a number of this name; "auto" if that is unknown."""
    modes: dict[str | None, Mode] = {"less": "min", "greater": "max", None: "auto"}
    return modes[known_rule(monitor)]


def save_freq_of(who: str, value: object) -> Literal["epoch"] | int:
    """Return when to save: after each epoch, or after so many batches."""
    return "epoch" if value == "epoch" else whole_number(who, "save_freq", value, 1)


class MonitorCallback(Callback):
    """The base of callbacks that watch a number in `logs`, and know the best one so far."""

    _compares = True  # whether it will ask `is_better`

    def __init__(
        self, monitor: str = "val_loss", mode: Mode = "auto", baseline: float | None = None, min_delta: float = 0.0
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if not isinstance(monitor, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"{who}: monitor={brief(monitor)} is not the name of a number")
        self.monitor = monitor
        self.mode: Mode = one_of(who, "mode", mode, get_args(Mode))
        self.best: float | None = None if baseline is None else finite_number(who, "baseline", baseline)
        self.min_delta: float = abs(finite_number(who, "min_delta", min_delta))
        self._resolved: Mode = mode  # never "auto" once `_resolve_mode` has returned

    def set_model(self, model: object) -> None:
        """Set ``model``; raise now if it is a run, and nothing shows whether a greater number is better."""
        super().set_model(model)
        if self._compares and isinstance(model, RunModel):
            self._resolve_mode()

    def is_better(self, value: float, other: float | None) -> bool:
        """Whether a number is better than another one by more than `min_delta`; any number is better than None."""
        lesser = self._resolve_mode() == "min"
        if other is None:
            return True
        return value + self.min_delta < other if lesser else value - self.min_delta > other

    def _resolve_mode(self) -> Mode:
        """Return "min" or "max"; for "auto", ask the metrics that Keras has compiled, then the name, or raise."""
        if self._resolved != "auto":
            return self._resolved
        name = self.monitor.removeprefix("val_")
        compiled = list(getattr(self.model, "metrics", ()))
        inside = [metric for group in compiled for metric in getattr(group, "metrics", ())]
        for metric in (*compiled, *inside):
            if getattr(metric, "name", None) == name and hasattr(metric, "_direction"):
                self._resolved = "max" if metric._direction == "up" else "min"
                return self._resolved
        self._resolved = mode_by_name(name)
        if self._resolved == "auto":
            raise HookOptionError(
                f"{type(self).__name__}: the name {self.monitor!r} does not show whether a greater or a lesser number "
                f"is better; give mode='max' or mode='min'{nearest(self.monitor, _USUAL)}"
            )
        return self._resolved

    def get_monitor_value(self, logs: Logs) -> Any:
        """Return the number; if it is missing, log a warning and return None."""
        value = (logs or {}).get(self.monitor)
        # A run that is stopping does not validate any more.
        if value is None and not getattr(self.model, "stop_training", False):
            if self._compares:
                self._resolve_mode()
            there = ", ".join(logs or ()) or "none"
            near = nearest(self.monitor, list(logs or ()))
            logger = logging.getLogger("aspecthook.training") if self._runner is None else self._runner.logger
            logger.warning(f"{type(self).__name__}: there is no {self.monitor!r}; there are: {there}{near}")
        return value


@HOOKS.register
class EarlyStopping(MonitorCallback):
    """End training when a number has not improved for some epochs.

    Args:
        monitor: The name of the number in `logs`.
        min_delta: A number must be better than the best one by more than this.
        patience: The number of epochs without an improvement after which to stop.
        verbose: 1 to print when training ends.
        mode: Whether a lesser (``"min"``) or a greater (``"max"``) number is better. ``"auto"`` asks the compiled
            metrics of a ``keras.Model``, and otherwise decides by the name, such as ``loss`` or ``accuracy``. If the
            name does not show it, that is an error: on a `Runner` before the first epoch, in Keras after it.
        baseline: A number that an improvement must also beat to reset the count of epochs.
        restore_best_weights: Whether the model gets the weights of the best epoch when training ends, however it ends.
        start_from_epoch: The number of epochs to ignore at first.

    Attributes:
        best: The best number so far.
        best_epoch: The epoch of the best number.
        wait: The number of epochs since the last improvement.
        stopped_epoch: The epoch after which training was ended; 0 if it was not.

    Example:
        >>> EarlyStopping("val_accuracy", patience=3, restore_best_weights=True).patience
        3
        >>> EarlyStopping(mode="maximum")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: EarlyStopping(mode='maximum'): give 'min', 'max' or 'auto'; did you mean 'max'?
    """

    _kept = ("monitor", "wait", "stopped_epoch", "best", "best_epoch", "best_weights")

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
        self.patience: int = whole_number(who, "patience", patience, 0)
        self.verbose = verbose
        self.baseline: float | None = None if baseline is None else finite_number(who, "baseline", baseline)
        self.restore_best_weights: bool = flag(who, "restore_best_weights", restore_best_weights)
        self.start_from_epoch: int = whole_number(who, "start_from_epoch", start_from_epoch, 0)
        self._reset()

    def _reset(self) -> None:
        self.wait: int = 0
        self.stopped_epoch: int = 0
        self.best_epoch: int = 0
        self.best = None
        self.best_weights: list[Any] | None = None  # Any: arrays

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Reset; or stop again, if a run that was stopped is resumed."""
        if self._begins_anew:
            self._reset()
        elif self.stopped_epoch > 0:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Stop if there was no improvement for too long."""
        value = self.get_monitor_value(logs)
        if value is None or epoch < self.start_from_epoch:
            return
        improved = self.is_better(value, self.best)
        if self.restore_best_weights and (improved or self.best_weights is None):  # even if the number is NaN
            self.best_weights = self.model.get_weights()
            self.best_epoch = epoch
        self.wait += 1
        if improved:
            self.best, self.best_epoch = value, epoch
            if self.baseline is None or self.is_better(value, self.baseline):
                self.wait = 0
        elif self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        if self.stopped_epoch:
            self._report(f"ended after epoch {self.stopped_epoch + 1}; the best was {self.best}")
        if self.best_weights is not None:
            self._report(f"the weights are those of epoch {self.best_epoch + 1}")
            self.model.set_weights(self.best_weights)


@HOOKS.register
class ReduceLROnPlateau(MonitorCallback):
    """Lower the learning rate when a number has not improved for some epochs.

    Args:
        monitor, mode, min_delta: See `EarlyStopping`.
        factor: The factor by which the rate is multiplied; less than 1.
        patience: The number of epochs without an improvement after which to lower the rate.
        verbose: 1 to print each new rate.
        cooldown: The number of epochs to wait after the rate was lowered before counting again.
        min_lr: The lowest rate.

    Attributes:
        best: The best number so far.
        wait: The number of epochs since the last improvement.
        cooldown_counter: The number of epochs left in the cooldown.

    Example:
        >>> ReduceLROnPlateau(factor=0.5, patience=5).in_cooldown()
        False
        >>> ReduceLROnPlateau(factor=2.0)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ReduceLROnPlateau: factor=2.0; give a number below 1
    """

    _kept = ("monitor", "best", "wait", "cooldown_counter")

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
        self.factor: float = finite_number(who, "factor", factor, below=1)
        self.patience: int = whole_number(who, "patience", patience, 0)
        self.verbose = verbose
        self.cooldown: int = whole_number(who, "cooldown", cooldown, 0)
        self.min_lr: float = finite_number(who, "min_lr", min_lr)
        self.cooldown_counter: int = 0
        self.wait: int = 0

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Reset, unless the run is resumed."""
        if self._begins_anew:
            self.best, self.cooldown_counter, self.wait = None, 0, 0

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Lower the rate if there was no improvement for too long; put the rate of the epoch into `logs`."""
        logs = {} if logs is None else logs
        logs["learning_rate"] = self._rate
        value = self.get_monitor_value(logs)
        if value is None:
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
        if self.is_better(value, self.best):
            self.best, self.wait = value, 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience and self._rate > self.min_lr:
                self.model.optimizer.learning_rate = max(self._rate * self.factor, self.min_lr)
                self._report(f"the learning rate after epoch {epoch + 1} is {self._rate:g}")
                self.cooldown_counter, self.wait = self.cooldown, 0

    def in_cooldown(self) -> bool:
        """Whether the cooldown after a lower rate is under way."""
        return self.cooldown_counter > 0


@HOOKS.register
class ModelCheckpoint(MonitorCallback):
    """Save the model after each epoch or every so many batches: always, or only when it is the best so far.

    On a `Runner` the files are checkpoints, from which a run can be resumed, whatever their suffix.

    Args:
        filepath: A template for the names of the files, filled by `str.format` with ``epoch`` and ``batch``, both from
            1, and with `logs`: ``"runs/{epoch:02d}-{val_loss:.2f}.safetensors"``. ``keras.Model`` requires the suffix
            ``.keras``, or ``.weights.h5``.
        monitor: The name of the number in `logs` that decides which model is the best.
        verbose: 1 to print a line for each saved file.
        save_best_only: Whether to save only when that number is better than all before. If it is missing, the model is
            saved, and a warning logged.
        save_weights_only: Whether to call ``save_weights`` of the model; on a `Runner` the files are the same.
        mode: See `EarlyStopping`.
        save_freq: ``"epoch"``, or the number of batches.
        initial_value_threshold: The number that the first best model must beat.

    Attributes:
        best: The best number so far.

    Example:
        >>> ModelCheckpoint("best.safetensors", monitor="val_accuracy", save_best_only=True).best is None
        True
        >>> ModelCheckpoint("{batch}.safetensors", save_freq="batch")
        Traceback (most recent call last):
          ...
        aspecthook.HookTypeError: ModelCheckpoint: save_freq='batch' is not a whole number
    """

    _kept = ("monitor", "best", "_epoch", "_since", "_last")
    _epoch = 0
    _since = 0  # batches since the last save, across epochs
    _last = -1  # the batch before

    def __init__(
        self,
        filepath: str | os.PathLike[str],
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: Mode = "auto",
        save_freq: Literal["epoch"] | int = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:
        super().__init__(monitor, mode, initial_value_threshold)
        self.filepath: str = os.fspath(filepath)
        self.verbose = verbose
        self.save_best_only: bool = flag("ModelCheckpoint", "save_best_only", save_best_only)
        self._compares = self.save_best_only
        self.save_weights_only: bool = flag("ModelCheckpoint", "save_weights_only", save_weights_only)
        self.save_freq: Literal["epoch"] | int = save_freq_of("ModelCheckpoint", save_freq)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        self._epoch, self._last = epoch, -1

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        # Keras may run several batches at once, and then calls this for the last of them only.
        self._since, self._last = self._since + batch - self._last, batch
        if self.save_freq != "epoch" and self._since >= self.save_freq:
            self._since = 0
            self._save({**(logs or {}), "epoch": self._epoch + 1, "batch": batch + 1})

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._epoch = epoch
        if self.save_freq == "epoch":
            self._save({**(logs or {}), "epoch": epoch + 1})

    def _save(self, fields: dict[str, Any]) -> None:
        try:
            path = self.filepath.format(**fields)
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            raise TrainingError(
                f"ModelCheckpoint: the template {self.filepath!r} cannot be filled in ({brief(error)}); its fields can "
                f"be {', '.join(fields)}"
            ) from error
        value = self.get_monitor_value(fields) if self.save_best_only else None
        if value is not None:
            if not self.is_better(value, self.best):
                self._report(f"{self.monitor} is {value:.5f}; the best was {self.best:.5f}")
                return
            self.best = value
        if self._runner is None or "batch" not in fields:  # other callbacks may look for the file when an epoch ends
            self._write(path)
        else:  # when the other callbacks have had the batch, too
            self._runner.after_stage(lambda: self._write(path))

    def _write(self, path: str) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        save = self.model.save_weights if self.save_weights_only else self.model.save
        save(path, overwrite=True)
        self._report(f"saved {path} in epoch {self._epoch + 1}")
