"""The protocol of TensorFlow 1: what a session-run hook is told, and what it may ask of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

if TYPE_CHECKING:
    from ._session import Coordinator, Session

# Any, here and below: fetches are names, nested as the hook likes; what is read has the same shape.


class SessionRunArgs(NamedTuple):
    """What `SessionRunHook.before_run` asks of a step.

    Args:
        fetches: A name of what a step knows, or lists, tuples, named tuples and dicts of names, nested at will:
            ``"loss"``, ``"global_step"``, ``"lr"``, ``"param:layer1.weight"``, ``"grad:layer1.weight"``,
            ``"output:layer1"``, ``"log:accuracy"``.
        feed: Entries of the batch, and what they are to be replaced with: by the keys of a batch that is a mapping, by
            0 and 1, or ``"inputs"`` and ``"targets"``, of a pair.

    Example:
        >>> SessionRunArgs({"loss": "loss", "sizes": ["param:0.weight", "grad:0.weight"]}, feed={"inputs": 0.0}).feed
        {'inputs': 0.0}
    """

    fetches: Any = None
    feed: Mapping[Any, Any] | None = None


class SessionRunValues(NamedTuple):
    """What `SessionRunHook.after_run` is given.

    Attributes:
        results: What the hook's fetches were, in their shape: numbers, NumPy's arrays, or None for what is not there,
            such as the gradient of a parameter that has none.

    Example:
        >>> SessionRunValues(results={"loss": 0.7}).results["loss"]
        0.7
    """

    results: Any = None


@final
class SessionRunContext:
    """One step, as its hooks see it; all hooks of a step are given the same.

    Attributes:
        original_args: What the caller of the step asked for himself.
        session: The `Session`, which reads what is known now, without a step.

    Example:
        >>> context = SessionRunContext(SessionRunArgs("loss"), None)
        >>> context.request_stop()
        >>> context.stop_requested
        True
    """

    __slots__ = ("_stop", "original_args", "session")

    def __init__(self, original_args: SessionRunArgs, session: Session | None) -> None:
        self.original_args = original_args
        self.session: Any = session  # what is None here is none that a hook ever sees
        self._stop = False

    def request_stop(self) -> None:
        """End the run after this step."""
        self._stop = True

    @property
    def stop_requested(self) -> bool:
        """Whether a hook of this step has asked for the end of the run."""
        return self._stop


class SessionRunHook:
    """The base of session-run hooks: override what you need.

    ``runner.register_hook(hook)`` and ``MonitoredTrainingSession(hooks=[hook])`` take them. What is not overridden is
    never called. Mind that ``before_run`` and ``after_run`` are called at every step here, and not once a run as those
    of `aspecthook.training.Hook` are. ``state_dict`` and ``load_state_dict``, if there are, go into checkpoints.

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
        """Called once, before the session is made."""

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Called when the session is made, and again when it had to be made anew."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:  # noqa: ARG002
        """Called before each step; answers what it wants to know of it, and to feed it."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each step with what `before_run` asked for; not if the step has failed."""

    def end(self, session: Session) -> None:
        """Called when the run has ended; not if it has failed."""


METHODS = ("begin", "after_create_session", "before_run", "after_run", "end")
