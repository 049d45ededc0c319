"""A callback that shows how far a training, a test or a prediction has come."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

from aspecthook.training.hooks._hook import HOOKS

from ._callback import Callback, Logs
from ._files import writes

_WIDTH = 20
_OFTEN = 0.05  # seconds between two pictures of a line


@HOOKS.register
class ProgbarLogger(Callback):
    """Show the progress: a bar on a terminal, else a line for each epoch. A validation in training is silent.

    Whether anything is shown, ``params["verbose"]`` says: 0 for nothing, 2 for lines on a terminal too.

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
        self.seen = 0
        self.target: int | None = None
        self.verbose: int = 1
        self.epochs = 1
        self._in_fit = False
        self._begun = self._shown = 0.0
        self._width = 0

    def set_params(self, params: dict[str, Any]) -> None:
        """Take how much there is to do."""
        super().set_params(params)
        verbose = params.get("verbose", 1)
        self.verbose = 1 if verbose == "auto" else int(verbose)
        self.epochs = params.get("epochs") or 1
        self.target = params.get("steps")

    # When

    def on_train_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Be silent in validations."""
        self._in_fit = True

    def on_train_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Show tests again."""
        self._in_fit = False

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin a bar."""
        self._begin()
        if self.verbose and self.epochs > 1 and writes(self):
            print(f"Epoch {epoch + 1}/{self.epochs}")

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Move the bar."""
        self._move(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """End the bar."""
        self._end(logs)

    def on_test_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin a bar, unless in training."""
        if not self._in_fit:
            self._begin()

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Move the bar, unless in training."""
        if not self._in_fit:
            self._move(batch, logs)

    def on_test_end(self, logs: Logs = None) -> None:
        """End the bar, unless in training."""
        if not self._in_fit:
            self._end(logs)

    def on_predict_begin(self, logs: Logs = None) -> None:  # noqa: ARG002
        """Begin a bar."""
        self._begin()

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        """Move the bar."""
        self._move(batch, None)

    def on_predict_end(self, logs: Logs = None) -> None:  # noqa: ARG002
        """End the bar."""
        self._end(None)

    # How

    def _begin(self) -> None:
        self.seen, self._width = 0, 0
        self._begun = self._shown = perf_counter()

    def _move(self, batch: int, logs: Logs) -> None:
        self.seen = batch + 1
        now = perf_counter()
        if self.verbose == 1 and now - self._shown >= _OFTEN and sys.stdout.isatty() and writes(self):
            self._shown = now
            self._draw(self._line(logs, now - self._begun))

    def _end(self, logs: Logs) -> None:
        if self.target is None:
            self.target = self.seen
        self.seen = self.target
        if self.verbose and writes(self):
            self._draw(self._line(logs, perf_counter() - self._begun))
            print()

    def _draw(self, line: str) -> None:
        start = "\r" if self._width else ""
        print(start + line.ljust(self._width), end="", flush=True)
        self._width = len(line)

    def _line(self, logs: Logs, seconds: float) -> str:
        count = f"{self.seen}/{self.target or '?'}"
        parts = [f"{count} {_bar(self.seen, self.target)}" if self.verbose == 1 else count, _duration(seconds)]
        if self.seen:
            parts[-1] += f" {_duration(seconds / self.seen)}/step"
        return " - ".join([*parts, *(f"{name}: {_shown(value)}" for name, value in (logs or {}).items())])


def _bar(seen: int, target: int | None) -> str:
    done = _WIDTH * seen // target if target else 0
    return "━" * done + "·" * (_WIDTH - done)


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.0f}s"
    return f"{seconds * 1e3:.0f}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}µs"


def _shown(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.4f}" if abs(value) > 1e-3 or value == 0 else f"{value:.4e}"
