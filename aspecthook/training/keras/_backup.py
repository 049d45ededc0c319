"""A callback that keeps a backup of the run, from which it goes on when it is begun again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aspecthook._errors import HookOptionError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._format import is_checkpoint
from aspecthook.training.hooks._hook import HOOKS

from ._callback import Callback, Logs
from ._files import Batches, SaveFreq, runner_of, save_freq_of

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

_RUN = "latest.safetensors"
_WEIGHTS, _PLACE = "latest.weights.h5", "training_metadata.json"  # as Keras has them
_OLD = ".bkp"


@HOOKS.register
class BackupAndRestore(Callback):
    """Keep a backup of the run, and go on from it if there is one when training begins.

    On our runner the backup is a checkpoint: the run goes on as if it had never ended, also inside an epoch, all
    callbacks and hooks included. In a fit of ``keras.Model`` it holds what Keras's own has: weights, and the epoch,
    from whose beginning training goes on.

    Args:
        backup_dir: The folder, for this alone.
        save_freq: ``"epoch"``, or the number of batches; False for never, so that it only restores.
        double_checkpoint: Whether to keep the backup before the last, too, for when the last cannot be read.
        delete_checkpoint: Whether to remove the backup when training has ended; what else is in the folder stays.

    Raises:
        HookOptionError: There is no folder, or `save_freq` has another value.
        HookTypeError: `save_freq` is of another type.

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
        self.backup_dir = Path(backup_dir)
        self.save_freq: SaveFreq | None = None if save_freq is False else save_freq_of("BackupAndRestore", save_freq)
        self.double_checkpoint = double_checkpoint
        self.delete_checkpoint = delete_checkpoint
        self._batches = Batches()
        self._epoch = 0

    # Going on

    def resume_run(self, runner: Runner) -> None:
        """Go on with a run of ours; called before any callback is told that training begins.

        Raises:
            TrainingError: There are backups, and none can be read.
        """
        files = [path for path in self._files(_RUN) if path.exists()]
        whole = [path for path in files if is_checkpoint(path)]
        if files and not whole:
            raise TrainingError(
                f"BackupAndRestore: {' and '.join(map(str, files))} cannot be read; remove the folder to begin anew"
            )
        if whole:
            runner.resume(whole[0])
            runner.logger.info("resumed from %s, after iteration %d", whole[0], runner.iter)

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Go on with a fit of Keras."""
        if self._runner() is not None:
            return
        self._batches, self._epoch = Batches(), 0
        errors: list[OSError] = []
        for suffix in ("", _OLD):
            if all((self.backup_dir / f"{name}{suffix}").exists() for name in (_WEIGHTS, _PLACE)):
                try:
                    self._load(suffix)
                    return
                except OSError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    def _load(self, suffix: str) -> None:
        weights, place = (self.backup_dir / name for name in (_WEIGHTS, _PLACE))
        for path in (weights, place) if suffix else ():  # Keras loads what is called so, and nothing else
            shutil.copyfile(f"{path}{suffix}", path)
        optimizer = self.model.optimizer
        if optimizer is not None and not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        self.model.load_weights(str(weights))
        self._epoch = int(json.loads(place.read_text())["epoch"])
        self.model._initial_epoch = self._epoch

    # Saving

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Save if so many batches have passed."""
        if isinstance(self.save_freq, int) and self._batches.is_due(batch, self.save_freq):
            self._save()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Save if that is wished for epochs."""
        self._epoch = epoch + 1
        if self.save_freq == "epoch":
            self._save()

    def _save(self) -> None:
        self.backup_dir.mkdir(parents=True, exist_ok=True)
        runner = self._runner()
        if runner is not None:
            runner.after_stage(lambda: self._save_run(runner))  # what other hooks do until then is in it
            return
        self._keep(_WEIGHTS, 0)
        self._keep(_PLACE, 0)
        self.model.save_weights(str(self.backup_dir / _WEIGHTS), overwrite=True)
        place = {"epoch": self._epoch, "batch": self._batches.last or 0}
        (self.backup_dir / _PLACE).write_text(json.dumps(place))

    def _save_run(self, runner: Runner) -> None:
        self._keep(_RUN, runner.rank)
        runner.save_checkpoint(self.backup_dir / _RUN)

    def _keep(self, name: str, rank: int) -> None:
        path = self.backup_dir / name
        if self.double_checkpoint and rank == 0 and path.exists():
            os.replace(path, f"{path}{_OLD}")

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Remove the backup."""
        runner = self._runner()
        if not self.delete_checkpoint or (runner is not None and runner.rank != 0):
            return
        for name in (_RUN, _WEIGHTS, _PLACE):
            for path in self._files(name):
                path.unlink(missing_ok=True)
        try:
            self.backup_dir.rmdir()
        except OSError:  # it is not there, or there is something else in it
            pass

    def _files(self, name: str) -> list[Path]:
        path = self.backup_dir / name
        return [path, path.with_name(f"{name}{_OLD}")]

    def _runner(self) -> Runner | None:
        return runner_of(self)

    # What a checkpoint of a run keeps

    def state_dict(self) -> dict[str, Any]:
        """Give how many batches have passed."""
        return {"epoch": self._epoch, **self._batches.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self._epoch = int(state["epoch"])
        self._batches.load_state_dict(state)
