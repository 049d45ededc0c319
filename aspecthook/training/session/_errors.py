"""The errors that end a run quietly, that after which a session is replaced, and that of a NaN loss."""

from __future__ import annotations

from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._nan import NanLossError


class OutOfRangeError(TrainingError):
    """There are no more data. Raised in a step, it ends the run without an error, and `end` of the hooks is called.

    Example:
        >>> from aspecthook.training.session import SessionRunHook
        >>> class Budget(SessionRunHook):
        ...     def after_run(self, run_context, run_values):
        ...         raise OutOfRangeError("the budget is spent")  # the run ends as if there were no more data
    """


class AbortedError(TrainingError):
    """The session is lost, but the run is not: a new session is created, and the step is made again.

    Example:
        >>> from aspecthook.training.session import SessionRunHook
        >>> class Connected(SessionRunHook):
        ...     def before_run(self, run_context):
        ...         raise AbortedError("the worker has gone")  # the session begins again at the last checkpoint
    """


class NanLossDuringTrainingError(NanLossError):
    """`NanTensorHook` found a loss that is NaN.

    Example:
        >>> from aspecthook.training.session import NanTensorHook, SessionRunArgs, SessionRunContext, SessionRunValues
        >>> hook = NanTensorHook("loss")
        >>> hook.after_run(SessionRunContext(SessionRunArgs(), None), SessionRunValues(float("nan")))
        Traceback (most recent call last):
          ...
        aspecthook.training.session.NanLossDuringTrainingError: 'loss' is NaN; ...
    """


for _error in (OutOfRangeError, AbortedError, NanLossDuringTrainingError):
    _error.__module__ = "aspecthook.training.session"

# The errors that end the run as if a hook had requested it.
QUIET: tuple[type[Exception], ...] = (StopIteration, OutOfRangeError)
