"""What ends a session, what makes it begin anew, and what else may go wrong in one."""

from __future__ import annotations

from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._nan import NanLossError


class OutOfRangeError(TrainingError):
    """There is no more data: raised anywhere in a step, it ends the loop quietly, and `end` is called."""


class AbortedError(TrainingError):
    """The session is lost, and the run is not: a new one is made, and the step is tried again."""


class UnavailableError(TrainingError):
    """What the session needs is away for the moment; what is done is what `AbortedError` makes be done."""


class NanLossDuringTrainingError(NanLossError):
    """`NanTensorHook` has seen a loss that is not a number."""


for _error in (OutOfRangeError, AbortedError, UnavailableError, NanLossDuringTrainingError):
    _error.__module__ = "aspecthook.training.session"

# What ends the loop as if it had been asked to, and what makes a session begin anew.
QUIET: tuple[type[Exception], ...] = (StopIteration, OutOfRangeError)
LOST: tuple[type[Exception], ...] = (AbortedError, UnavailableError)
