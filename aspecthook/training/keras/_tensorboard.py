"""A callback that writes what was logged for TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from socket import gethostname
from time import perf_counter, time
from typing import Any, final

from aspecthook._errors import HookOptionError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._optimizer import whole
from aspecthook.training.logging._files import append
from aspecthook.training.logging._tensorboard import _module, _record

from ._bridge import runner_of, writes
from ._callback import Continuing, Logs
from ._optimizer import rates

_VAL = "val_"
_BINS = 30  # as TensorFlow has them


@HOOKS.register
class TensorBoard(Continuing):
    """Write what was logged for TensorBoard, by the names that Keras gives.

    They are ``epoch_loss`` and the like, in the folders ``train`` and ``validation``, by epochs; ``batch_loss`` by
    batches; ``evaluation_loss_vs_iterations`` by steps of the optimizer. A run that is resumed goes on
    in its files, without the events that it will write again. Needs the extra `tensorboard`.

    Args:
        log_dir: The folder.
        histogram_freq: Every how many epochs to write histograms of the weights; 0 for never.
        write_steps_per_second: Whether to write how fast training is.
        update_freq: ``"epoch"``; or ``"batch"``, or the number of batches, to write those numbers too.

    Raises:
        HookOptionError: An option has a value that it cannot have.
        HookTypeError: An option is of another type.
        TrainingError: The package tensorboardX is missing.

    Example:
        >>> TensorBoard("runs/logs", update_freq="batch").update_freq
        1
        >>> TensorBoard(update_freq=0)
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: TensorBoard: update_freq=0; give a number from 1 up
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        histogram_freq: int = 0,
        write_graph: bool = False,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        update_freq: str | int = "epoch",
        profile_batch: Any = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: Any = None,
    ) -> None:
        super().__init__()
        if find_spec("tensorboardX") is None:
            raise TrainingError("TensorBoard needs tensorboardX; pip install 'aspecthook[tensorboard]'")
        others = {
            "write_graph": write_graph,
            "write_images": write_images,
            "profile_batch": profile_batch,
            "embeddings_freq": embeddings_freq,
            "embeddings_metadata": embeddings_metadata,
        }
        for name, value in others.items():
            if value:
                raise HookOptionError(f"TensorBoard({name}={brief(value)}) is for TensorFlow alone; leave it out")
        self.log_dir = Path(log_dir)
        self.histogram_freq = whole("TensorBoard", "histogram_freq", histogram_freq, 0)
        self.write_steps_per_second = write_steps_per_second
        self.update_freq: int | None = None
        if update_freq != "epoch":
            self.update_freq = 1 if update_freq == "batch" else whole("TensorBoard", "update_freq", update_freq, 1)
        self._batches = 0
        self._begun, self._steps = 0.0, 0
        self._files: dict[str, Events] = {}
        self._marks: dict[str, tuple[str, int]] = {}

    # When

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Count batches from here."""
        self._files = {}
        if self.begins_anew():
            self._batches = 0
        elif writes(self):
            for folder, mark in self._marks.items():
                self._files[folder] = Events.resumed(self.log_dir / folder, mark)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Look at the clock."""
        self._begun, self._steps = perf_counter(), self._batches

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Write the numbers so far."""
        self._batches += 1
        if self.update_freq is not None and self._batches % self.update_freq == 0:
            self._write("train", {f"batch_{name}": value for name, value in (logs or {}).items()}, self._batches)

    def on_test_end(self, logs: Logs = None) -> None:
        """Write the numbers of an evaluation."""
        optimizer = self.model.optimizer
        if optimizer is not None and hasattr(optimizer, "iterations"):
            found = {f"evaluation_{name}_vs_iterations": value for name, value in (logs or {}).items()}
            self._write("validation", found, int(optimizer.iterations))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write the numbers of the epoch."""
        found = dict(logs or {})
        if not found:
            return
        train = {name: value for name, value in found.items() if not name.startswith(_VAL)} | rates(self.model)
        if self.write_steps_per_second:
            train["steps_per_second"] = (self._batches - self._steps) / (perf_counter() - self._begun)
        val = {name.removeprefix(_VAL): value for name, value in found.items() if name.startswith(_VAL)}
        for folder, rows in (("train", train), ("validation", val)):
            self._write(folder, {f"epoch_{name}": value for name, value in rows.items()}, epoch)
        if self.histogram_freq and epoch % self.histogram_freq == 0 and writes(self):
            for name, array in _weights(self):
                self._file("train").histogram(f"{name}/histogram", array, epoch)

    # How

    def _write(self, folder: str, rows: Mapping[str, Any], step: int) -> None:
        if writes(self):
            numbers = {name: float(value) for name, value in rows.items() if isinstance(value, (int, float))}
            self._file(folder).numbers(numbers, step)

    def _file(self, folder: str) -> Events:
        if folder not in self._files:
            self._files[folder] = Events(self.log_dir / folder)
        return self._files[folder]

    def state_dict(self) -> dict[str, Any]:
        """Give how many batches have passed, and how long the files are."""
        return {"batches": self._batches, "files": {folder: file.mark() for folder, file in self._files.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self._batches, self._loaded = int(state["batches"]), True
        self._marks = dict(state["files"])


@final
class Events:
    """A file of events in a folder. Written as it goes: a writer in the background can lose events, or hang."""

    def __init__(self, folder: Path) -> None:
        number = 0
        name = f"events.out.tfevents.{time():.0f}.{gethostname()}.{os.getpid()}"
        while (path := folder / f"{name}.{number}").exists():  # several may begin in one second
            number += 1
        self.path = path
        self._add(_record(file_version="brain.Event:2"))

    @classmethod
    def resumed(cls, folder: Path, mark: tuple[str, int]) -> Events:
        """Go on in a file, without the events that will be written again; in a new one if it is not there."""
        name, size = mark
        path = folder / Path(name).name
        if not path.exists() or path.stat().st_size < size:
            return cls(folder)
        os.truncate(path, size)
        made = object.__new__(cls)
        made.path = path
        return made

    def mark(self) -> tuple[str, int]:
        """Give the name of the file, and how long it is."""
        return self.path.name, self.path.stat().st_size

    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Write numbers by name."""
        summary: Any = _module("proto.summary_pb2").Summary
        values = [summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        if values:
            self._add(_record(step=step, summary=summary(value=values)))

    def histogram(self, name: str, array: Any, step: int) -> None:  # Any: an array
        """Write a histogram of what is finite."""
        import numpy as np

        finite = array[np.isfinite(array)]
        if finite.size:
            self._add(_record(step=step, summary=_module("summary").histogram(name, finite, _BINS)))

    def _add(self, data: bytes) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            append(self.path, data)
        except OSError as error:
            raise TrainingError(f"TensorBoard: {self.path} cannot be written: {error.strerror}") from error


def _weights(callback: TensorBoard) -> Iterable[tuple[str, Any]]:
    runner = runner_of(callback)
    if runner is not None:
        return runner.backend.state(runner.model).items()
    return [(weight.path, weight.numpy()) for weight in callback.model.weights]
