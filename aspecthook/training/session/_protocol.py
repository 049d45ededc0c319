"""The protocol of TensorFlow 1: sessions, the methods of session-run hooks, their arguments, results and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

from aspecthook.training._errors import TrainingError
from aspecthook.training.hooks._guards import NanLossError
from aspecthook.training.loop._run import Run

from ._fetches import Reader, mapped

_WHO = "session.run"


@final
class Session:
    """A view of a run: hooks get it in `after_create_session` and `end`, and in the context of each step.

    Example:
        >>> from aspecthook.training.session import SessionRunHook
        >>> class Enough(SessionRunHook):
        ...     def after_create_session(self, session, coord):
        ...         if session.run("global_step") >= 100:
        ...             coord.request_stop()  # the coordinator is the session itself
    """

    def __init__(self, runner: Run, reader: Reader) -> None:
        self._runner: Run | None = runner
        self._reader = reader

    @property
    def runner(self) -> Run:
        """The runner; an error once the session is closed."""
        if self._runner is None:
            raise TrainingError("the session is closed; read values before the run ends")
        return self._runner

    @property
    def closed(self) -> bool:
        """Whether the run is over, or another session has replaced this one."""
        return self._runner is None

    # Any: fetches are nested in any way, and so are the values.
    def run(self, fetches: Any, feed: Mapping[Any, Any] | None = None) -> Any:
        """Return values in the shape of the fetches, without a step.

        A value that only a step has, such as the loss, is that of the last step; gradients and outputs of layers are
        those that were fetched last. ``"global_step"`` includes the step that is just ending.

        Raises:
            HookOptionError: A step has no value of a name.
            HookTypeError: Something in the fetches is not a name.
            TrainingError: There is a feed, or the session is closed.
        """
        runner = self.runner
        if feed:
            raise TrainingError(f"{_WHO} makes no step that could be fed; feed in before_run, or the step itself")
        names = self._reader.check(fetches, runner, _WHO)
        values = self._reader.read(names, runner, runner.progress.step)
        return mapped(fetches, values.__getitem__, _WHO)

    def request_stop(self) -> None:
        """End the run after its step."""
        self.runner.request_stop()

    def should_stop(self) -> bool:
        """Whether the run is to end."""
        return self._runner is None or self._runner.stopping

    def close(self) -> None:
        """Release the runner."""
        self._runner = None


# Any, here and below: fetches are names, nested in any way, and the values have the same shape.


class SessionRunArgs(NamedTuple):
    """The answer of `SessionRunHook.before_run`: values to read, and entries of the batch to replace.

    Args:
        fetches: The name of a value, or nested lists, tuples, named tuples and dicts of names: ``"loss"``,
            ``"global_step"``, ``"lr"``, ``"param:layer1.weight"``, ``"grad:layer1.weight"``, ``"output:layer1"``.
        feed: Values by the entry of the batch that they replace: a key of a batch that is a mapping; of a pair 0 and
            1, or ``"inputs"`` and ``"targets"``.

    Example:
        >>> SessionRunArgs({"loss": "loss", "sizes": ["param:0.weight", "grad:0.weight"]}, feed={"inputs": 0.0}).feed
        {'inputs': 0.0}
    """

    fetches: Any = None
    feed: Mapping[Any, Any] | None = None


class SessionRunValues(NamedTuple):
    """The values that `SessionRunHook.after_run` is called with.

    Attributes:
        results: The values in the shape of the hook's fetches: numbers, NumPy arrays, or None for what does not exist,
            such as the gradient of a parameter that has none.

    Example:
        >>> SessionRunValues(results={"loss": 0.7}).results["loss"]
        0.7
    """

    results: Any = None


@final
class SessionRunContext:
    """One step, as its hooks see it; all hooks of a step share one.

    Attributes:
        original_args: The fetches and feeds of the caller of the step.
        session: The `Session`, which reads values without a step.
        stop_requested: Whether a hook of this step has called `request_stop`.

    Example:
        >>> context = SessionRunContext(SessionRunArgs("loss"), None)
        >>> context.request_stop()
        >>> context.stop_requested
        True
    """

    __slots__ = ("original_args", "session", "stop_requested")

    def __init__(self, original_args: SessionRunArgs, session: Session | None) -> None:
        self.original_args: SessionRunArgs = original_args
        self.session: Any = session  # None only in a context that no hook sees
        self.stop_requested: bool = False

    def request_stop(self) -> None:
        """End the run after this step."""
        self.stop_requested = True


class SessionRunHook:
    """The base of session-run hooks: override what you need.

    ``runner.register_hook(hook)`` and ``MonitoredTrainingSession(hooks=[hook])`` take them. A method that is not
    overridden is never called. ``before_run`` and ``after_run`` are called at every step, while those of
    `aspecthook.training.Hook` are called once a run. If a hook has ``state_dict`` and ``load_state_dict``, checkpoints
    keep its state.

    Example:
        >>> class Losses(SessionRunHook):
        ...     def begin(self):
        ...         self.losses = []
        ...
        ...     def before_run(self, run_context):
        ...         return SessionRunArgs("loss")
        ...
        ...     def after_run(self, run_context, run_values):
        ...         self.losses.append(run_values.results)
        ...         if run_values.results < 0.1:
        ...             run_context.request_stop()
    """

    priority: int | str = "NORMAL"

    def begin(self) -> None:
        """Called once, before the session is created."""

    def after_create_session(self, session: Session, coord: Session) -> None:
        """Called when a session is created: at the beginning, and after each that was lost.

        The coordinator is the session itself: `Session.request_stop` ends the run.
        """

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:  # noqa: ARG002
        """Called before each step; returns the values to read and to feed."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each step with the fetched values; not if the step has failed."""

    def end(self, session: Session) -> None:
        """Called when the run has ended; not if it has failed."""


METHODS = ("begin", "after_create_session", "before_run", "after_run", "end")


# Errors


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
