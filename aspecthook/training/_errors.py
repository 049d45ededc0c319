"""The error of training itself; hooks have errors of their own."""

from __future__ import annotations

from aspecthook._errors import AspecthookError


class TrainingError(AspecthookError, RuntimeError):
    """A run cannot begin or continue; the message says what is wrong and what to change.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.data import ArrayDataset
        >>> ArrayDataset(np.zeros(3), np.zeros(4))
        Traceback (most recent call last):
          ...
        aspecthook.training.TrainingError: ...
    """


TrainingError.__module__ = "aspecthook.training"
