"""Callbacks that do not watch a number: logs, backups, learning rates by epoch, functions, and lists of callbacks."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import StringIO
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, final

from aspecthook import Args, hookable, hooks
from aspecthook._core.law.call import Call
from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._dialect import Method
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, function, takes
from aspecthook.training._ranks import any_rank
from aspecthook.training.checkpoint._files import check_regular, own_path, put
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.logging._files import append, as_text
from aspecthook.training.loop._runner import Runner

from ._callback import EVENTS, METHODS, OLDER, Callback, Logs, methods_of
from ._monitor import save_freq_of


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
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)
        if self.model is not None:
            self.model.history = self


@HOOKS.register
class CSVLogger(Callback):
    """Write the logs to a CSV file, one line for each epoch.

    The columns are the sorted names of the first epoch. If that epoch had no validation, each name has a ``val_``
    column too. A run that is resumed continues its file, without the lines of epochs that it trains again.

    Args:
        filename: The file.
        separator: The character between the columns.
        append: Whether to continue an existing file; otherwise it is replaced.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     logger = CSVLogger(f"{folder}/log.csv")
        ...     logger.on_train_begin()
        ...     logger.on_epoch_end(0, {"loss": 0.5, "val_loss": 0.75})
        ...     print(Path(folder, "log.csv").read_text())
        epoch,loss,val_loss
        0,0.5,0.75
        <BLANKLINE>
    """

    _kept = ("keys", "_size")

    def __init__(self, filename: str | os.PathLike[str], separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.filename: str = os.fspath(filename)
        self.separator = separator
        self.append: bool = flag("CSVLogger", "append", append)
        self.keys: list[str] | None = None
        self._size = 0  # of the file after the newest line

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin the file, or continue it."""
        if self._begins_anew:
            self.keys = None
        if not self._writes:
            return
        path = Path(self.filename)
        check_regular(path)
        found = path.read_bytes() if path.exists() else b""
        if self._begins_anew:
            self._size = len(found) if self.append else 0
        put(path, found[: self._size])

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        logs = logs or {}
        if self.keys is None:
            self.keys = sorted(logs)
            if not any(name.startswith("val_") for name in self.keys):
                self.keys += [f"val_{name}" for name in self.keys]
        if not self._writes:
            return
        path, text = Path(self.filename), StringIO()
        writer = csv.writer(text, delimiter=self.separator)
        if not path.exists() or not path.stat().st_size:
            writer.writerow(["epoch", *map(as_text, self.keys)])
        writer.writerow([epoch, *(_cell(logs.get(key, "NA")) for key in self.keys)])
        append(path, text.getvalue().encode(errors="replace"))
        self._size = path.stat().st_size


def _cell(value: Any) -> object:
    if isinstance(value, str):
        return as_text(value)
    is_single = not hasattr(value, "__iter__") or getattr(value, "ndim", 1) == 0
    return value if is_single else f'"[{", ".join(map(str, value))}]"'


_CHECKPOINT = "latest.safetensors"


@HOOKS.register
class BackupAndRestore(Callback):
    """Save backups, and resume from the last one if there is one when training begins.

    A backup is a checkpoint: the run, its callbacks and its hooks continue as if the run had never stopped, even within
    an epoch. In ``keras.Model.fit``, use Keras's own.

    Args:
        backup_dir: A folder for the backup and nothing else.
        save_freq: ``"epoch"``, or the number of batches.
        delete_checkpoint: Whether to delete the backup when training has ended; other files in the folder stay.

    Example:
        >>> BackupAndRestore("runs/backup", save_freq=100).save_freq
        100
    """

    _kept = ()

    def __init__(
        self,
        backup_dir: str | os.PathLike[str],
        save_freq: Literal["epoch"] | int = "epoch",
        delete_checkpoint: bool = True,
    ) -> None:
        super().__init__()
        self.backup_dir: Path = Path(backup_dir)
        self.save_freq: Literal["epoch"] | int = save_freq_of("BackupAndRestore", save_freq)
        self.delete_checkpoint: bool = flag("BackupAndRestore", "delete_checkpoint", delete_checkpoint)

    def resume_run(self, runner: Runner) -> None:
        """Resume a run from the backup, if there is one; called before any `on_train_begin`."""
        path = self.backup_dir / _CHECKPOINT
        if path.exists():
            runner.resume(path)
            runner.logger.info("resumed from %s, after iteration %d", path, runner.iter)

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Raise in a fit of Keras."""
        if self._runner is None:
            raise TrainingError("BackupAndRestore saves runs of a Runner; in a fit of Keras, use Keras's own")

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        if self.save_freq != "epoch" and (self.model.runner.iter + 1) % self.save_freq == 0:
            self._save()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        if self.save_freq == "epoch":
            self._save()

    def _save(self) -> None:
        runner = self.model.runner
        path = own_path(self.backup_dir, _CHECKPOINT)
        runner.after_stage(lambda: runner.save_checkpoint(path))  # other hooks may still act in this stage

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        if self.delete_checkpoint and self._writes:
            (self.backup_dir / _CHECKPOINT).unlink(missing_ok=True)
            with suppress(OSError):  # the folder does not exist, or has other files
                self.backup_dir.rmdir()


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

    # A state, although an empty one, so that a run resumed within an epoch does not set the rate again: the optimizer
    # has it.
    _kept = ()

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        self.schedule: Callable[..., float] = function("LearningRateScheduler", "schedule", schedule)
        self.verbose = verbose
        self._takes_rate = takes(schedule, 2)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Set the rate, which must be a float."""
        rate: object = self.schedule(epoch, self._rate) if self._takes_rate else self.schedule(epoch)
        if not isinstance(rate, Real) or isinstance(rate, Integral):
            raise TrainingError(
                f"LearningRateScheduler: the schedule returned {brief(rate)} for epoch {epoch}; return a float"
            )
        self.model.optimizer.learning_rate = float(rate)
        self._report(f"the learning rate of epoch {epoch + 1} is {self._rate:g}")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Put the rate into `logs`, for other callbacks."""
        if logs is not None:
            logs["learning_rate"] = self._rate


@HOOKS.register
class TerminateOnNaN(Callback):
    """Stop training on all ranks when the loss is infinite or NaN on any of them.

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
    """Make a callback from functions.

    Args:
        functions: Functions by the names of the methods that they replace, such as ``on_epoch_end``.

    Example:
        >>> LambdaCallback(on_test_end=lambda logs: print(logs)).on_test_end({"loss": 0.5})
        {'loss': 0.5}
        >>> LambdaCallback(on_epoch_ends=print)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: ... did you mean 'on_epoch_end'?
    """

    def __init__(self, **functions: Method | None) -> None:
        super().__init__()
        for name, given in functions.items():
            if name not in METHODS:
                near = nearest(name, list(METHODS))
                raise HookOptionError(f"LambdaCallback: {name!r} is none of {', '.join(METHODS)}{near}")
            if given is not None:
                setattr(self, name, function("LambdaCallback", name, given))


