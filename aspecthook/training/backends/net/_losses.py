"""The losses of the NumPy back end; their values are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

from ._values import QUIET, Loss, anp, detach


@np.errstate(**QUIET)
def cross_entropy(outputs: Any, targets: Any, *, reduction: str = "mean") -> Loss:
    """Return the cross entropy of the softmax of the outputs, as ``torch.nn.functional.cross_entropy``.

    Args:
        outputs: Logits, of shape (batch, classes).
        targets: Class numbers, integers of shape (batch,); or probabilities, of shape (batch, classes).
        reduction: ``"mean"`` or ``"sum"`` over the batch.

    Raises:
        TrainingError: The shapes do not fit, or a target is not a class number.

    Example:
        >>> import numpy as np
        >>> cross_entropy(np.zeros((2, 10)), np.array([3, 7]))
        Loss(2.30259)
    """
    targets, shape = np.asarray(targets), np.shape(outputs)
    whole = np.issubdtype(targets.dtype, np.integer)
    if len(shape) != 2 or targets.shape != (shape[:1] if whole else shape):
        raise TrainingError(
            f"cross_entropy was given outputs of shape {shape} and targets of shape {targets.shape} and type "
            f"{targets.dtype}; give (batch, classes), and integers (batch,) or probabilities (batch, classes)"
        )
    if whole and targets.size and (targets.min() < 0 or targets.max() >= shape[1]):
        raise TrainingError(
            f"cross_entropy was given classes {targets.min()} to {targets.max()}, but outputs for 0 to {shape[1] - 1}"
        )
    shifted = outputs - detach(outputs).max(1, keepdims=True)  # does not change the loss, and exp cannot overflow
    logs = shifted - anp.log(anp.exp(shifted).sum(axis=1, keepdims=True))
    picked = logs[np.arange(shape[0]), targets] if whole else (logs * targets.astype(logs.dtype)).sum(axis=1)
    return _reduced(-picked, reduction)


@np.errstate(**QUIET)
def mse(outputs: Any, targets: Any, *, reduction: str = "mean") -> Loss:
    """Return the mean squared error, as ``torch.nn.functional.mse_loss``.

    Args:
        outputs: Numbers of any shape.
        targets: Numbers of the same shape.
        reduction: ``"mean"`` or ``"sum"`` over all numbers.

    Raises:
        TrainingError: The shapes differ. Broadcasting is refused, since it is hardly ever meant.

    Example:
        >>> import numpy as np
        >>> mse(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
        Loss(2)
    """
    if np.shape(outputs) != np.shape(targets):
        raise TrainingError(
            f"mse was given outputs of shape {np.shape(outputs)} and targets of shape {np.shape(targets)}; reshape one"
        )
    return _reduced((outputs - targets) ** 2, reduction)


def _reduced(values: Any, reduction: str) -> Loss:
    if reduction not in ("mean", "sum"):
        raise TrainingError(f"reduction={brief(reduction)}: give 'mean' or 'sum'")
    return Loss(values.sum() if reduction == "sum" else values.mean())
