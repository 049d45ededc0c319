"""Callbacks that save: the model after each epoch or every so many batches, and backups to resume from."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from aspecthook._errors import HookOptionError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, whole_number
from aspecthook.training._templates import filled
from aspecthook.training.checkpoint._files import own_path
from aspecthook.training.checkpoint._folder import is_checkpoint
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._run import Run

from ._callback import Callback, Logs
from ._monitor import Mode, MonitorCallback

SaveFreq: TypeAlias = Literal["epoch"] | int


def save_freq_of(who: str, value: object) -> SaveFreq:
    """Return when to save, after a check."""
    return "epoch" if value == "epoch" else whole_number(who, "save_freq", value, 1)


class SavingCallback(Callback):
    """The base of callbacks that save after each epoch, or every so many batches, counted across epochs."""

    save_freq: SaveFreq | None = None  # None for never

    _kept: ClassVar[tuple[str, ...] | None] = ("_epoch", "_since", "_last")
    _epoch = 0
    _since = 0  # batches since the last save
    _last: int | None = None  # the batch before

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Remember the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Save if so many batches have passed."""
        if self.save_freq is None or self.save_freq == "epoch":
            return
        # Keras may run several batches at once, and then calls this for the last of them only.
        in_new_epoch = self._last is None or batch <= self._last
        self._since += batch + 1 if self._last is None or in_new_epoch else batch - self._last
        self._last = batch
        if self._since >= self.save_freq:
            self._since = 0
            self._save(self._epoch, batch, logs or {})

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Save if each epoch is to be saved."""
        if self.save_freq == "epoch":
            self._save(epoch, None, logs or {})

    def _save(self, epoch: int, batch: int | None, logs: dict[str, Any]) -> None:
        raise NotImplementedError


@HOOKS.register
class ModelCheckpoint(MonitorCallback, SavingCallback):
    """Save the model after each epoch or every so many batches: always, or only when it is the best so far.

    On our runner the files are checkpoints, from which a run can be resumed, whatever their suffix.

    Args:
        filepath: A template for the names of the files, filled by `str.format` with ``epoch`` and ``batch``, both from
            1, and with `logs`: ``"runs/{epoch:02d}-{val_loss:.2f}.safetensors"``. ``keras.Model`` requires the suffix
            ``.keras``, or ``.weights.h5``.
        monitor: The name of the number in `logs` that decides which model is the best.
        verbose: 1 to print what is saved.
        save_best_only: Whether to save only when that number is better than all before. If it is missing, the model is
            saved, and a warning logged.
        save_weights_only: Whether to call ``save_weights`` of the model; on our runner the files are the same.
        mode: See `MonitorCallback`.
        save_freq: ``"epoch"``, or the number of batches.
        initial_value_threshold: The best number at first.

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

    _kept = ("best", "_epoch", "_since", "_last")

    def __init__(
        self,
        filepath: str | os.PathLike[str],
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: Mode = "auto",
        save_freq: SaveFreq = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:
        super().__init__(monitor, mode, initial_value_threshold)
        self.filepath: str = os.fspath(filepath)
        self.verbose = verbose
        who = type(self).__name__
        self.save_best_only: bool = flag(who, "save_best_only", save_best_only)
        self._compares = self.save_best_only
        self.save_weights_only: bool = flag(who, "save_weights_only", save_weights_only)
        self.save_freq: SaveFreq | None = save_freq_of(who, save_freq)

    def _save(self, epoch: int, batch: int | None, logs: dict[str, Any]) -> None:
        path = self._path(epoch, batch, logs)
        if self.save_best_only and not self._is_best(logs):
            return
        runner = self._runner
        if runner is None or batch is None:  # other callbacks may look for the file when an epoch ends
            self._write(path, epoch)
        else:
            runner.after_stage(lambda: self._write(path, epoch))  # with what other callbacks remember of the batch

    def _write(self, path: str, epoch: int) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        save = self.model.save_weights if self.save_weights_only else self.model.save
        save(path, overwrite=True)
        self._report(f"saved {path} in epoch {epoch + 1}")

    def _is_best(self, logs: dict[str, Any]) -> bool:
        value = self.get_monitor_value(logs)
        if value is None or len(getattr(value, "shape", ())) > 0:
            return True
        if not self.is_better(value, self.best):
            self._report(f"{self.monitor} is {value:.5f}; the best was {self.best:.5f}")
            return False
        self.best = value
        return True

    def _path(self, epoch: int, batch: int | None, logs: dict[str, Any]) -> str:
        fields = {**logs, "epoch": epoch + 1}
        if batch is not None:
            fields.setdefault("batch", batch + 1)
        try:
            return filled(self.filepath, **fields)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise TrainingError(
                f"ModelCheckpoint: the template {self.filepath!r} cannot be filled in ({brief(error)}); its fields can "
                f"be {', '.join(fields)}"
            ) from error


_CHECKPOINT = "latest.safetensors"


@HOOKS.register
class BackupAndRestore(SavingCallback):
    """Save backups, and resume from the last one if there is one when training begins.

    A backup is a checkpoint: the run continues as if it had never ended, also inside an epoch, with all callbacks and
    hooks. In a fit of ``keras.Model``, use Keras's own.

    Args:
        backup_dir: A folder for the backup alone.
        save_freq: ``"epoch"``, or the number of batches; False to restore only, and never save.
        delete_checkpoint: Whether to delete the backup when training has ended; other files in the folder stay.

    Example:
        >>> BackupAndRestore("runs/backup", save_freq=100).save_freq
        100
        >>> BackupAndRestore("")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: BackupAndRestore(backup_dir=''): give a folder
    """

    def __init__(
        self,
        backup_dir: str | os.PathLike[str],
        save_freq: SaveFreq | bool = "epoch",
        delete_checkpoint: bool = True,
    ) -> None:
        super().__init__()
        if not backup_dir:
            raise HookOptionError(f"BackupAndRestore(backup_dir={brief(backup_dir)}): give a folder")
        self.backup_dir: Path = Path(backup_dir)
        self.save_freq: SaveFreq | None = None if save_freq is False else save_freq_of("BackupAndRestore", save_freq)
        self.delete_checkpoint: bool = flag("BackupAndRestore", "delete_checkpoint", delete_checkpoint)

    def resume_run(self, runner: Run) -> None:
        """Resume a run from the backup, if there is one; called before any `on_train_begin`."""
        path = self.backup_dir / _CHECKPOINT
        if not path.exists():
            return
        if not is_checkpoint(path):
            raise TrainingError(
                f"BackupAndRestore: {path} cannot be read; remove the folder to start from the beginning"
            )
        runner.resume(path)
        runner.logger.info("resumed from %s, after iteration %d", path, runner.iter)

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Raise in a fit of Keras."""
        if self._runner is None:
            raise TrainingError("BackupAndRestore saves runs of a Runner; in a fit of Keras, use Keras's own")

    def _save(self, epoch: int, batch: int | None, logs: dict[str, Any]) -> None:  # noqa: ARG002
        runner = self.model.runner
        self.backup_dir.mkdir(parents=True, exist_ok=True)
        path = own_path(self.backup_dir, _CHECKPOINT)
        runner.after_stage(lambda: runner.save_checkpoint(path))  # with what other hooks do until then

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Delete the backup."""
        if self.delete_checkpoint and self._writes:
            (self.backup_dir / _CHECKPOINT).unlink(missing_ok=True)
            with suppress(OSError):  # the folder does not exist, or has other files
                self.backup_dir.rmdir()
