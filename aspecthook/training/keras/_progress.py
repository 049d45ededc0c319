"""A callback that shows the progress of a training, a test or a prediction."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.logging._numbers import duration_text, number_text

from ._bridge import writes
from ._callback import Callback, Logs

_WIDTH = 20
_INTERVAL = 0.05  # seconds between two updates of a bar


@HOOKS.register
class ProgbarLogger(Callback):
    """Show the progress: a bar on a terminal, else a line for each epoch. Validations in a fit are not shown.

    ``params["verbose"]`` is 0 to show nothing, and 2 to show lines on a terminal too.

    Example:
        >>> bar = ProgbarLogger()
        >>> bar.set_params({"verbose": 2, "epochs": 2, "steps": 10})
        >>> bar.on_epoch_begin(0)
        Epoch 1/2
        >>> bar.on_epoch_end(0, {"loss": 0.5, "val_loss": 0.75})
        10/10 - ... - loss: 0.5000 - val_loss: 0.7500
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: int = 0
        self.target: int | None = None
        self.verbose: int = 1
        self.epochs: int = 1
        self._in_fit = False
        self._silent = False  # during a validation in a fit
        self._start = self._drawn = 0.0
        self._width = 0

    def set_params(self, params: dict[str, Any]) -> None:
        """Set how many epochs and batches there are."""
        super().set_params(params)
        verbose = params.get("verbose", 1)
        self.verbose = 1 if verbose == "auto" else int(verbose)
        self.epochs = params.get("epochs") or 1
        self.target = params.get("steps")

    # A bar

    def _begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin a bar."""
        if not self._silent:
            self.seen, self._width = 0, 0
            self._start = self._drawn = perf_counter()

    def _update(self, batch: int, logs: Logs = None) -> None:
        """Update the bar after a batch."""
        if self._silent:
            return
        self.seen = batch + 1
        now = perf_counter()
        if self.verbose == 1 and now - self._drawn >= _INTERVAL and sys.stdout.isatty() and writes(self):
            self._drawn = now
            self._draw(logs, now)

    def _end(self, logs: Logs = None) -> None:
        """End the bar."""
        if self._silent:
            return
        if self.target is None:
            self.target = self.seen
        self.seen = self.target
        if self.verbose and writes(self):
            self._draw(logs, perf_counter())
            print()

    def _draw(self, logs: Logs, now: float) -> None:
        seconds = now - self._start
        count = f"{self.seen}/{self.target or '?'}"
        if self.verbose == 1:
            done = _WIDTH * self.seen // self.target if self.target else 0
            count += " " + "━" * done + "·" * (_WIDTH - done)
        times = duration_text(seconds) + (f", {duration_text(seconds / self.seen)}/step" if self.seen else "")
        line = " - ".join([count, times, *(f"{name}: {_text(value)}" for name, value in (logs or {}).items())])
        start = "\r" if self._width else ""
        print(start + line.ljust(self._width), end="", flush=True)  # with spaces over the end of a longer line
        self._width = len(line)

    # When

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Hide tests from here on: in a fit they are validations."""
        self._in_fit, self._silent = True, False

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Show tests again."""
        self._in_fit = False

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Begin a bar, below the number of the epoch."""
        self._begin(logs)
        if self.verbose and self.epochs > 1 and writes(self):
            print(f"Epoch {epoch + 1}/{self.epochs}")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """End the bar."""
        self._end(logs)

    def on_test_begin(self, logs: Logs = None) -> None:
        """Begin a bar, except in a fit."""
        self._silent = self._in_fit
        self._begin(logs)

    def on_test_end(self, logs: Logs = None) -> None:
        """End the bar, except in a fit."""
        self._end(logs)
        self._silent = False

    on_train_batch_end = _update
    on_test_batch_end = _update
    on_predict_begin = _begin

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Update the bar, without the predictions."""
        self._update(batch)

    def on_predict_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """End the bar."""
        self._end()


def _text(value: Any) -> str:
    return number_text(value) if isinstance(value, (int, float, str)) else str(value)
