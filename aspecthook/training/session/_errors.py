"""The errors that end a session quietly, that make it anew, and that its hooks raise."""

from __future__ import annotations

from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._nan import NanLossError


class OutOfRangeError(TrainingError):
    """There are no more data. Raised anywhere in a step, it ends the run quietly, and `end` of the hooks is called."""


class AbortedError(TrainingError):
    """The session is lost, and the run is not: a new session is created, and the step is tried again."""


class UnavailableError(TrainingError):
    """Something that the session needs is away for the moment. It is handled like `AbortedError`."""


class NanLossDuringTrainingError(NanLossError):
    """`NanTensorHook` has seen a loss that is not a number."""


for _error in (OutOfRangeError, AbortedError, UnavailableError, NanLossDuringTrainingError):
    _error.__module__ = "aspecthook.training.session"

# What ends the run as if a hook had asked for it, and what makes a session anew.
QUIET: tuple[type[Exception], ...] = (StopIteration, OutOfRangeError)
LOST: tuple[type[Exception], ...] = (AbortedError, UnavailableError)
