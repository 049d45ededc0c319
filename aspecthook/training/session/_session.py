"""The session that hooks get, which reads values without a step; and the coordinator of its threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
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
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.session import SessionRunHook
        >>> class Show(SessionRunHook):
        ...     def after_create_session(self, session, coord):
        ...         print(session.run({"step": "global_step", "rate": "lr"}))
    """

    def __init__(self, runner: Run, reader: Reader) -> None:
        self._runner: Run | None = runner
        self._reader = reader
        self._closing = ExitStack()

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

    def should_stop(self) -> bool:
        """Whether the run is to end."""
        return self._runner is None or self._runner.stopping

    def at_close(self, function: Callable[[], object]) -> None:
        """Call a function when the session is closed, however that comes about."""
        self._closing.callback(function)

    def close(self) -> None:
        """Release the runner."""
        self._runner = None
        self._closing.close()

    def __repr__(self) -> str:
        return "<session, closed>" if self._runner is None else f"<session of {self._runner!r}>"


@final
class Coordinator:
    """A coordinator, by which the run and the threads of its hooks ask each other to stop.

    Example:
        >>> coord = Coordinator()
        >>> coord.should_stop()
        False
        >>> coord.request_stop()
        >>> coord.should_stop(), coord.wait_for_stop(timeout=0)
        (True, True)
    """

    def __init__(self, stop: Callable[[], object] = lambda: None) -> None:
        self._stop = stop
        self._event = threading.Event()
        self._error: BaseException | None = None

    def request_stop(self, error: BaseException | None = None) -> None:
        """End the run after its step, and the threads; the run raises the error, if one is given."""
        if self._error is None and not self._event.is_set():
            self._error = error
        self._event.set()
        self._stop()

    def should_stop(self) -> bool:
        """Whether the threads should end."""
        return self._event.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until the threads should end, and return whether they should."""
        return self._event.wait(timeout)

    def raise_requested(self) -> None:
        """Raise the error that `request_stop` was called with, if there is one."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """Ask the threads to end; the run is over already."""
        self._event.set()
