"""TensorFlow's `Estimator`: it trains, evaluates and predicts with one model, each in a session of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from aspecthook import hooks as hooks_of
from aspecthook._core.law.callables import parameters
from aspecthook._errors import ConfigError, HookOptionError, HookTypeError, brief, described, nearest
from aspecthook.training._options import function, optional_number
from aspecthook.training.checkpoint._format import load, newest
from aspecthook.training.loop._logs import logged_by
from aspecthook.training.loop._runner import Runner

from ._bindings import list_of_hooks
from ._checkpoints import CheckpointSaverHook, CheckpointSaverListener
from ._drive import staged
from ._hooks import LoggingTensorHook, NanTensorHook, StopAtStepHook
from ._inputs import LimitedBatches, aside, attached, chosen, examples, one_pass, predicting, random_kept
from ._monitored import MonitoredTrainingSession
from ._state import session_state

# Any: models, data, hooks of any kind, and what a model predicts are the user's.
_END: Any = object()
InputFn = Callable[..., Any]


def _checked_input(input_fn: Any, who: str) -> InputFn:
    """Return a function that returns data; refuse the data themselves."""
    found: InputFn = function(who, "input_fn", input_fn, "give a function that returns the data: lambda: loader")
    return found


@final
@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """How often an `Estimator` saves, writes and logs.

    Args:
        save_checkpoints_steps: The steps between two checkpoints.
        save_checkpoints_secs: The seconds between two checkpoints; 600 unless steps are given.
        keep_checkpoint_max: How many checkpoints to keep; None for all.
        save_summary_steps: The steps between two summaries; None for none.
        log_step_count_steps: Log the loss, and the steps per second, every N steps; None for never.

    Example:
        >>> RunConfig(save_checkpoints_steps=100).save_checkpoints_secs is None
        True
    """

    save_checkpoints_steps: int | None = None
    save_checkpoints_secs: float | None = None
    keep_checkpoint_max: int | None = 5
    save_summary_steps: int | None = 100
    log_step_count_steps: int | None = 100

    def __post_init__(self) -> None:
        for name in ("save_checkpoints_steps", "keep_checkpoint_max", "save_summary_steps", "log_step_count_steps"):
            optional_number("RunConfig", name, getattr(self, name), 1)
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise HookOptionError("RunConfig: give save_checkpoints_steps or save_checkpoints_secs; both are given")
        if self.save_checkpoints_steps is None and self.save_checkpoints_secs is None:
            object.__setattr__(self, "save_checkpoints_secs", 600.0)


@final
class Estimator:
    """A model with methods to train it, evaluate it and predict with it, each in a session of its own.

    With a `model_dir`, training continues from the newest checkpoint there, and evaluation and prediction load it.

    Args:
        model_fn: A function that returns a `Runner`; it is called for each session, and may ask by name for ``mode``
            (``"train"``, ``"eval"``, ``"predict"``), ``params``, ``config`` and ``model_dir``. Or a `Runner`; or a
            model, for which a runner is created with `options`. These two keep the trained parameters in memory.
        model_dir: The folder of the checkpoints.
        config: How often to save and log.
        params: The argument ``params`` of the function.
        options: The options of the runner that is created for a model.

    Attributes:
        evaluations: The numbers of the evaluations so far, by step.

    Raises:
        HookTypeError: `model_fn` is none of these.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import SGD, Linear, mse
        >>> batches = [(np.ones((4, 1)), np.zeros((4, 1)))]
        >>> model = Linear(1, 1)
        >>> estimator = Estimator(model, optimizer=SGD(model.parameters(), lr=0.1), loss=mse)
        >>> sorted(estimator.train(lambda: batches, steps=50).evaluate(lambda: batches))
        ['global_step', 'loss']
        >>> [prediction.shape for prediction in estimator.predict(lambda: batches)]
        [(1,), (1,), (1,), (1,)]
    """

    def __init__(
        self,
        model_fn: Any,
        model_dir: str | os.PathLike[str] | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.model_dir: Path | None = None if model_dir is None else Path(model_dir)
        self.config: RunConfig = config if config is not None else RunConfig()
        self.params: dict[str, Any] = dict(params or {})
        self._make: Callable[..., Any] | None = None
        self._runner: Runner | None = None
        self.evaluations: dict[int, dict[str, Any]] = {}
        if isinstance(model_fn, Runner) and not options:
            self._runner = model_fn
        elif options or any(hasattr(model_fn, name) for name in ("train_step", "parameters")):
            self._runner = Runner(model_fn, **options)
        elif callable(model_fn):
            self._make = model_fn
        else:
            raise HookTypeError(f"Estimator({brief(model_fn)}): give a function that returns a Runner, or a model")

    # Training

    def train(
        self,
        input_fn: InputFn,
        hooks: Iterable[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[CheckpointSaverListener] | None = None,
    ) -> Estimator:
        """Train, and return the estimator.

        Without `steps` and `max_steps`, a runner that has no end of its own makes one pass over the data.

        Args:
            input_fn: A function that returns the data, and may ask for the same arguments as `model_fn`.
            hooks: The hooks of this training: session-run hooks, or others that a runner takes.
            steps: How many steps of the optimizer to make.
            max_steps: The last step, counted from the beginning; if it was made already, there is no training.
            saving_listeners: Listeners to the checkpoints.

        Raises:
            HookOptionError: Both numbers are given, or one is not above 0.
            TrainingError: The run cannot begin, or has failed.
        """
        if steps is not None and max_steps is not None:
            raise HookOptionError("Estimator.train: give steps or max_steps; both are given")
        optional_number("Estimator.train", "steps", steps, 1)
        optional_number("Estimator.train", "max_steps", max_steps, 1)
        _checked_input(input_fn, "Estimator.train")
        runner = self._build("train")
        done = self._progress(runner)
        if max_steps is not None and done["step"] >= max_steps:
            runner.logger.info("no training: step %d is done, and max_steps is %d", done["step"], max_steps)
            return self
        last = done["step"] + steps if steps is not None else max_steps
        stops = [] if last is None else [StopAtStepHook(last_step=last)]
        given = list_of_hooks(hooks, "Estimator.train")
        saver = self._savers(given, list(saving_listeners or ()))
        with one_pass(runner, done["epoch"], needed=last is None):
            self._train(runner, self._called(input_fn, "train"), [*given, *self._watching(), *stops], saver)
        return self

    def _train(self, runner: Runner, data: Any, hooks: list[Any], saver: list[Any]) -> None:
        config, before = self.config, runner.iter
        with MonitoredTrainingSession(
            runner,
            data,
            hooks=hooks,
            chief_only_hooks=saver,
            checkpoint_dir=self.model_dir,
            save_checkpoint_secs=None,
            save_checkpoint_steps=None,
            save_summaries_steps=config.save_summary_steps,
            log_step_count_steps=config.log_step_count_steps,
        ) as session:
            before = runner.iter
            while not session.should_stop():
                session.run()
        if runner.iter == before:
            runner.logger.warning("training has made no step; does the data have any batches?")

    def _watching(self) -> list[Any]:
        """Return the hooks that watch and log the loss of a training."""
        every = self.config.log_step_count_steps
        logs = [LoggingTensorHook({"loss": "loss", "step": "global_step"}, every_n_iter=every)] if every else []
        return [NanTensorHook("loss"), *logs]

    def _savers(self, hooks: list[Any], listeners: list[CheckpointSaverListener]) -> list[CheckpointSaverHook]:
        """Add the listeners to the hooks that save checkpoints; return one to add if there is none."""
        theirs = [hook for hook in hooks if isinstance(hook, CheckpointSaverHook)]
        for hook in theirs:
            hook.listeners += [one for one in listeners if one not in hook.listeners]
        if theirs:
            return []
        if self.model_dir is None:
            if listeners:
                raise ConfigError(
                    "saving_listeners need checkpoints, but none are saved; give Estimator(model_dir=...)"
                )
            return []
        config = self.config
        secs, steps, most = config.save_checkpoints_secs, config.save_checkpoints_steps, config.keep_checkpoint_max
        return [CheckpointSaverHook(self.model_dir, secs, steps, listeners=listeners, max_keep=most)]

    # Evaluation and prediction

    def evaluate(
        self,
        input_fn: InputFn,
        steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Return the means of the model's numbers over the samples of the data, and ``"global_step"``.

        Args:
            input_fn: A function that returns the data.
            steps: How many batches of the data to use; all by default.
            hooks: The hooks of this evaluation; their methods are called as in training.
            checkpoint_path: The checkpoint to load; the newest by default.
            name: The name of the evaluation in the log.

        Raises:
            TrainingError: There were no batches.
        """
        optional_number("Estimator.evaluate", "steps", steps, 1)
        _checked_input(input_fn, "Estimator.evaluate")
        with random_kept():
            runner = self._build("eval")
            with aside(runner), self._loaded(runner, checkpoint_path) as step:
                data = LimitedBatches(runner, self._called(input_fn, "eval"), steps)
                with attached(runner, list_of_hooks(hooks, "Estimator.evaluate"), "val"):
                    made = runner.validate(data)
        found = self.evaluations[step] = {**logged_by("val", made), "global_step": step}
        line = ", ".join(f"{key} = {value}" for key, value in sorted(found.items()))
        runner.logger.info("evaluation%s: %s", f" {name}" if name else "", line)
        return dict(found)

    def predict(
        self,
        input_fn: InputFn,
        predict_keys: Sequence[str] | str | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | os.PathLike[str] | None = None,
        yield_single_examples: bool = True,
    ) -> Generator[Any]:
        """Yield the outputs of the model for each sample as NumPy arrays; a batch is computed when it is needed.

        Args:
            input_fn: A function that returns the data.
            predict_keys: The entries to yield, if the model returns dicts.
            hooks: The hooks of this prediction.
            checkpoint_path: The checkpoint to load; the newest by default.
            yield_single_examples: Yield sample by sample; otherwise batch by batch.

        Raises:
            TrainingError: The outputs cannot be divided into samples.
        """
        _checked_input(input_fn, "Estimator.predict")
        keys = [predict_keys] if isinstance(predict_keys, str) else predict_keys
        given = list_of_hooks(hooks, "Estimator.predict")
        return self._predictions(input_fn, keys, given, checkpoint_path, single=yield_single_examples)

    def _predictions(
        self, input_fn: InputFn, keys: Sequence[str] | None, hooks: list[Any], path: Any, *, single: bool
    ) -> Generator[Any]:
        with random_kept():
            runner = self._build("predict")
        with ExitStack() as stack:
            stack.enter_context(self._loaded(runner, path))
            stack.callback(session_state(runner, "predict").close)
            stack.enter_context(attached(runner, hooks, "predict"))
            data = iter(LimitedBatches(runner, self._called(input_fn, "predict"), None))
            pauses = staged(runner, "predict_loop", lambda: predicting(runner, data))
            stack.callback(pauses.close)
            while True:
                with aside(runner):
                    outputs = next(pauses, _END)
                if outputs is _END:
                    return
                yield from examples(outputs, keys) if single else (chosen(outputs, keys),)

    # Runners and their checkpoints

    def _build(self, mode: str) -> Runner:
        if self._runner is not None:
            return self._runner
        assert self._make is not None
        runner = self._called(self._make, mode)
        if not isinstance(runner, Runner):
            raise HookTypeError(f"the model_fn of an Estimator returned {described(runner)}; return a Runner(...)")
        if self.model_dir is None:  # no checkpoint keeps the trained parameters
            self._runner = runner
        return runner

    def _called(self, function: Callable[..., Any], mode: str) -> Any:
        """Call a function of the user with the arguments that it asks for by name."""
        given = {"mode": mode, "params": self.params, "config": self.config, "model_dir": self.model_dir}
        asked = [one for one in parameters(function) or () if one.how in ("positional", "keyword")]
        for one in asked:
            if one.name not in given and not one.has_default:
                raise HookTypeError(
                    f"{brief(function)} asks for {one.name!r}, and an Estimator offers {', '.join(given)}"
                    f"{nearest(one.name, list(given))}"
                )
        return function(**{one.name: given[one.name] for one in asked if one.name in given})

    def _newest(self) -> Path | None:
        return None if self.model_dir is None else newest(self.model_dir)

    def _progress(self, runner: Runner) -> dict[str, int]:
        """Return the counts from which a training would continue."""
        saved = self._newest()
        progress: dict[str, int] = runner.progress if saved is None else load(saved)["progress"]
        return progress

    @contextmanager
    def _loaded(self, runner: Runner, path: str | os.PathLike[str] | None) -> Generator[int]:
        """Load a checkpoint, and restore the model after ``with``; the value of ``with`` is the step."""
        kept = self._runner is runner
        found = Path(path) if path is not None else None if kept and runner.progress["iter"] else self._newest()
        if found is None:
            if not runner.progress["iter"]:
                runner.logger.warning("there is no checkpoint, and the model was not trained")
            yield runner.progress["step"]
            return
        before = runner.backend.state(runner.model) if kept else None
        steps: list[int] = []

        def note(checkpoint: Mapping[str, Any]) -> None:
            steps.append(checkpoint["progress"]["step"])

        with hooks_of(runner.restore).add("pre", note):
            runner.load_checkpoint(found)
        try:
            yield steps[-1]
        finally:
            if before is not None:
                runner.backend.load_state(runner.model, before)
