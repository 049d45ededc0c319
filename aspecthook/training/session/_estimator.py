"""TensorFlow's `Estimator`: it trains, evaluates and predicts from checkpoints, each with a runner of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Self, final

from aspecthook._errors import HookOptionError, HookTypeError, described
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import function, optional_number
from aspecthook.training.backends import backend_of, is_any
from aspecthook.training.checkpoint._format import load, newest
from aspecthook.training.loop._dialect import attach, is_session_hook
from aspecthook.training.loop._logs import logged_by
from aspecthook.training.loop._runner import Runner

from ._bindings import bindings, list_of_hooks
from ._fetches import numbers
from ._hooks import LoggingTensorHook, NanTensorHook, StopAtStepHook
from ._monitored import MonitoredTrainingSession
from ._protocol import OutOfRangeError

InputFn = Callable[[], Any]  # Any, here and below: data, hooks, and what a model predicts are the user's


@final
class Estimator:
    """Training, evaluation and prediction of a model whose parameters are kept in checkpoints.

    Args:
        model_fn: A function that returns a new `Runner`; it is called for each training, evaluation and prediction.
        model_dir: The folder of the checkpoints. Training continues from the newest one, which evaluation and
            prediction load.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import numpy as np
        >>> from aspecthook.training import Runner
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> def made():
        ...     model = Linear(1, 1)
        ...     return Runner(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse)
        >>> def data():
        ...     return [(np.ones((4, 1)), np.zeros((4, 1)))]
        >>> with TemporaryDirectory() as folder:
        ...     estimator = Estimator(made, folder).train(data, steps=50)
        ...     print(sorted(estimator.evaluate(data)), len(estimator.predict(data)))
        ['global_step', 'loss'] 1
    """

    def __init__(self, model_fn: Callable[[], Runner], model_dir: str | os.PathLike[str]) -> None:
        advice = "give a function that returns a Runner"
        self._make: Callable[[], Runner] = function("Estimator", "model_fn", model_fn, advice)
        self.model_dir: Path = Path(model_dir)

    def train(
        self,
        input_fn: InputFn,
        hooks: Iterable[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
    ) -> Self:
        """Train; without an end of its own and a number of steps, a run makes one pass over the data.

        Args:
            input_fn: A function that returns the data.
            hooks: The hooks of this training. A `CheckpointSaverHook` takes the place of the one that saves every ten
                minutes.
            steps: How many steps to make.
            max_steps: The number of the last step; if it is done already, nothing happens.

        Raises:
            HookOptionError: Both numbers are given, or one is not above 0.
            TrainingError: The run cannot begin, or has failed.
        """
        if steps is not None and max_steps is not None:
            raise HookOptionError("Estimator.train: give steps or max_steps; both are given")
        optional_number("Estimator.train", "steps", steps, 1)
        optional_number("Estimator.train", "max_steps", max_steps, 1)
        given = list_of_hooks(hooks, "Estimator.train")
        runner, saved = self._runner(), newest(self.model_dir)
        done = runner.progress.state_dict() if saved is None else load(saved)["progress"]
        last = done["step"] + steps if steps is not None else max_steps
        if last is None and runner.max_epochs is None and runner.max_iters is None:
            runner.max_epochs = done["epoch"] + 1
        if last is not None and done["step"] >= last:
            runner.logger.info("no training: step %d is done, and max_steps is %d", done["step"], last)
            return self
        given += [NanTensorHook(), LoggingTensorHook(["loss", "global_step"], every_n_iter=100)]
        given += [] if last is None else [StopAtStepHook(last_step=last)]
        with MonitoredTrainingSession(runner, _data(input_fn), hooks=given, checkpoint_dir=self.model_dir) as session:
            while not session.should_stop():
                session.run()
        return self

    def evaluate(
        self, input_fn: InputFn, steps: int | None = None, hooks: Iterable[Any] | None = None
    ) -> dict[str, Any]:
        """Return the means of the model's numbers over the samples of the data, and ``"global_step"``.

        Args:
            input_fn: A function that returns the data.
            steps: How many batches of the data to use; all by default.
            hooks: The hooks of this evaluation; their methods are called as in training.

        Raises:
            TrainingError: There were no batches, or there is no checkpoint.
        """
        optional_number("Estimator.evaluate", "steps", steps, 1)
        with self._loaded("val", hooks) as (runner, step):
            return {**logged_by("val", runner.validate(_batches(runner, input_fn, steps))), "global_step": step}

    def predict(self, input_fn: InputFn, hooks: Iterable[Any] | None = None) -> list[Any]:
        """Return the outputs of the model for each batch, as NumPy arrays.

        Args:
            input_fn: A function that returns the data.
            hooks: The hooks of this prediction.

        Raises:
            TrainingError: There is no checkpoint.
        """
        with self._loaded("predict", hooks) as (runner, _):
            return [numbers(one) for one in runner.predict(_batches(runner, input_fn, None))]

    def _runner(self) -> Runner:
        runner = self._make()
        if not is_any(runner, Runner):  # the caller may have no type checker
            raise HookTypeError(f"the model_fn of an Estimator returned {described(runner)}; return a Runner(...)")
        return runner

    @contextmanager
    def _loaded(self, mode: str, hooks: Iterable[Any] | None) -> Generator[tuple[Runner, int]]:
        """Build a runner with hooks and the parameters of a checkpoint; restore the random numbers after ``with``."""
        saved = newest(self.model_dir)
        if saved is None:
            raise TrainingError(f"there is no checkpoint in {self.model_dir}; call train first")
        backend = backend_of()  # the model, which has one, is not known yet
        random = backend.rng_state()
        try:
            runner, checkpoint = self._runner(), load(saved)
            runner.restore(checkpoint)
            for hook in list_of_hooks(hooks, "Estimator"):
                if is_session_hook(hook):
                    attach(runner, hook, bindings(hook, runner, mode), None, "session hook")
                else:
                    runner.register_hook(hook)
            yield runner, checkpoint["progress"]["step"]
        finally:
            backend.set_rng_state(random)


def _data(input_fn: Any) -> Any:
    advice = "give a function that returns the data: lambda: loader"
    data = function("Estimator", "input_fn", input_fn, advice)()
    if not hasattr(data, "__iter__"):
        raise HookTypeError(
            f"input_fn returned {described(data)}, which cannot be iterated; return a loader, or a list"
        )
    return data


def _batches(runner: Runner, input_fn: InputFn, steps: int | None) -> Iterator[Any]:
    """Return an iterator over at most so many batches, which also ends when a hook requests it."""
    data = _data(input_fn)

    def batches() -> Iterator[Any]:
        try:
            for batch in islice(data, steps):
                yield batch
                if runner.stopping:
                    return
        except OutOfRangeError:
            return

    return batches()
