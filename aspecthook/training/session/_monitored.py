"""TensorFlow's `MonitoredSession` and `MonitoredTrainingSession`: a run that makes a step at each call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, TypeVar, cast, final

from aspecthook import hookable
from aspecthook._errors import HookTypeError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import takes
from aspecthook.training.checkpoint._format import newest
from aspecthook.training.loop._names import name_in_list
from aspecthook.training.loop._runner import Runner
from aspecthook.training.loop._steps import end_of, trained

from ._bindings import list_of_hooks
from ._checkpoints import CheckpointSaverHook
from ._drive import Drive
from ._errors import QUIET, OutOfRangeError
from ._hooks import StepCounterHook
from ._protocol import SessionRunArgs
from ._session import Session
from ._state import session_state
from ._summaries import SummarySaverHook

Value = TypeVar("Value")
Secs = float | Literal["default"] | None
Steps = int | Literal["default"] | None


@final
@dataclass(frozen=True)
class ChiefSessionCreator:
    """What a `MonitoredSession` runs: a runner, its data, and the folder whose newest checkpoint it continues from.

    TensorFlow has another class for the other workers, `WorkerSessionCreator`. Here each rank loads the checkpoint for
    itself, so the two are the same.

    Args:
        runner: A `Runner`, whose ``max_epochs`` or ``max_iters`` ends the run if it has one.
        train: The data, for epoch after epoch.
        val: The data to validate on, where the runner's workflow says so, or after each epoch.
        checkpoint_dir: The folder; None to begin with the runner as it is.

    Example:
        >>> from aspecthook.training import Runner
        >>> ChiefSessionCreator(Runner(abs), [1.0, 2.0]).checkpoint_dir is None
        True
    """

    runner: Runner
    train: Any
    val: Any = None
    checkpoint_dir: str | os.PathLike[str] | None = None


WorkerSessionCreator = ChiefSessionCreator


@final
class StepContext:
    """What a function that `MonitoredSession.run_step_fn` calls is given.

    Attributes:
        session: The `Session`, which reads values without a step, and without hooks.

    Example:
        >>> def step_fn(step_context):
        ...     if step_context.session.run("global_step") == 100:
        ...         step_context.request_stop()
        ...     return step_context.run_with_hooks("loss")
    """

    __slots__ = ("_monitored", "session")

    def __init__(self, monitored: MonitoredSession) -> None:
        self._monitored = monitored
        self.session: Session = monitored.session

    def run_with_hooks(self, fetches: Any = None, feed: Mapping[Any, Any] | None = None) -> Any:
        """Make a step, as `MonitoredSession.run` does."""
        return self._monitored.run(fetches, feed)

    def request_stop(self) -> NoReturn:
        """End the function and the run, by a StopIteration, which the block of the session handles."""
        self._monitored.runner.request_stop()
        raise StopIteration("step_fn has asked the run to end")


class MonitoredSession:
    """A run that makes one step at each call of `run`, with the hooks of its runner and those of the session.

    `MonitoredTrainingSession` is the same with hooks of its own, which save, log and write summaries.

    When it is created, it loads the newest checkpoint, and calls `begin` and `after_create_session` of the hooks. When
    the block ends, it calls `end`, unless an exception ended the block; `StopIteration` and `OutOfRangeError` end the
    block without an error. The stages are those of `Runner.fit`, with all their hooks. The hooks of the session are
    removed at the end.

    Args:
        session_creator: The runner, its data and the folder of checkpoints. When a session is lost, the run continues
            from the newest checkpoint there too; without a folder, from the last step.
        hooks: The hooks of this session: session-run hooks, or hooks of any other kind that a runner takes.

    Raises:
        TrainingError: The run cannot begin, or the checkpoint is that of another run.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> model = Linear(1, 1)
        >>> runner = Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse, max_epochs=1)
        >>> creator = ChiefSessionCreator(runner, [(np.ones((4, 1)), np.zeros((4, 1)))] * 3)
        >>> with MonitoredSession(creator) as session:
        ...     while not session.should_stop():
        ...         step = session.run("global_step")
        >>> step
        2
    """

    _recovers = True  # whether a session that is lost is replaced by a new one

    def __init__(
        self,
        session_creator: ChiefSessionCreator,
        hooks: Iterable[Any] | None = None,
    ) -> None:
        who = type(self).__name__
        if not isinstance(cast("object", session_creator), ChiefSessionCreator):
            raise HookTypeError(f"{who}({brief(session_creator)}): give ChiefSessionCreator(runner, data)")
        given = list_of_hooks(hooks, who)
        self.runner: Runner = session_creator.runner
        self._folder = None if session_creator.checkpoint_dir is None else Path(session_creator.checkpoint_dir)
        self._state = session_state(self.runner)
        self._registered: list[Any] = []
        self._closed = False
        self._in_step = False
        if self._state.entered:
            raise TrainingError("this runner has a session already; close it first")
        self.runner.check_idle(who)
        try:
            for hook in given:
                self._registered.append(self.runner.register_hook(hook, name=name_in_list(self.runner, hook)))
            self._begin(session_creator.train, session_creator.val)
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
        state.checkpoint_dir, state.recovers = self._folder, self._recovers
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

    def run_step_fn(self, step_fn: Callable[[StepContext], Value]) -> Value:
        """Call a function with a `StepContext`, by which it makes steps and reads values; return what it returns.

        Raises:
            HookTypeError: It is not a function of one argument.
        """
        if not takes(step_fn, 1):
            raise HookTypeError(f"run_step_fn({brief(step_fn)}): give a function of one argument, step_context")
        return step_fn(StepContext(self))

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


@final
class MonitoredTrainingSession(MonitoredSession):
    """A `MonitoredSession` with hooks of its own, which save checkpoints, write summaries and log the speed.

    Args:
        runner: A `Runner`, whose ``max_epochs`` or ``max_iters`` ends the run if it has one; or a model, for which a
            runner is created with `options`.
        train: The data, for epoch after epoch.
        val: The data to validate on, where the runner's workflow says so, or after each epoch.
        hooks: The hooks of this session: session-run hooks, or hooks of any other kind that a runner takes.
        chief_only_hooks: Hooks for rank 0 alone; they come first.
        checkpoint_dir: The folder to save checkpoints in, and to load the newest from. When a session is lost, the run
            continues from there too; without a folder, from the last step.
        save_checkpoint_secs: The seconds between two checkpoints: 600 unless steps are given; None for never.
        save_checkpoint_steps: The steps between two checkpoints.
        save_summaries_steps: The steps between two summaries: 100 unless seconds are given.
        save_summaries_secs: The seconds between two summaries.
        summary_dir: The folder for summaries; by default `checkpoint_dir`. Without either, none are written.
        log_step_count_steps: Log the steps per second every N steps; None for never.
        options: The options of the runner that is created for a model.

    Raises:
        TrainingError: The run cannot begin, or the checkpoint is that of another run.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> from aspecthook.training.session import StopAtStepHook
        >>> model = Linear(1, 1)
        >>> batches = [(np.ones((4, 1)), np.zeros((4, 1)))]
        >>> optimizer = SGD(model.parameters(), lr=0.1)
        >>> with MonitoredTrainingSession(
        ...     model, batches, optimizer=optimizer, loss=mse, hooks=[StopAtStepHook(last_step=50)]
        ... ) as session:
        ...     while not session.should_stop():
        ...         loss = session.run("loss")
        >>> loss < 0.01, session.should_stop()
        (True, True)
    """

    def __init__(
        self,
        runner: Any,
        train: Any,
        val: Any = None,
        *,
        hooks: Iterable[Any] | None = None,
        chief_only_hooks: Iterable[Any] | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        save_checkpoint_secs: Secs = "default",
        save_checkpoint_steps: Steps = "default",
        save_summaries_steps: Steps = "default",
        save_summaries_secs: Secs = "default",
        summary_dir: str | os.PathLike[str] | None = None,
        log_step_count_steps: int | None = 100,
        **options: Any,
    ) -> None:
        made = _runner_of(runner, options)
        every, chief = (list_of_hooks(given, "MonitoredTrainingSession") for given in (hooks, chief_only_hooks))
        written = checkpoint_dir if summary_dir is None else summary_dir
        own: list[Any] = []  # in TensorFlow's order
        if written is not None and log_step_count_steps:
            own.append(StepCounterHook(every_n_steps=log_step_count_steps, output_dir=written))
        steps, secs = _interval(save_summaries_steps, save_summaries_secs, 100, None)
        if written is not None and (steps or secs):
            own.append(SummarySaverHook(save_steps=steps, save_secs=secs, output_dir=written))
        steps, secs = _interval(save_checkpoint_steps, save_checkpoint_secs, None, 600.0)
        if checkpoint_dir is not None and (steps or secs):
            own.append(CheckpointSaverHook(checkpoint_dir, save_steps=steps, save_secs=secs))
        super().__init__(
            ChiefSessionCreator(made, train, val, checkpoint_dir),
            [*own, *chief, *every] if made.rank == 0 else every,
        )


@final
class SingularMonitoredSession(MonitoredSession):
    """A `MonitoredSession` that is not replaced when it is lost: an `AbortedError` of a step reaches the caller.

    Example:
        >>> from aspecthook.training import Runner
        >>> SingularMonitoredSession(Runner(abs))
        Traceback (most recent call last):
          ...
        aspecthook.HookTypeError: SingularMonitoredSession(...): give ChiefSessionCreator(runner, data)
    """

    _recovers = False

    def raw_session(self) -> Session:
        """Return the session that hooks get, which reads values without a step."""
        return self.session


def _runner_of(given: Any, options: dict[str, Any]) -> Runner:
    if not isinstance(given, Runner):
        return Runner(given, **options)
    if options:
        raise TrainingError(
            f"{', '.join(options)} cannot be combined with a runner, which has its options already; give them to the "
            f"runner: Runner(..., {next(iter(options))}=...)"
        )
    return given


def _interval(steps: Steps, secs: Secs, default_steps: int | None, default_secs: float | None) -> tuple[Any, Any]:
    """Return steps and seconds; the defaults if neither is given."""
    if steps == "default" and secs == "default":
        return default_steps, default_secs
    return (None if steps == "default" else steps or None), (None if secs == "default" else secs or None)
