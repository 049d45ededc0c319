"""A callback that writes the logs to event files for TensorBoard, by the names that Keras uses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from aspecthook._errors import HookOptionError, brief
from aspecthook.training._options import flag, whole_number
from aspecthook.training.checkpoint._files import own_path
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.hooks._kept_files import check_names
from aspecthook.training.logging._numbers import number_of
from aspecthook.training.logging._tensorboard import EventFile, require_tensorboardx
from aspecthook.training.loop._logs import logged_by, without_validation

from ._bridge import logger_of, runner_of, writes
from ._callback import Logs, ResumableCallback
from ._optimizer import rates


@HOOKS.register
class TensorBoard(ResumableCallback):
    """Write the logs to event files for TensorBoard, by the names that Keras uses.

    These are ``epoch_loss`` and the like, in the folders ``train`` and ``validation``, for each epoch; ``batch_loss``
    for batches; ``evaluation_loss_vs_iterations`` for each optimizer step that is followed by a validation. A run that
    is resumed begins new files, without the events of the old ones that it writes again. Needs the extra `tensorboard`.

    Args:
        log_dir: The folder.
        histogram_freq: The number of epochs between histograms of the weights; 0 for none.
        write_steps_per_second: Whether to write the speed of training.
        update_freq: ``"epoch"``; or ``"batch"``, or a number of batches, to write the logs of batches too.

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
        require_tensorboardx("TensorBoard")
        for name, value in (
            ("write_graph", write_graph),
            ("write_images", write_images),
            ("profile_batch", profile_batch),
            ("embeddings_freq", embeddings_freq),
            ("embeddings_metadata", embeddings_metadata),
        ):
            if value:
                raise HookOptionError(f"TensorBoard({name}={brief(value)}) works with TensorFlow only; leave it out")
        self.log_dir: Path = Path(log_dir)
        self.histogram_freq: int = whole_number("TensorBoard", "histogram_freq", histogram_freq, 0)
        self.write_steps_per_second: bool = flag("TensorBoard", "write_steps_per_second", write_steps_per_second)
        self.update_freq: int | None = None
        if update_freq != "epoch":
            self.update_freq = (
                1 if update_freq == "batch" else whole_number("TensorBoard", "update_freq", update_freq, 1)
            )
        self._batches = 0
        self._start, self._batches_before = 0.0, 0  # of the epoch
        self._files: dict[str, EventFile] = {}  # by folder
        self._marks: dict[str, tuple[str, int]] = {}

    # When

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin new files, or continue those of the run."""
        self._files = {}
        if self.begins_anew():
            self._batches = 0
        elif writes(self):
            for folder, mark in self._marks.items():
                EventFile.cut(own_path(self.log_dir, folder), mark, logger_of(self))

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Start measuring the speed."""
        self._start, self._batches_before = perf_counter(), self._batches

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Write the means so far."""
        self._batches += 1
        if self.update_freq is not None and self._batches % self.update_freq == 0:
            self._write("train", {f"batch_{name}": value for name, value in (logs or {}).items()}, self._batches)

    def on_test_end(self, logs: Logs = None) -> None:
        """Write the numbers of the evaluation."""
        optimizer = self.model.optimizer
        if optimizer is not None and hasattr(optimizer, "iterations"):
            values = {f"evaluation_{name}_vs_iterations": value for name, value in (logs or {}).items()}
            self._write("validation", values, int(optimizer.iterations))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write the logs of the epoch."""
        if not logs:
            return
        train = without_validation(logs) | rates(self.model)
        if self.write_steps_per_second:
            train["steps_per_second"] = (self._batches - self._batches_before) / (perf_counter() - self._start)
        is_due = self.histogram_freq and epoch % self.histogram_freq == 0 and writes(self)
        weights = _weights(self) if is_due else ()
        self._write("train", {f"epoch_{name}": value for name, value in train.items()}, epoch, weights)
        self._write("validation", {f"epoch_{name}": value for name, value in logged_by("val", logs).items()}, epoch)

    # How

    def _write(
        self, folder: str, values: Mapping[str, Any], step: int, weights: Iterable[tuple[str, Any]] = ()
    ) -> None:
        if not writes(self):
            return
        if folder not in self._files:
            self._files[folder] = EventFile(self.log_dir / folder, logger_of(self))
        numbers = {name: number_of(value) for name, value in values.items()}
        plain = {name: number for name, number in numbers.items() if number is not None}
        self._files[folder].add(plain, step, [(f"{name}/histogram", array) for name, array in weights])

    def state_dict(self) -> dict[str, Any]:
        """Return how many batches have passed, and where the files end."""
        return {"batches": self._batches, "files": {folder: file.mark() for folder, file in self._files.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the number of batches, and where the files ended."""
        self._batches, self._loaded = int(state["batches"]), True
        check_names(state["files"], "TensorBoard")
        self._marks = dict(state["files"])


def _weights(callback: TensorBoard) -> Iterable[tuple[str, Any]]:
    runner = runner_of(callback)
    if runner is not None:
        return runner.backend.state(runner.model).items()
    return [(weight.path, weight.numpy()) for weight in callback.model.weights]
