"""TensorFlow's `MonitoredTrainingSession`, a run that makes one step at each call, and `Estimator`, which uses it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, cast, final

from aspecthook import hookable
from aspecthook import hooks as hooks_of
from aspecthook._core.law.call import Site
from aspecthook._errors import HookTypeError, described
from aspecthook.training._dialect import attach, is_session_hook
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import function, optional_number
from aspecthook.training.backends import backend_of
from aspecthook.training.checkpoint._folder import load, newest
from aspecthook.training.loop._model import logged_by
from aspecthook.training.loop._reading import check_loader
from aspecthook.training.loop._runner import Runner

from ._fetches import Feed, Nested, arrays
from ._hooks import CheckpointSaverHook, LoggingTensorHook, NanTensorHook, StopAtStepHook
from ._protocol import (
    QUIET,
    AbortedError,
    Caller,
    OutOfRangeError,
    SessionRunArgs,
    SessionRunHook,
    bindings,
    session_state,
)

Pauses: TypeAlias = Generator[None, None, None]


@final
class MonitoredTrainingSession:
    """A run that makes one step at each call of `run`, with the hooks of its runner and its own.

    When you create a session, it loads the newest checkpoint and calls `begin` and `after_create_session` of the hooks.
    At the end of the ``with`` block it calls their `end`, unless an exception ended the block; `StopIteration` and
    `OutOfRangeError` end the block without an error. The stages are those of `Runner.fit`, with all their hooks. If the
    session has a `checkpoint_dir`, it adds a hook that saves checkpoints. At the end it removes its hooks from the
    runner.

    Args:
        runner: The `Runner`. Its ``max_epochs`` or ``max_iters``, if it has one, ends the run.
        train: The training data, which is read once per epoch.
        val: The validation data, read where the runner's ``workflow`` says so, and by default after each epoch.
        hooks: The hooks of this session: session-run hooks, or hooks of any other kind that a runner takes.
        checkpoint_dir: The folder of the checkpoints. The session begins with the newest one in it, and so does the
            session that replaces a lost one. Without a folder, an `AbortedError` ends the run.
        save_checkpoint_steps: The steps between two checkpoints.
        save_checkpoint_secs: The seconds between two checkpoints: 600 unless steps are given. For other options, pass a
            `CheckpointSaverHook` in `hooks`; it replaces that of the session.

    Raises:
        TrainingError: The run cannot begin, or the checkpoint belongs to another run.

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
        hooks: Iterable[object] | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        save_checkpoint_steps: int | None = None,
        save_checkpoint_secs: float | None = None,
    ) -> None:
        given = [*(hooks or ())]
        if checkpoint_dir is not None and not any(isinstance(hook, CheckpointSaverHook) for hook in given):
            if save_checkpoint_steps is None and save_checkpoint_secs is None:
                save_checkpoint_secs = 600.0
            given.insert(0, CheckpointSaverHook(checkpoint_dir, save_checkpoint_secs, save_checkpoint_steps))
        self.runner: Runner = runner
        self._folder = None if checkpoint_dir is None else Path(checkpoint_dir)
        self._state = session_state(runner)
        self._caller = Caller()
        self._step_made = False  # whether the step that the user asked for has been made
        self._thrown: BaseException | None = None  # the error of the user's block
        self._steps_over = False  # whether all steps have been made, and only the end of the run remains
        self._closed = False
        self._registered = ExitStack()  # removes the hooks
        runner.begin("MonitoredTrainingSession", train, val)
        try:
            for given_hook in given:
                hook = runner.register_hook(given_hook, name=runner.registered.free_name(given_hook))
                self._registered.callback(runner.remove_hook, hook)
            for handle in attach(runner, self._caller, bindings(self._caller, runner), 0):
                self._registered.callback(handle.remove)
            saved = None if self._folder is None else newest(self._folder)
            if saved is not None:
                runner.resume(saved)
                runner.logger.info("resumed from %s, after step %d", saved, runner.step)
            runner.interrupts.take()
            self._pauses = _staged(runner, "run", self._run)
            self._advance()
        except BaseException:
            self._leave()
            raise

    # For the user

    def should_stop(self) -> bool:
        """Whether the run is over, or was asked to end."""
        return self._closed or self._steps_over or self.runner.stopping

    @hookable
    def run(self, fetches: Nested = None, feed: Feed | None = None) -> Nested:
        """Make one step, and return the fetched values.

        Args:
            fetches: Names of values, nested in any way; see `SessionRunArgs`. The result has their shape.
            feed: New values for entries of the batch; see `SessionRunArgs`.

        Raises:
            TrainingError: The run is over or was asked to end, or two feeds name the same entry.
            OutOfRangeError: There are no more batches.
            HookOptionError: A name is not that of a value of a step. The session can continue.
        """
        if self.should_stop():
            raise TrainingError("run was called after the session was asked to stop; check should_stop() first")
        if not self.runner.interrupts.at_once:
            raise TrainingError("run was called inside a step; read values with run_context.session.run(...)")
        self._state.reader.check(fetches, self.runner, "session.run")
        self._state.original_args = SessionRunArgs(fetches, dict(feed or {}))
        self._caller.results, self._step_made = None, False
        while not (self._step_made or self._steps_over):
            self._advance()
        if self._state.quiet is not None:
            raise self._state.quiet
        if not self._step_made:
            raise OutOfRangeError("there are no more batches")
        return self._caller.results

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
        if self._closed:
            return False
        try:
            self._advance(error)
        except BaseException as raised:
            if raised is not error:
                raise
            error.__traceback__ = trace  # without the frames of this module
            return False
        self.close()
        return True

    # The bodies of the stages `run`, `train_loop` and `train_epoch`, which pause before each step. `Runner.fit` cannot
    # use them: a generator turns a StopIteration of a hook into a RuntimeError (PEP 479), and its stages let it pass.

    def _run(self) -> Pauses:
        run = self.runner
        run.claim_folder()
        run.running = True
        while True:
            try:
                yield from _staged(run, "train_loop", self._train_loop)
                break
            except AbortedError as error:
                saved = None if self._folder is None or error is self._thrown else newest(self._folder)
                if saved is None:
                    raise
                run.logger.warning("the session is lost, and a new one continues from %s: %s", saved, error)
                self._state.close()
                run.after_stage_calls.clear()
                run.resume(saved)
        self._steps_over = True
        yield  # the hooks after the run are called when the session is closed
        run.running = False

    def _train_loop(self) -> Pauses:
        run = self.runner
        while (mode := run.next_epoch()) is not None:
            if mode == "train":
                yield
                if run.stopping:
                    return
                run.set_mode(mode)
                yield from _staged(run, "train_epoch", self._train_epoch)
            try:
                if mode == "val":
                    run.set_mode(mode)
                    run.val_loop()
                run.count_epoch(mode)
            except QUIET as error:
                self._state.end_quietly(run, error)

    def _train_epoch(self) -> Pauses:
        run = self.runner
        try:
            batches, continues = run.batches(), True
            while continues:
                before = run.iter
                continues = run.next_iteration(batches)
                self._step_made = run.iter > before and self._state.quiet is None
                if continues:
                    yield
                    continues = not self.should_stop()
        except QUIET as error:
            self._state.end_quietly(run, error)

    def _advance(self, thrown: BaseException | None = None) -> None:
        """Continue to the next pause, or to the end of the run; or raise an error of the user's block in the run."""
        run = self.runner
        folder = self._folder or run.work_dir
        run.interrupts.at_once, self._thrown = False, thrown
        try:
            with suppress(StopIteration):
                if thrown is None:
                    next(self._pauses)
                else:
                    self._pauses.throw(thrown)
                return
            if run.interrupts.first is not None:  # of a signal after the last step
                raise run.interrupts.first
            if run.progress.trained >= run.end:
                run.remove_interrupted(folder)
            self._leave()
        except BaseException as error:
            try:
                run.fail(error, folder)
            finally:
                self._leave()
        finally:
            run.interrupts.at_once = True

    def _leave(self) -> None:
        """Remove the hooks and the signal handlers of the session from the runner."""
        self._closed = True
        self._state.original_args = SessionRunArgs()
        self._state.close()
        self.runner.leave()
        self._registered.close()


