"""Conversions between a run and Keras's callbacks: of data, predictions, logs, and lists of callbacks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from aspecthook.training.backends._state import is_any, is_tensor, map_leaves
from aspecthook.training.loop._run import Run

from ._callback import Callback
from ._run_model import RunModel

# Any: models take and return what they like, and so do logs; a callback may be of any class.


def runner_of(callback: Callback) -> Run | None:
    """Return the run that a callback is on; None in a fit of Keras."""
    model = callback.model
    return model.runner if isinstance(model, RunModel) else None


def writes(callback: Callback) -> bool:
    """Whether this process writes files and prints lines: on a run, only rank 0 does."""
    runner = runner_of(callback)
    return runner is None or runner.rank == 0


def logger_of(callback: Callback) -> Any:
    """Return the logger of the run that a callback is on; that of the package in a fit of Keras."""
    runner = runner_of(callback)
    return logging.getLogger("aspecthook.training") if runner is None else runner.logger


def flat(callbacks: Any) -> Iterator[Any]:
    """Return the callbacks in lists of lists, one by one."""
    if is_any(callbacks, list, tuple):
        for item in callbacks:
            yield from flat(item)
    elif callbacks is not None:
        yield callbacks


def plain(logs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return logs sorted by name, without nested dicts, and with floats wherever a value can be made one.

    Example:
        >>> plain({"loss": "0.5", "by": {"class": [1, 2]}})
        {'class': [1, 2], 'loss': 0.5}
    """
    result: dict[str, Any] = {}
    for name, value in sorted((logs or {}).items()):
        result.update(plain(value) if is_any(value, dict) else {name: _float(value)})
    return result


def _float(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # PyTorch raises one for a tensor of several numbers
        return value


def on_host(value: Any) -> Any:
    """Return arrays for the tensors in a value, as Keras's `predict` does."""
    return map_leaves(lambda one: one.detach().cpu().numpy() if is_tensor(one) else one, value)
