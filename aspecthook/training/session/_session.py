"""The session that hooks take, which reads values without a step, and the coordinator of its threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

from aspecthook.training._errors import TrainingError

from ._fetches import check_name, mapped, names_in

if TYPE_CHECKING:
    from aspecthook.training.loop._run import Run

    from ._reading import Reader

_WHO = "session.run"


@final
class Session:
    """A run while it lasts: `after_create_session` and `end` of a hook take it, and the context of a step has it.

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

    @property
    def runner(self) -> Run:
        """The runner.

        Raises:
            TrainingError: The session is closed.
        """
        if self._runner is None:
            raise TrainingError("the session is closed; ask it for what you need before the run is over")
        return self._runner

    @property
    def closed(self) -> bool:
        """Whether the run is over, or the session was lost and another one made."""
        return self._runner is None

    # Any: fetches are nested as one likes, and so is what is read.
    def run(self, fetches: Any, feed: Mapping[Any, Any] | None = None) -> Any:
        """Return values in the shape of the fetches, without a step.

        A number that only a step has, such as the loss, is that of the last step; gradients and outputs of layers are
        those that were fetched last. ``"global_step"`` counts the step that is ending.

        Raises:
            HookOptionError: No step knows a name.
            HookTypeError: There is something else than names in the fetches.
            TrainingError: There is a feed, or the session is closed.
        """
        runner = self.runner
        if feed:
            raise TrainingError(f"{_WHO} computes nothing that could be fed; feed in before_run, or to the step itself")
        names = dict.fromkeys(names_in(fetches, _WHO))
        for name in names:
            check_name(name, runner, _WHO)
        values = self._reader.read(names, runner, runner.progress["step"])
        return mapped(fetches, values.__getitem__, _WHO)

    def should_stop(self) -> bool:
        """Whether the run is to end."""
        return self._runner is None or self._runner.stopping

    def close(self) -> None:
        """Release the runner."""
        self._runner = None

    def __repr__(self) -> str:
        return "<session, closed>" if self._runner is None else f"<session of {self._runner!r}>"


@final
class Coordinator:
    """Lets the run and the threads of its hooks ask each other to stop.

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
        self._threads: list[threading.Thread] = []
        self._error: BaseException | None = None

    def request_stop(self, error: BaseException | None = None) -> None:
        """End the run after its step, and ask the threads to end. The run raises the error, if one is given."""
        if self._error is None and not self._event.is_set():
            self._error = error
        self._event.set()
        self._stop()

    def should_stop(self) -> bool:
        """Whether threads are to end."""
        return self._event.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until threads are to end, and return whether they are."""
        return self._event.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Wait for a thread when the session ends."""
        self._threads.append(thread)

    def join(self, timeout: float | None = None) -> None:
        """Wait for the threads, for each of them at most so many seconds."""
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(timeout)

    def raise_requested(self) -> None:
        """Raise the error that `request_stop` was given."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self, grace: float) -> None:
        """Ask the threads to end, and wait for them. The run is over already."""
        self._event.set()
        self.join(grace)