def _staged(run: Runner, stage: str, body: Callable[[], Pauses]) -> Pauses:
    """Run a body that pauses, inside the hooks that a stage has now.

    A stage begins in one call of `MonitoredTrainingSession.run` and ends in a later one, and is still one call by
    law 1: its body is a generator, and the hooks of the stage run around it as around any generator. An around hook
    that is a plain function is refused, since it cannot be left in the middle.
    """
    mount = hooks_of(getattr(run, stage))
    for hook in mount.chain().around:
        if hook.style != "generator":
            raise HookTypeError(
                f"Runner.{stage} has the {hook.who}, which is a plain function, and a session cannot pause in it; "
                "write it as a generator with one `yield`, or as a pre and a post hook, or train with runner.fit()"
            )

    def paused(run: Runner) -> Pauses:  # noqa: ARG001  # the parameters of a stage
        return (yield from body())

    call = mount.separate(mount.chain(), paused, Site(mount.name, paused.__code__, mount.site().function))
    return cast("Pauses", call(run))


@final
class Estimator:
    """Trains a model, evaluates it and predicts with it; its parameters are kept in checkpoints.

    Args:
        model_fn: A function that returns a new `Runner`; it is called for each training, evaluation and prediction.
        model_dir: The folder of the checkpoints. Training continues from the newest one; evaluation and prediction load
            it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import numpy as np
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> def new_runner():
        ...     model = Linear(1, 1)
        ...     return Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse)
        >>> def data():
        ...     return [(np.ones((4, 1)), np.zeros((4, 1)))]
        >>> with TemporaryDirectory() as folder:
        ...     estimator = Estimator(new_runner, folder).train(data, steps=50)
        ...     print(sorted(estimator.evaluate(data)), len(estimator.predict(data)))
        ['global_step', 'loss'] 1
    """

    def __init__(self, model_fn: Callable[[], Runner], model_dir: str | os.PathLike[str]) -> None:
        self._make: Callable[[], Runner] = function(
            "Estimator", "model_fn", model_fn, "give a function that returns a Runner"
        )
        self.model_dir: Path = Path(model_dir)

    def train(
        self,
        input_fn: Callable[[], Nested],
        hooks: Iterable[object] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
    ) -> Self:
        """Train the model. If neither the runner nor an argument says when to end, make one pass over the data.

        Args:
            input_fn: A function that returns the data.
            hooks: The hooks of this training. A `CheckpointSaverHook` replaces the one that saves every ten minutes.
            steps: The number of steps to make. If the training is killed, the next call makes the remaining ones.
            max_steps: The number of the last step. If that step has been made already, no step is made. Give either
                this or `steps`.

        Raises:
            HookOptionError: Both numbers are given, or one is below 0.
            TrainingError: The run cannot begin, or has failed.
        """
        given = [*(hooks or ()), NanTensorHook(), LoggingTensorHook(["loss", "global_step"], every_n_iter=100)]
        runner, saved = self._runner(), newest(self.model_dir)
        if steps is not None or max_steps is not None:
            given.append(StopAtStepHook(steps, max_steps))
        elif runner.max_epochs is None and runner.max_iters is None:
            runner.max_epochs = 1 + (0 if saved is None else load(saved)["progress"]["epoch"])
        with MonitoredTrainingSession(runner, _data(input_fn), hooks=given, checkpoint_dir=self.model_dir) as session:
            while not session.should_stop():
                session.run()
        return self

    def evaluate(
        self, input_fn: Callable[[], Nested], steps: int | None = None, hooks: Iterable[object] | None = None
    ) -> dict[str, Any]:
        """Return the numbers of the model, as means over the samples of the data, and ``"global_step"``.

        Args:
            input_fn: A function that returns the data.
            steps: The number of batches to use; by default all.
            hooks: The hooks of this evaluation; their methods are called as in training.

        Raises:
            TrainingError: There were no batches, or there is no checkpoint.
        """
        optional_number("Estimator.evaluate", "steps", steps, 1)
        with self._loaded("val", hooks) as (runner, step):
            return {**logged_by("val", runner.validate(_batches(runner, input_fn, steps))), "global_step": step}

    def predict(self, input_fn: Callable[[], Nested], hooks: Iterable[object] | None = None) -> list[Any]:
        """Return the outputs of the model for each batch, as NumPy arrays.

        Args:
            input_fn: A function that returns the data.
            hooks: The hooks of this prediction.

        Raises:
            TrainingError: There is no checkpoint.
        """
        with self._loaded("predict", hooks) as (runner, _):
            return [arrays(one) for one in runner.predict(_batches(runner, input_fn, None))]

    def _runner(self) -> Runner:
        runner: Nested = self._make()
        if not isinstance(runner, Runner):
            raise HookTypeError(f"the model_fn of an Estimator returned {described(runner)}; return a Runner(...)")
        return runner

    @contextmanager
    def _loaded(self, mode: str, hooks: Iterable[object] | None) -> Generator[tuple[Runner, int]]:
        """Build a runner with hooks and the parameters of a checkpoint; restore the random numbers after ``with``."""
        saved = newest(self.model_dir)
        if saved is None:
            raise TrainingError(f"there is no checkpoint in {self.model_dir}; call train first")
        backend = backend_of()  # the model, which has one, is not known yet
        random = backend.rng_state()
        try:
            runner, checkpoint = self._runner(), load(saved)
            runner.restore(checkpoint)
            for hook in hooks or ():
                if is_session_hook(hook):
                    attach(runner, hook, bindings(cast("SessionRunHook", hook), runner, mode), None)
                else:
                    runner.register_hook(hook)
            yield runner, checkpoint["progress"]["step"]
        finally:
            backend.set_rng_state(random)


def _data(input_fn: Callable[[], Nested]) -> Nested:
    data = function("Estimator", "input_fn", input_fn, "give a function that returns the data: lambda: loader")()
    check_loader(data, "what input_fn returned")
    return data


def _batches(runner: Runner, input_fn: Callable[[], Nested], steps: int | None) -> Iterator[Any]:
    """Return an iterator over at most so many batches, which also ends when a hook requests it."""
    data = _data(input_fn)

    def read() -> Iterator[Nested]:
        try:
            for batch in islice(data, steps):
                yield batch
                if runner.stopping:
                    return
        except OutOfRangeError:
            return

    return read()
