"""Callbacks that write the logs: to a CSV file, to event files for TensorBoard, and to the terminal."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from time import perf_counter
from typing import Any, final
from zlib import crc32

from aspecthook._errors import HookOptionError, brief
from aspecthook.training._options import flag, optional_number
from aspecthook.training.backends._state import is_any
from aspecthook.training.checkpoint._files import own_path
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._kept_files import check_names
from aspecthook.training.logging._line_files import LineFile, as_text
from aspecthook.training.logging._numbers import duration_text, number_of, number_text
from aspecthook.training.logging._tensorboard import EventFile, require_tensorboardx
from aspecthook.training.loop._logs import logged_by, without_validation

from ._callback import Callback, Logs
from ._run_model import rate_of


@HOOKS.register
class CSVLogger(Callback):
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
        if self._begins_anew:
            self.keys, self._mark = None, None
        if self._writes:
            self._file = _KerasTable(Path(self.filename), self._logger)
            self._file.begin(self._mark, is_new=self._begins_anew and not self.append)

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
        self.keys, self._mark = None if keys is None else [*map(str, keys)], state["file"]


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


@HOOKS.register
class TensorBoard(Callback):
    """Write the logs to event files for TensorBoard, by the names that Keras uses.

    These are ``epoch_loss`` and the like, in the folders ``train`` and ``validation``, for each epoch; ``batch_loss``
    for batches; ``evaluation_loss_vs_iterations`` for each optimizer step that is followed by a validation. A run that
    is resumed begins new files, without the events of the old ones that it writes again. Needs the extra `tensorboard`.

    Args:
        log_dir: The folder.
        update_freq: ``"epoch"``; or ``"batch"``, or a number of batches, to write the logs of batches too.

    Example:
        >>> TensorBoard("runs/logs", update_freq="batch").update_freq
        1
        >>> TensorBoard(update_freq=0)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: TensorBoard: update_freq=0; give a number from 1 up
    """

    def __init__(self, log_dir: str | os.PathLike[str] = "logs", update_freq: str | int = "epoch") -> None:
        super().__init__()
        require_tensorboardx("TensorBoard")
        self.log_dir: Path = Path(log_dir)
        number = {"epoch": None, "batch": 1}.get(str(update_freq), update_freq)
        self.update_freq: int | None = optional_number("TensorBoard", "update_freq", number, 1)
        self._batches = 0
        self._files: dict[str, EventFile] = {}  # by folder
        self._marks: dict[str, tuple[str, int]] = {}

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin new files, or continue those of the run."""
        self._files = {}
        if self._begins_anew:
            self._batches = 0
        elif self._writes:
            for folder, mark in self._marks.items():
                EventFile.cut(own_path(self.log_dir, folder), mark, self._logger)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Write the means so far."""
        self._batches += 1
        if self.update_freq is not None and self._batches % self.update_freq == 0:
            self._write("train", "batch_{}", logs, self._batches)

    def on_test_end(self, logs: Logs = None) -> None:
        """Write the numbers of the evaluation."""
        optimizer = self.model.optimizer
        if optimizer is not None and hasattr(optimizer, "iterations"):
            self._write("validation", "evaluation_{}_vs_iterations", logs, int(optimizer.iterations))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write the logs of the epoch."""
        if logs:
            rate = {"learning_rate": rate_of(self.model.optimizer)}
            self._write("train", "epoch_{}", without_validation(logs) | rate, epoch)
            self._write("validation", "epoch_{}", logged_by("val", logs), epoch)

    def _write(self, folder: str, template: str, logs: Logs, step: int) -> None:
        if self._writes:
            if folder not in self._files:
                self._files[folder] = EventFile(self.log_dir / folder, self._logger)
            numbers = {template.format(name): number_of(value) for name, value in (logs or {}).items()}
            self._files[folder].add({name: number for name, number in numbers.items() if number is not None}, step)

    def state_dict(self) -> dict[str, Any]:
        """Return how many batches have passed, and where the files end."""
        return {"batches": self._batches, "files": {folder: file.mark() for folder, file in self._files.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the number of batches, and where the files ended."""
        check_names(state["files"], "TensorBoard")
        self._batches, self._marks = int(state["batches"]), dict(state["files"])


@HOOKS.register
class ProgbarLogger(Callback):
    """Show the progress: a line that is drawn again on a terminal, else a line for each epoch, test or prediction.

    ``params["verbose"]`` is 0 to show nothing, and 2 to draw no line again. Validations in a fit are not shown.

    Example:
        >>> bar = ProgbarLogger()
        >>> bar.set_params({"verbose": 2, "epochs": 2, "steps": 10})
        >>> bar.on_epoch_begin(0)
        Epoch 1/2
        >>> bar.on_epoch_end(0, {"loss": 0.5, "val_loss": 0.75})
        10/10 - ... - loss: 0.5000 - val_loss: 0.7500
    """

    _in_fit = False  # then tests are validations
    _start = _drawn = 0.0
    _seen = _width = 0

    def _begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        self._seen, self._width = 0, 0
        self._start = self._drawn = perf_counter()

    def _update(self, batch: int, logs: Logs = None) -> None:
        self._seen = batch + 1
        now = perf_counter()
        if now - self._drawn >= _INTERVAL and sys.stdout.isatty() and (self.params or {}).get("verbose", 1) != 2:
            self._drawn = now
            self._draw(logs)

    def _draw(self, logs: Logs, end: str = "") -> None:
        params = self.params or {}
        if not params.get("verbose", 1) or not self._writes:
            return
        seconds = perf_counter() - self._start
        times = duration_text(seconds) + (f", {duration_text(seconds / self._seen)}/step" if self._seen else "")
        count = f"{self._seen}/{params.get('steps') or (self._seen if end else '?')}"
        line = " - ".join([count, times, *(f"{name}: {_text(value)}" for name, value in (logs or {}).items())])
        # With spaces over the end of a longer line.
        print(("\r" if self._width else "") + line.ljust(self._width), end=end, flush=True)
        self._width = len(line)

    def _end(self, logs: Logs = None) -> None:
        self._seen = (self.params or {}).get("steps") or self._seen
        self._draw(logs, "\n")

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Hide tests from here on."""
        self._in_fit = True

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Show tests again."""
        self._in_fit = False

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Begin a line, below the number of the epoch."""
        self._begin(logs)
        params = self.params or {}
        if params.get("verbose", 1) and (params.get("epochs") or 1) > 1 and self._writes:
            print(f"Epoch {epoch + 1}/{params['epochs']}")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """End the line."""
        self._end(logs)

    def on_test_begin(self, logs: Logs = None) -> None:
        """Begin a line, except in a fit."""
        if not self._in_fit:
            self._begin(logs)

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Draw the line again, except in a fit."""
        if not self._in_fit:
            self._update(batch, logs)

    def on_test_end(self, logs: Logs = None) -> None:
        """End the line, except in a fit."""
        if not self._in_fit:
            self._end(logs)

    on_train_batch_end = _update
    on_predict_begin = _begin

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Draw the line again, without the predictions."""
        self._update(batch)

    on_predict_end = _end


_INTERVAL = 0.05  # seconds between two updates of a line


def _text(value: Any) -> str:  # Any: logs may have anything
    return number_text(value) if isinstance(value, (int, float, str)) else str(value)
