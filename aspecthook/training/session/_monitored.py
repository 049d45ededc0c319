"""TensorFlow's `MonitoredTrainingSession`: a run that makes a step at each call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from aspecthook import hookable
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._format import newest
from aspecthook.training.loop._names import name_in_list
from aspecthook.training.loop._runner import Runner
from aspecthook.training.loop._steps import end_of, trained

from ._bindings import list_of_hooks
from ._checkpoints import CheckpointSaverHook
from ._drive import Drive
from ._errors import QUIET, OutOfRangeError
from ._protocol import SessionRunArgs
from ._session import Session
from ._state import session_state


@final
class MonitoredTrainingSession:
    """A run that makes one step at each call of `run`, with the hooks of its runner and those of the session.

    When it is created, it loads the newest checkpoint, and calls `begin` and `after_create_session` of the hooks. When
    the block ends, it calls `end`, unless an exception ended the block; `StopIteration` and `OutOfRangeError` end the
    block without an error. The stages are those of `Runner.fit`, with all their hooks. Hooks of its own save
    checkpoints, write summaries and log the speed. The hooks of the session are removed at the end.

    Args:
        runner: A `Runner`, whose ``max_epochs`` or ``max_iters`` ends the run if it has one.
        train: The data, for epoch after epoch.
        val: The data to validate on, where the runner's workflow says so, or after each epoch.
        hooks: The hooks of this session: session-run hooks, or hooks of any other kind that a runner takes.
        checkpoint_dir: The folder to save checkpoints in, and to load the newest from. When a session is lost, the run
            continues from there too; without a folder, from the last step.
        save_checkpoint_steps: The steps between two checkpoints.
        save_checkpoint_secs: The seconds between two checkpoints: 600 unless steps are given. For other options, put a
            `CheckpointSaverHook` among the hooks, which takes the place of that of the session.

    Raises:
        TrainingError: The run cannot begin, or the checkpoint is that of another run.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> from aspecthook.training.session import StopAtStepHook
        >>> model = Linear(1, 1)
        >>> batches = [(np.ones((4, 1)), np.zeros((4, 1)))]
        >>> runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse)
        >>> with MonitoredTrainingSession(runner, batches, hooks=[StopAtStepHook(last_step=50)]) as session:
        ...     while not session.should_stop():
        ...         loss = session.run("loss")
        >>> loss < 0.01, session.should_stop()
        (True, True)
    """

    def __init__(
        self,
        runner: Runner,
        train: Any,
        val: Any = None,
        *,
        hooks: Iterable[Any] | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        save_checkpoint_steps: int | None = None,
        save_checkpoint_secs: float | None = None,
    ) -> None:
        given = list_of_hooks(hooks, "MonitoredTrainingSession")
        if checkpoint_dir is not None and not any(isinstance(hook, CheckpointSaverHook) for hook in given):
            if save_checkpoint_steps is None and save_checkpoint_secs is None:
                save_checkpoint_secs = 600.0
            given.insert(0, CheckpointSaverHook(checkpoint_dir, save_checkpoint_secs, save_checkpoint_steps))
        self.runner: Runner = runner
        self._folder = None if checkpoint_dir is None else Path(checkpoint_dir)
        self._state = session_state(self.runner)
        self._registered: list[Any] = []
        self._closed = False
        self._in_step = False
        if self._state.entered:
            raise TrainingError("this runner has a session already; close it first")
        self.runner.check_idle("MonitoredTrainingSession")
        try:
            for hook in given:
                self._registered.append(self.runner.register_hook(hook, name=name_in_list(self.runner, hook)))
            self._begin(train, val)
        except BaseException:
            self._leave()
            raise

    def _begin(self, train: Any, val: Any) -> None:
        self.runner.prepare(train, val)
        self.runner.lock(self._folder)
        saved = None if self._folder is None else newest(self._folder)
        if saved is not None:
            self.runner.resume(saved)
            self.runner.logger.info("resumed from %s, after step %d", saved, self.runner.step)
        state = self._state
        state.entered, state.quiet, self.runner.busy = True, None, True
        state.checkpoint_dir = self._folder
        self.runner.interrupts.take()
        self._drive = Drive(self.runner, state)
        self._advance()

    # For the user

    @property
    def session(self) -> Session:
        """The session that hooks get: it reads values without a step."""
        if self._state.session is None or self._closed:
            raise TrainingError("the session is closed")
        return self._state.session

    def should_stop(self) -> bool:
        """Whether the run is over, or was asked to end."""
        return self._closed or self._drive.through or self.runner.stopping

    @hookable
    def run(self, fetches: Any = None, feed: Mapping[Any, Any] | None = None) -> Any:
        """Make one step, and return the fetched values.

        Args:
            fetches: Names of values, nested in any way; see `SessionRunArgs`. The result has their shape.
            feed: Values by the entry of the batch that they replace.

        Raises:
            TrainingError: The run is over, or was asked to end; or an entry is fed twice.
            OutOfRangeError: There are no more batches.
            HookOptionError: A step has no value of a name. The session can continue.
        """
        if self.should_stop():
            raise TrainingError("run was called after the session was asked to stop; check should_stop() first")
        if self._in_step:
            raise TrainingError("run was called inside a step; read values with run_context.session.run(...)")
        self._state.reader.check(fetches, self.runner, "session.run")
        self._drive.ask(SessionRunArgs(fetches, dict(feed or {})))
        while not (self._drive.answered or self._drive.through):
            self._advance()
        if self._state.quiet is not None:
            raise self._state.quiet
        if not self._drive.answered:
            raise OutOfRangeError("there are no more batches")
        return self._drive.results

    def close(self) -> None:
        """End the run as if it were complete, unless it is over already."""
        if not self._closed:
            self.runner.request_stop()
            while not self._closed:
                self._advance()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or isinstance(error, QUIET):
            self.close()
            return True
        return not self._closed and self._fail(error)

    # For the run

    def _advance(self) -> None:
        """Continue to the pause before the next step, or to the end of the run."""
        interrupts = self.runner.interrupts
        self._in_step, interrupts.at_once = True, False
        try:
            if next(self._drive.pauses, self) is self:
                interrupts.raise_noted()  # of a signal after the last step
                if trained(self.runner) >= end_of(self.runner):
                    self.runner.remove_interrupted(self._folder or self.runner.work_dir)
                self._leave()
        except BaseException as error:
            cause = self._save_interrupted(error)
            self._leave()
            interrupts.end_process(cause)
            if cause is not error:
                raise cause from error  # a hook failed while the interrupted stages ended
            raise
        finally:
            self._in_step, interrupts.at_once = False, True

    def _fail(self, error: BaseException) -> bool:
        """End the run with an exception of the user's code, and return whether an exception hook has handled it."""
        trace = error.__traceback__
        self._drive.leaving = True
        try:
            self._drive.pauses.throw(error)
        except StopIteration:
            return True
        except BaseException as raised:
            if raised is not error:
                raise
            self._save_interrupted(error)
        finally:
            self._leave()
            error.__traceback__ = trace  # without the frames of this module
        self.runner.interrupts.end_process(error)
        return False

    def _save_interrupted(self, error: BaseException) -> BaseException:
        return self.runner.save_interrupted(error, self._folder or self.runner.work_dir)

    def _leave(self) -> None:
        """Remove the hooks and the signal handlers of the session from the runner."""
        self._closed = True
        self.runner.interrupts.release()
        self._state.entered, self._state.checkpoint_dir = False, None
        self._state.close()
        self.runner.leave()
        while self._registered:
            self.runner.remove_hook(self._registered.pop())

    def __repr__(self) -> str:
        return f"<monitored session of {self.runner!r}{', over' if self.should_stop() else ''}>"
