"""Callbacks that write files: checkpoints of the model, and a table of the logs."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, final
from zlib import crc32

from aspecthook._errors import HookOptionError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, whole_number
from aspecthook.training._templates import filled
from aspecthook.training.backends._state import is_any
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.logging._line_files import LineFile, as_text

from ._bridge import logger_of, runner_of, writes
from ._callback import Logs, ResumableCallback
from ._monitor import Mode, MonitorCallback

SaveFreq: TypeAlias = Literal["epoch"] | int


def save_freq_of(who: str, value: object) -> SaveFreq:
    """Return when to save, after a check."""
    return "epoch" if value == "epoch" else whole_number(who, "save_freq", value, 1)


class SavingCallback(ResumableCallback):
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
        runner = runner_of(self)
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


@HOOKS.register
class CSVLogger(ResumableCallback):
    """Write the logs to a CSV file, one line for each epoch.

    The columns are the sorted names of the first epoch. If that was not validated, each has a ``val_`` column too.
    A run that is resumed continues its file, without the lines of epochs that it trains again.

    Args:
        filename: The file.
        separator: The character between the columns.
        append: Whether to continue a file that exists; else it is replaced.

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
        self.filename: str = os.fspath(filename)
        self.separator = separator
        self.append: bool = flag("CSVLogger", "append", append)
        self.keys: list[str] | None = None
        self._file: _KerasTable | None = None
        self._mark: Mapping[str, Any] | None = None

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin the file, or continue it."""
        resumed = not self.begins_anew()
        if not resumed:
            self.keys, self._mark = None, None
        if writes(self):
            self._file = _KerasTable(Path(self.filename), logger_of(self))
            self._file.begin(self._mark, is_new=not resumed and not self.append)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write a line."""
        logs = logs or {}
        if self.keys is None:
            self.keys = _columns(logs)
        if self._file is None:
            return
        text = StringIO()
        writer = csv.writer(text, delimiter=self.separator)
        if self._file.is_empty:
            writer.writerow(["epoch", *map(as_text, self.keys)])
        writer.writerow([epoch, *(_cell(logs.get(key, "NA")) for key in self.keys)])
        self._file.add(text.getvalue())

    def state_dict(self) -> dict[str, Any]:
        """Return the columns, and the position in the file."""
        return {"keys": self.keys, "file": self._mark if self._file is None else self._file.mark()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them when training begins."""
        if state["file"] is not None:
            _KerasTable.check(state["file"])
        keys = state["keys"]
        self.keys, self._mark, self._loaded = None if keys is None else [*map(str, keys)], state["file"], True


@final
class _KerasTable(LineFile):
    """A CSV file as Keras writes it: a new run replaces it, and its lines end as those of `csv.writer`."""

    def _clear(self) -> None:
        with open(self.path, "wb"):
            self._size = self._sum = 0

    def _continue(self, mark: Mapping[str, Any] | None) -> None:
        if mark is not None:
            super()._continue(mark)
        else:  # it is anybody's file that a run appends to
            found = self.path.read_bytes() if self.path.exists() else b""
            self._size, self._sum = len(found), crc32(found)

    def _write_pending(self) -> None:
        self._append("".join(self._pending).encode(errors="replace"))


def _columns(logs: Mapping[str, Any]) -> list[str]:
    names = sorted(logs)
    return names if any(name.startswith("val_") for name in names) else names + [f"val_{name}" for name in names]


def _cell(value: Any) -> Any:
    is_single = is_any(value, str) or not is_any(value, Iterable) or getattr(value, "ndim", 1) == 0
    if is_any(value, str):
        return as_text(value)
    return value if is_single else f'"[{", ".join(map(str, value))}]"'
