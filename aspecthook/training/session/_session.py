"""The session that hooks get, which reads values without a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training.loop._run import Run

from ._fetches import mapped
from ._reader import Reader

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
        values = self._reader.read(names, runner, runner.done.step)
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

    def __repr__(self) -> str:
        return "<session, closed>" if self._runner is None else f"<session of {self._runner!r}>"
