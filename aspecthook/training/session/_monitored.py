"""TensorFlow's `MonitoredTrainingSession`: a run that makes a step at each call."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, final

from aspecthook import hookable
from aspecthook import hooks as hooks_of
from aspecthook._core.law import law_sync
from aspecthook._core.law.call import Call
from aspecthook._core.law.hook import Hook as Handle
from aspecthook._core.law.order import Chain
from aspecthook._errors import HookTypeError
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._folder import newest
from aspecthook.training.loop._dialect import Binding, Stage, attach, name_in_list
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._runner import Runner
from aspecthook.training.loop._steps import batches, count_epoch, count_iteration, end_of, next_epoch, trained

from ._bindings import CREATES, after_step, before_step, list_of_hooks, session_state
from ._checkpoints import CheckpointSaverHook
from ._protocol import (
    QUIET,
    AbortedError,
    OutOfRangeError,
    Session,
    SessionRunArgs,
    SessionRunContext,
    SessionRunValues,
)

Pauses: TypeAlias = Generator[None, None, None]


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
        self._state = state = session_state(runner)
        self._results: Any = None
        self._answered = False  # whether the step that the user waits for is made
        self._in_step = False
        self._leaving = False  # whether what is raised now was raised by the user's code
        self._through = False  # whether all steps are made, and only the end of the run is still to come
        self._closed = False
        self._registered: list[Any] = []
        self._handles: tuple[Handle, ...] = ()
        if state.entered:
            raise TrainingError("this runner has a session already; close it first")
        runner.check_idle("MonitoredTrainingSession")
        try:
            for hook in given:
                self._registered.append(runner.register_hook(hook, name=name_in_list(runner, hook)))
            self._handles = self._asking()
            runner.prepare(train, val)
            saved = None if self._folder is None else newest(self._folder)
            if saved is not None:
                runner.resume(saved)
                runner.logger.info("resumed from %s, after step %d", saved, runner.step)
            state.entered, state.quiet, state.checkpoint_dir = True, None, self._folder
            runner.busy = True
            runner.interrupts.take()
            self._pauses = _staged(runner, "run", self._run)
            self._advance()
        except BaseException:
            self._leave()
            raise

    def _asking(self) -> tuple[Handle, ...]:
        """Add hooks that fetch and feed what the user asks of a step."""

        def asked(context: SessionRunContext) -> SessionRunArgs:
            return context.original_args

        def given(_: SessionRunContext, values: SessionRunValues) -> None:
            self._results = values.results

        before = before_step(self, "the caller of the step", asked, self._state)
        after = after_step(self, given, self._state)
        found = [Binding(Stage("train_iter", "pre"), before), Binding(Stage("train_iter", "post"), after)]
        return attach(self.runner, self, found, 0, "caller of the step")

    # For the user

    @property
    def session(self) -> Session:
        """The session that hooks get: it reads values without a step."""
        if self._state.session is None or self._closed:
            raise TrainingError("the session is closed")
        return self._state.session

    def should_stop(self) -> bool:
        """Whether the run is over, or was asked to end."""
        return self._closed or self._through or self.runner.stopping

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
        self._state.asked = SessionRunArgs(fetches, dict(feed or {}))
        self._results, self._answered = None, False
        while not (self._answered or self._through):
            self._advance()
        if self._state.quiet is not None:
            raise self._state.quiet
        if not self._answered:
            raise OutOfRangeError("there are no more batches")
        return self._results

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

    # The run, which pauses before each step: the bodies of the stages `run`, `train_loop` and `train_epoch`

    def _run(self) -> Pauses:
        run, state = self.runner, self._state
        run.take_folder()
        while True:
            try:
                state.open(run)
                run.running = True
                yield from _staged(run, "train_loop", self._train_loop)
                break
            except AbortedError as error:
                if self._leaving:
                    raise
                state.lose(run, error)
            except Exception as error:
                if self._leaving or not run.running or not isinstance(error, QUIET):
                    raise
                state.end_quietly(run, error)
                break
        self._through = True
        yield  # the hooks after the run are called when the session is closed
        run.running = False

    def _train_loop(self) -> Pauses:
        run = self.runner
        while (mode := next_epoch(run)) is not None:
            if mode == "train":
                yield
                if run.stopping:
                    return
                run.set_mode(mode)
                yield from _staged(run, "train_epoch", self._train_epoch)
            else:
                run.set_mode(mode)
                run.val_loop()
            count_epoch(run, mode)

    def _train_epoch(self) -> Pauses:
        run = self.runner
        if self.should_stop():  # a pre hook of the epoch has asked for it
            run.progress.pending_epoch = None
            return
        try:
            for batch in batches(run, "train"):
                run.train_iter(batch)
                self._answered = self._state.quiet is None
                if count_iteration(run):
                    return
                yield
                if self.should_stop():
                    return
        except QUIET as error:
            self._state.end_quietly(run, error)

    def _advance(self) -> None:
        """Continue to the pause before the next step, or to the end of the run."""
        interrupts = self.runner.interrupts
        self._in_step, interrupts.at_once = True, False
        try:
            if next(self._pauses, self) is self:
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
        self._leaving = True
        try:
            self._pauses.throw(error)
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
        self._state.entered, self._state.checkpoint_dir, self._state.asked = False, None, SessionRunArgs()
        self._state.close()
        self.runner.leave()
        for handle in self._handles:
            handle.remove()
        self._handles = ()
        while self._registered:
            self.runner.remove_hook(self._registered.pop())


def _staged(run: Run, stage: str, body: Callable[[], Pauses]) -> Pauses:
    """Run a body that pauses, inside the hooks that a stage has now.

    The user enters a stage in one call of `MonitoredTrainingSession.run` and leaves it in a later one, and still it is
    one call by law 1: its body is a generator, and the interpreter of the law runs the hooks of the stage around it. A
    plain function that is an around hook is refused: it cannot be left in the middle.
    """
    mount = hooks_of(getattr(run, stage))
    kept = Chain(tuple(hook for hook in mount.chain().everything() if not hasattr(hook.function, CREATES)))
    for hook in kept.around:
        if hook.style != "generator":
            raise HookTypeError(
                f"Runner.{stage} has the {hook.who}, which is a plain function, and a session cannot pause in it; "
                "write it as a generator with one `yield`, or as a pre and a post hook, or train with runner.fit()"
            )

    def target(*_: object) -> Pauses:
        return body()

    return law_sync.generate(kept, Call(mount.site(), (run,)), target)