@final
class CallbackList(Callback):
    """Several callbacks as one, like ``keras.callbacks.CallbackList``, for your own training loop.

    Each of its methods calls the same method of all callbacks, in the order of the list. Its methods are mount points,
    and the methods that a callback overrides are hooks on them. Values in `logs` that can be converted to floats reach
    the callbacks as floats. On a `Runner`, register the callbacks one by one, since a list keeps no state in
    checkpoints.

    Args:
        callbacks: The callbacks.
        add_history: Whether to add a `History` unless there is one.
        model: The ``model`` of the callbacks.
        params: The ``params`` of the callbacks: ``epochs``, ``steps``, ``verbose``.

    Example:
        >>> from aspecthook.training.keras import LambdaCallback
        >>> callbacks = CallbackList([LambdaCallback(on_epoch_end=lambda epoch, logs: print(epoch, logs["loss"]))])
        >>> callbacks.on_train_begin()
        >>> for epoch in range(2):
        ...     callbacks.on_epoch_begin(epoch)
        ...     callbacks.on_epoch_end(epoch, {"loss": 1 / (epoch + 1)})
        0 1.0
        1 0.5
        >>> callbacks.on_train_end()
    """

    def __init__(
        self, callbacks: Iterable[object] = (), add_history: bool = False, model: object = None, **params: object
    ) -> None:
        super().__init__()
        self.callbacks: list[Any] = []  # of our class, of Keras's, or of one with the same methods
        for callback in callbacks:
            self.append(callback)
        if add_history and not any(isinstance(callback, History) for callback in self.callbacks):
            self.append(History())
        if model is not None:
            self.set_model(model)
        self.set_params(params)

    def append(self, callback: object) -> None:
        """Add a callback at the end."""
        if not callable(getattr(callback, "on_train_begin", None)):
            raise HookTypeError(f"{brief(callback)} is not a callback; give objects with on_train_begin and the like")
        for event, method in methods_of(callback).items():
            mount = hooks(getattr(self, event))
            if not len(mount):
                mount.add("pre", _plain_logs, name="plain")
            mount.add("pre", _caller(method), name=type(callback).__name__)
        self.callbacks.append(callback)

    def set_params(self, params: dict[str, Any]) -> None:
        """Set the ``params`` of the callbacks, unless they are empty."""
        super().set_params(params)
        for callback in self.callbacks if params else ():
            callback.set_params(params)

    def set_model(self, model: Any) -> None:
        """Set the model of the callbacks."""
        super().set_model(model)
        for callback in self.callbacks:
            callback.set_model(model)


def _mount_point(event: str) -> Method:
    """Return a method of `CallbackList` that does nothing itself: the methods of callbacks are hooks on it."""

    def of_batch(self: CallbackList, batch: int, logs: Logs = None) -> None: ...
    def of_epoch(self: CallbackList, epoch: int, logs: Logs = None) -> None: ...
    def of_stage(self: CallbackList, logs: Logs = None) -> None: ...

    method: Method = of_batch if "batch" in event else of_epoch if "epoch" in event else of_stage
    method.__name__, method.__qualname__ = event, f"CallbackList.{event}"
    method.__doc__ = f"Call `{event}` of each callback."
    return hookable(method)


for _event in EVENTS:
    setattr(CallbackList, _event, _mount_point(_event))
for _event, _older in OLDER.items():
    setattr(CallbackList, _older, getattr(CallbackList, _event))


def _caller(method: Method) -> Method:
    """Return a hook that calls a method as Keras does, and ignores what it returns."""

    def call_it(call: Call) -> None:
        method(*call.args[1:])

    return call_it


def _plain_logs(logs: Logs) -> Args:
    def plain(value: Any) -> object:
        try:
            return float(value)
        # PyTorch raises a RuntimeError for a tensor of several numbers.
        except (TypeError, ValueError, OverflowError, RuntimeError):
            return value

    return Args(logs={name: plain(value) for name, value in sorted((logs or {}).items())})
