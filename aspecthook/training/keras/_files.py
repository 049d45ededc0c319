"""Callbacks that write files: the model, when it is due or the best so far, and a table of what was logged."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aspecthook._errors import HookOptionError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import whole_number
from aspecthook.training.hooks._hook import HOOKS

from ._callback import Callback, Continuing, Logs, is_any
from ._model import Model
from ._monitor import Mode, MonitorCallback

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

SaveFreq: TypeAlias = Literal["epoch"] | int


class Batches:
    """Says every how many batches something is due, over the ends of epochs too."""

    def __init__(self) -> None:
        self.since = 0
        self.last: int | None = None

    def is_due(self, batch: int, every: int) -> bool:
        """Count on to a batch; where Keras runs several at once, it names the last of them."""
        is_new = self.last is None or batch <= self.last
        self.since += batch + 1 if is_new or self.last is None else batch - self.last
        self.last = batch
        if self.since < every:
            return False
        self.since = 0
        return True

    def state_dict(self) -> dict[str, Any]:
        """Give how far it has counted."""
        return {"since": self.since, "last": self.last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self.since, self.last = int(state["since"]), state["last"]


def save_freq_of(who: str, given: object) -> SaveFreq:
    """Give when to save, and refuse what says nothing of it."""
    return "epoch" if given == "epoch" else whole_number(who, "save_freq", given, 1)


@HOOKS.register
class ModelCheckpoint(MonitorCallback):
    """Save the model after each epoch or so many batches; all, or only when it is the best so far.

    On our runner the files are checkpoints of the run, from which it can be resumed, whatever their names end in.

    Args:
        filepath: The name of the files, for `str.format`, which is given ``epoch`` and ``batch``, the first ones being
            1, and `logs`: ``"runs/{epoch:02d}-{val_loss:.2f}.safetensors"``. ``keras.Model`` wants ``.keras``, or
            ``.weights.h5``.
        monitor: The name of the number in `logs` by which the best is chosen.
        verbose: Whether to say what is done.
        save_best_only: Whether to save only when that number is better than any before; if it is not there, the model
            is saved, and the log warns.
        save_weights_only: Whether to call the model's ``save_weights``; on our runner it is the same.
        mode: See `MonitorCallback`.
        save_freq: ``"epoch"``, or the number of batches.
        initial_value_threshold: What counts as the best number at first.

    Attributes:
        best: The best number so far.

    Raises:
        HookOptionError: An option has a value that it cannot have.
        HookTypeError: An option is of another type.

    Example:
        >>> ModelCheckpoint("best.safetensors", monitor="val_accuracy", save_best_only=True).best is None
        True
        >>> ModelCheckpoint("{batch}.safetensors", save_freq="batch")
        Traceback (most recent call last):
          ...
        aspecthook.HookTypeError: ModelCheckpoint: save_freq='batch' is not a whole number
    """

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
        self.filepath = os.fspath(filepath)
        self.verbose = verbose
        self.save_best_only = save_best_only
        self.save_weights_only = save_weights_only
        self.save_freq: SaveFreq = save_freq_of(type(self).__name__, save_freq)
        self._batches = Batches()
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Note the epoch, for the names of files."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Save if so many batches have passed."""
        if self.save_freq != "epoch" and self._batches.is_due(batch, self.save_freq):
            self._save(self._epoch, batch, logs or {})

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Save if that is wished for epochs."""
        if self.save_freq == "epoch":
            self._save(epoch, None, logs or {})

    def _save(self, epoch: int, batch: int | None, logs: dict[str, Any]) -> None:
        path = self._path(epoch, batch, logs)
        if self.save_best_only and not self._is_best(logs):
            return
        runner = runner_of(self)
        if runner is None or batch is None:  # other callbacks may look for the file when an epoch ends
            self._write(path, epoch)
        else:
            runner.after_stage(lambda: self._write(path, epoch))  # what they note of a batch is to be in it

    def _write(self, path: str, epoch: int) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        save = self.model.save_weights if self.save_weights_only else self.model.save
        save(path, overwrite=True)
        if self.verbose:
            print(f"ModelCheckpoint: saved {path} in epoch {epoch + 1}")

    def _is_best(self, logs: dict[str, Any]) -> bool:
        value = self.get_monitor_value(logs)
        if value is None or len(getattr(value, "shape", ())) > 0:
            return True
        if not self.is_better(value, self.best):
            if self.verbose:
                print(f"ModelCheckpoint: {self.monitor} is {value:.5f}, and was {self.best:.5f} at best")
            return False
        self.best = value
        return True

    def _path(self, epoch: int, batch: int | None, logs: dict[str, Any]) -> str:
        known = {**logs, "epoch": epoch + 1}
        if batch is not None:
            known.setdefault("batch", batch + 1)
        try:
            return self.filepath.format(**known)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise TrainingError(
                f"ModelCheckpoint: {self.filepath!r} cannot be filled in ({brief(error)}); there are {', '.join(known)}"
            ) from error

    def state_dict(self) -> dict[str, Any]:
        """Give the best number, and how many batches have passed."""
        return {"best": self.best, "epoch": self._epoch, **self._batches.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self.best, self._epoch = state["best"], int(state["epoch"])
        self._batches.load_state_dict(state)


@HOOKS.register
class CSVLogger(Continuing):
    """Write what was logged to a CSV file, a line for each epoch.

    The columns are those of the first epoch, sorted; if it was not validated, there are ``val_`` columns all the same.
    A run that is resumed goes on in its file, without the lines of epochs that it will train again.

    Args:
        filename: The file.
        separator: What is between the columns.
        append: Go on in a file that is there.

    Raises:
        HookOptionError: The separator is not one character.

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

    def __init__(self, filename: str | os.PathLike[str], separator: str = ",", append: bool = False) -> None:
        super().__init__()
        if not is_any(separator, str) or len(separator) != 1:
            raise HookOptionError(f"CSVLogger(separator={brief(separator)}): give one character")
        self.filename = os.fspath(filename)
        self.separator = separator
        self.append = append
        self.keys: list[str] | None = None
        self._has_header = False
        self._size = 0

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin the file, or go on in it."""
        goes_on = not self.begins_anew()
        if not goes_on:
            self.keys = None
        if not writes(self):
            return
        with self._open("a" if self.append or goes_on else "w") as file:
            if goes_on:
                file.truncate(min(self._size, file.seek(0, os.SEEK_END)))
            self._size = file.seek(0, os.SEEK_END)
        self._has_header = self._size > 0

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write a line."""
        found = logs or {}
        if self.keys is None:
            self.keys = _columns(found)
        if not writes(self):
            return
        with self._open("a") as file:
            writer = csv.writer(file, delimiter=self.separator)
            if not self._has_header:
                writer.writerow(["epoch", *self.keys])
                self._has_header = True
            writer.writerow([epoch, *(_cell(found.get(key, "NA")) for key in self.keys)])
            self._size = file.tell()

    def _open(self, mode: str) -> Any:  # Any: a file, open for as long as a line takes: a run that fails leaves none
        return open(self.filename, mode, newline="", encoding="utf-8")

    def state_dict(self) -> dict[str, Any]:
        """Give the columns, and how long the file is."""
        return {"keys": self.keys, "size": self._size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self.keys, self._size, self._loaded = state["keys"], int(state["size"]), True


def _columns(logs: Mapping[str, Any]) -> list[str]:
    names = sorted(logs)
    return names if any(name.startswith("val_") for name in names) else names + [f"val_{name}" for name in names]


def _cell(value: Any) -> Any:
    is_single = is_any(value, str) or not is_any(value, Iterable) or getattr(value, "ndim", 1) == 0
    return value if is_single else f'"[{", ".join(map(str, value))}]"'


def runner_of(callback: Callback) -> Runner | None:
    """Give the run that a callback is on; None in a fit of Keras."""
    model = callback.model
    return model.runner if isinstance(model, Model) else None


def writes(callback: Callback) -> bool:
    """Say whether this process is the one that writes files."""
    runner = runner_of(callback)
    return runner is None or runner.rank == 0
