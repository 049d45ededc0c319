"""The error of training itself; hooks have errors of their own."""

from __future__ import annotations

from aspecthook._errors import AspecthookError


class TrainingError(AspecthookError, RuntimeError):
    """A run that cannot begin or go on; the message says what is wrong and what to change."""


TrainingError.__module__ = "aspecthook.training"
