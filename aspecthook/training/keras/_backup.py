"""A callback that saves backups, and resumes an interrupted training from them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from aspecthook._errors import HookOptionError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag
from aspecthook.training.checkpoint._files import own_path
from aspecthook.training.checkpoint._format import is_checkpoint
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.loop._run import Run

from ._bridge import runner_of
from ._callback import Logs
from ._files import SaveFreq, SavingCallback, save_freq_of

_CHECKPOINT = "latest.safetensors"
_WEIGHTS, _METADATA = "latest.weights.h5", "training_metadata.json"  # as Keras names them
_OLD = ".bkp"


@HOOKS.register
class BackupAndRestore(SavingCallback):
    """Save backups, and resume from the last one if there is one when training begins.

    On our runner a backup is a checkpoint: the run continues as if it had never ended, also inside an epoch, with all
    callbacks and hooks. In a fit of ``keras.Model`` a backup holds what Keras's own holds, the weights and the epoch,
    and training continues from the beginning of that epoch.

    Args:
        backup_dir: A folder for the backups alone.
        save_freq: ``"epoch"``, or the number of batches; False to restore only, and never save.
        double_checkpoint: Whether to keep the backup before the last, too, for when the last cannot be read.
        delete_checkpoint: Whether to delete the backups when training has ended; other files in the folder stay.

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
        double_checkpoint: bool = False,
        delete_checkpoint: bool = True,
    ) -> None:
        super().__init__()
        if not backup_dir:
            raise HookOptionError(f"BackupAndRestore(backup_dir={brief(backup_dir)}): give a folder")
        self.backup_dir: Path = Path(backup_dir)
        self.save_freq: SaveFreq | None = None if save_freq is False else save_freq_of("BackupAndRestore", save_freq)
        self.double_checkpoint: bool = flag("BackupAndRestore", "double_checkpoint", double_checkpoint)
        self.delete_checkpoint: bool = flag("BackupAndRestore", "delete_checkpoint", delete_checkpoint)

    # Restoring

    def resume_run(self, runner: Run) -> None:
        """Resume a run of ours from a backup that can be read; called before any `on_train_begin`."""
        files = [path for path in self._files(_CHECKPOINT) if path.exists()]
        readable = [path for path in files if is_checkpoint(path)]
        if files and not readable:
            raise TrainingError(
                f"BackupAndRestore: {' and '.join(map(str, files))} cannot be read; remove the folder to start from "
                "the beginning"
            )
        if readable:
            runner.resume(readable[0])
            runner.logger.info("resumed from %s, after iteration %d", readable[0], runner.iter)

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Restore the weights and the epoch in a fit of Keras."""
        if runner_of(self) is not None:
            return
        self._epoch, self._since, self._last = 0, 0, None
        errors: list[OSError] = []
        for weights, metadata in zip(self._files(_WEIGHTS), self._files(_METADATA), strict=True):
            if weights.exists() and metadata.exists():
                try:
                    self._load(weights, metadata)
                    return
                except OSError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    def _load(self, *files: Path) -> None:
        weights, metadata = (self.backup_dir / name for name in (_WEIGHTS, _METADATA))
        for file, usual in zip(files, (weights, metadata), strict=True):
            if file != usual:  # Keras loads weights only from a file that ends in .weights.h5
                shutil.copyfile(file, usual)
        optimizer = self.model.optimizer
        if optimizer is not None and not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        self.model.load_weights(str(weights))
        self._epoch = int(json.loads(metadata.read_text())["epoch"])
        self.model._initial_epoch = self._epoch

    # Saving

    def _save(self, epoch: int, batch: int | None, logs: dict[str, Any]) -> None:  # noqa: ARG002
        self.backup_dir.mkdir(parents=True, exist_ok=True)
        runner = runner_of(self)
        if runner is not None:
            runner.after_stage(lambda: self._save_run(runner))  # with what other hooks do until then
            return
        self._rename_last(_WEIGHTS, 0)
        self._rename_last(_METADATA, 0)
        self.model.save_weights(str(own_path(self.backup_dir, _WEIGHTS)), overwrite=True)
        metadata = {"epoch": epoch + 1 if batch is None else epoch, "batch": self._last or 0}
        own_path(self.backup_dir, _METADATA).write_text(json.dumps(metadata))

    def _save_run(self, runner: Run) -> None:
        self._rename_last(_CHECKPOINT, runner.rank)
        runner.save_checkpoint(own_path(self.backup_dir, _CHECKPOINT))

    def _rename_last(self, name: str, rank: int) -> None:
        last, old = self._files(name)
        if self.double_checkpoint and rank == 0 and last.exists():
            os.replace(last, old)

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Delete the backups."""
        runner = runner_of(self)
        if not self.delete_checkpoint or (runner is not None and runner.rank != 0):
            return
        for name in (_CHECKPOINT, _WEIGHTS, _METADATA):
            for path in self._files(name):
                path.unlink(missing_ok=True)
        try:
            self.backup_dir.rmdir()
        except OSError:  # the folder does not exist, or has other files
            pass

    def _files(self, name: str) -> list[Path]:
        """Return the last backup, and the one before."""
        return [self.backup_dir / name, self.backup_dir / f"{name}{_OLD}"]
