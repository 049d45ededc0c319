"""A run as a fit of Keras: where an epoch ends, the means that callbacks are given, and where their methods are called.

A run has one `KerasLifecycle`, a hook that is registered with the first callback; it is all that the callbacks of the
run share. An epoch is one pass over the data. It ends after the last validation of the workflow before training
continues, or after the pass itself if none follows. Validations that hooks make in between (`EvalHook`) belong to the
epoch that they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, final, get_args

from aspecthook._core.law.kinds import Kind
from aspecthook.training._ranks import broadcast
from aspecthook.training.backends._state import is_tensor, map_leaves
from aspecthook.training.hooks._hook import Hook
from aspecthook.training.loop._checks import length_of
from aspecthook.training.loop._dialect import Binding, Method, Stage, named
from aspecthook.training.loop._logs import Means, logged_by, validation_numbers
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._steps import validation_follows

from ._callback import KERAS, has_state, is_of_keras, methods_of, plain
from ._monitor import mode_by_name
from ._run_model import RunModel

# An epoch is under way; or trained, while a validation is still to come; or over after a stage of that mode, so that
# `on_epoch_end` is due.
Phase: TypeAlias = Literal["open", "trained", "over after train", "over after val"]


@final
class SortedMeans(Means):
    """Means in the alphabetical order of their names, as Keras has them in logs."""

    def added(self, name: str) -> list[float]:
        total = super().added(name)
        self.totals = dict(sorted(self.totals.items()))
        return total


@final
@dataclass(slots=True)
class Epoch:
    """An epoch of a fit of Keras, and what it has logged so far."""

    number: int = 0
    phase: Phase = "open"
    train: SortedMeans = field(default_factory=SortedMeans)
    val: dict[str, Any] | None = None  # None until it has had a validation, with or without numbers
    logs: dict[str, Any] | None = None  # for `on_epoch_end`, and what callbacks have added to them

    @property
    def is_over(self) -> bool:
        """Whether `on_epoch_end` is due."""
        return self.phase.startswith("over")


@final
@dataclass(slots=True)
class Turns:
    """A callback, and the last epochs that its `on_epoch_begin` and its `on_epoch_end` were called for."""

    callback: Any
    begun: int | None = None
    ended: int | None = None


@final
class KerasLifecycle(Hook):
    """The hook that turns a run into a fit of Keras, before all other hooks."""

    priority: int | str = "HIGHEST"

    def __init__(self, runner: Run) -> None:
        self.model = RunModel(runner)
        self.running = False
        self.epoch = Epoch()
        self._test = SortedMeans()
        # The means so far, as one dict that the callbacks of a batch share; None until one of them asks.
        self._train_logs: dict[str, Any] | None = None
        self._test_logs: dict[str, Any] | None = None
        self._last: dict[str, Any] = {}  # the logs of the epoch that was the last to end, as they were at first
        self._loaded = False  # whether a state was, for the next run
        self._turns: dict[int, Turns] = {}  # by the id of the callback

    def turns_of(self, callback: Any) -> Turns:
        """Return the turns of a callback, which are noted from now on."""
        return self._turns.setdefault(id(callback), Turns(callback))

    def turns(self) -> list[tuple[str, Turns]]:
        """Return the turns of the callbacks that are registered, with their names in checkpoints."""
        return [(name, self._turns[id(hook)]) for name, hook in named(self.model.runner) if id(hook) in self._turns]

    # The run

    def before_run(self, runner: Run) -> None:
        """Introduce the run to the callbacks, and begin with no epoch, unless a state was loaded."""
        self._introduce(runner, runner.max_epochs, "train")
        for _, turns in self.turns():
            if hasattr(turns.callback, "resume_run"):  # before any `on_train_begin`
                turns.callback.resume_run(runner)
        self.model.resumed = self._loaded
        if self._loaded:
            for _, turns in self.turns():
                kind = type(cast("object", turns.callback))
                if is_of_keras(kind) and not has_state(turns.callback):
                    runner.logger.warning("%s of Keras has no state, and begins anew", kind.__name__)
        else:
            for _, turns in self.turns():
                turns.begun = turns.ended = None
            self.epoch.phase, self.epoch.logs, self._last = "open", None, {}
        self.running, self._loaded = True, False

    def _introduce(self, runner: Run, epochs: int | None, mode: str) -> None:
        """Set the model and the params of all callbacks."""
        steps = length_of(runner.loaders.get(mode))
        callbacks = [turns.callback for _, turns in self.turns()]
        for callback in callbacks:
            callback.set_model(self.model)
            # Keras's own monitors would look for a metric that Keras has compiled.
            if getattr(callback, "mode", None) == "auto" and getattr(callback, "monitor_op", self) is None:
                callback.mode = mode_by_name(str(callback.monitor)) or "auto"
        for callback in callbacks:
            callback.set_params({"verbose": 1, "epochs": epochs, "steps": steps})

    def before_train(self) -> None:
        """End an epoch that a checkpoint was saved in between the calls of `on_epoch_end` of two callbacks."""
        if self.model.resumed and self.epoch.is_over:
            self._end_epoch_of_all()

    def after_run(self) -> None:
        """End an epoch whose validation was due when the run was stopped."""
        if self.epoch.phase == "trained":
            self.epoch.phase = "over after val"
        if self.epoch.is_over:
            self._end_epoch_of_all()

    def always_run(self) -> None:
        """Note that validations from now on are none of a run."""
        self.running = self._loaded = False

    # Epochs

    def before_train_epoch(self, runner: Run) -> None:
        """Begin an epoch, or continue the one that was interrupted."""
        if runner.progress.inner_iter == 0 or self.epoch.number != runner.epoch:
            self.epoch = Epoch(runner.epoch)
        self.epoch.phase, self.epoch.logs = "open", None

    def after_train_iter(self, result: Any, logs: dict[str, Any]) -> None:
        """Add up what the batch has logged."""
        self.epoch.train.add(result, logs)
        self._train_logs = None

    def after_train_epoch(self, runner: Run) -> None:
        """Note whether the epoch is trained, and whether it is over."""
        done = runner.progress
        ends = runner.stopping or (not runner.by_epoch and done.iter >= (runner.max_iters or 0))
        # An epoch that is interrupted continues when the run is resumed.
        if done.epoch > self.epoch.number or (ends and not runner.interrupted):
            self.epoch.phase = "trained" if validation_follows(runner) else "over after train"

    def after_val_epoch(self, runner: Run) -> None:
        """Take the numbers of a validation; one before the first batch of an epoch does not belong to it."""
        epoch = self.epoch
        if self.running and (epoch.phase != "open" or runner.progress.inner_iter > 0):
            epoch.val = {**(epoch.val or {}), **validation_numbers(runner.logs)}
        if epoch.phase == "trained" and not validation_follows(runner):
            epoch.phase = "over after val"

    def logs(self) -> dict[str, Any]:
        """Return the logs of the epoch that is over, the same on all ranks; callbacks may add to them."""
        epoch = self.epoch
        if epoch.logs is None:
            # Other hooks may have added numbers since the validation.
            val = {} if epoch.val is None else {**epoch.val, **validation_numbers(self.model.runner.logs)}
            self._last = dict(sorted(broadcast({**epoch.train.now(), **val}).items()))
            epoch.logs = dict(self._last)
        return epoch.logs

    def last(self) -> dict[str, Any]:
        """Return the logs of the last epoch of the run, without what callbacks have added."""
        if self.epoch.phase != "open":
            self.logs()
        return dict(self._last)

    def end_epoch(self, turns: Turns) -> None:
        """Call a callback's `on_epoch_end`, once for each epoch."""
        method = KERAS.overridden(turns.callback, "on_epoch_end")
        if method is not None and turns.ended != self.epoch.number:
            turns.ended = self.epoch.number
            method(self.epoch.number, self.logs())

    def _end_epoch_of_all(self) -> None:
        for _, turns in self.turns():
            self.end_epoch(turns)

    # Batches and evaluation

    def train_logs(self) -> dict[str, Any]:
        """Return the means of the epoch so far."""
        if self._train_logs is None:
            self._train_logs = self.epoch.train.now()
        return self._train_logs

    def test_logs(self) -> dict[str, Any]:
        """Return the means of the validation or the test so far."""
        if self._test_logs is None:
            self._test_logs = self._test.now()
        return self._test_logs

    def before_val_epoch(self, runner: Run) -> None:
        """Begin a validation, a test or a prediction."""
        self._test, self._test_logs = SortedMeans(), None
        if not self.running:
            self._introduce(runner, 1, runner.mode)

    def after_val_iter(self, result: Any, logs: dict[str, Any]) -> None:
        """Add up what the batch has logged."""
        self._test.add(result, logs)
        self._test_logs = None

    before_test_epoch = before_predict_epoch = before_val_epoch
    after_test_iter = after_val_iter

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return how far the epoch has come, and whose turn it is."""
        epoch = self.epoch
        # What a callback has put into the logs may be anything.
        storable = {name: one for name, one in plain(epoch.logs).items() if isinstance(one, (float, str))}
        return {
            "epoch": {
                "number": epoch.number,
                "train": {name: list(total) for name, total in epoch.train.totals.items()},
                "val": None if epoch.val is None else dict(epoch.val),
                "phase": epoch.phase,
                "logs": None if epoch.logs is None else storable,
            },
            "last": self._last,
            "callbacks": {name: [turns.begun, turns.ended] for name, turns in self.turns()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state."""
        epoch: dict[str, Any] = dict(state["epoch"])
        if epoch["phase"] not in get_args(Phase):
            raise ValueError(f"an epoch is never in the phase {epoch['phase']!r}")
        epoch["train"] = SortedMeans(epoch["train"])
        self.epoch = Epoch(**epoch)
        self._last = dict(state["last"])
        self._loaded = not self.running
        for name, turns in self.turns():
            if name in state["callbacks"]:
                begun, turns.ended = state["callbacks"][name]
                # What a callback without a state did when the epoch began is forgotten, so it is called again.
                turns.begun = begun if has_state(turns.callback) else None


# The methods of callbacks as hooks: each function returns the hook on a stage that calls a method of a callback. A hook
# returns None, since what a method returns is not an answer to the stage.


def _begin(_life: KerasLifecycle, _turns: Turns, method: Method) -> Method:
    def call() -> None:
        method({})

    return call


def _train_end(life: KerasLifecycle, _turns: Turns, method: Method) -> Method:
    def call() -> None:
        method(life.last())

    return call


def _epoch_begin(life: KerasLifecycle, turns: Turns, method: Method) -> Method:
    def call() -> None:
        if turns.begun != life.epoch.number:
            turns.begun = life.epoch.number
            method(life.epoch.number, {})

    return call


def _epoch_end(life: KerasLifecycle, turns: Turns, _method: Method) -> Method:
    # An always hook, since Keras ends all tests before it ends an epoch: on_test_end is called in a post hook.
    def call(exc: BaseException | None, mode: str) -> None:
        if exc is None and life.epoch.phase == f"over after {mode}":
            life.end_epoch(turns)

    return call


def _batch_begin(_life: KerasLifecycle, _turns: Turns, method: Method) -> Method:
    def call(inner_iter: int) -> None:
        method(inner_iter, logs={})

    return call


def _train_batch_end(life: KerasLifecycle, _turns: Turns, method: Method) -> Method:
    def call(inner_iter: int) -> None:
        method(inner_iter, logs=life.train_logs())

    return call


def _test_batch_end(life: KerasLifecycle, _turns: Turns, method: Method) -> Method:
    def call(inner_iter: int) -> None:
        method(inner_iter, logs=life.test_logs())

    return call


def _test_end(_life: KerasLifecycle, _turns: Turns, method: Method) -> Method:
    def call(mode: str, logs: dict[str, Any]) -> None:
        method(dict(sorted(logged_by(mode, logs).items())))

    return call


def _predict_batch_end(_life: KerasLifecycle, _turns: Turns, method: Method) -> Method:
    def call(inner_iter: int, result: Any) -> None:  # Any: a model returns what it likes
        arrays = map_leaves(lambda one: one.detach().cpu().numpy() if is_tensor(one) else one, result)
        method(inner_iter, logs={"outputs": arrays})

    return call


_EVENTS: dict[str, tuple[tuple[str, ...], Kind, Callable[[KerasLifecycle, Turns, Method], Method]]] = {
    "on_train_begin": (("run",), "pre", _begin),
    "on_train_end": (("run",), "post", _train_end),
    "on_epoch_begin": (("train_epoch",), "pre", _epoch_begin),
    "on_epoch_end": (("train_epoch", "val_epoch"), "always", _epoch_end),
    "on_train_batch_begin": (("train_iter",), "pre", _batch_begin),
    "on_train_batch_end": (("train_iter",), "post", _train_batch_end),
    "on_test_begin": (("val_epoch", "test_epoch"), "pre", _begin),
    "on_test_end": (("val_epoch", "test_epoch"), "post", _test_end),
    "on_test_batch_begin": (("val_iter", "test_iter"), "pre", _batch_begin),
    "on_test_batch_end": (("val_iter", "test_iter"), "post", _test_batch_end),
    "on_predict_begin": (("predict_epoch",), "pre", _begin),
    "on_predict_end": (("predict_epoch",), "post", _begin),
    "on_predict_batch_begin": (("predict_iter",), "pre", _batch_begin),
    "on_predict_batch_end": (("predict_iter",), "post", _predict_batch_end),
}


def bindings(callback: Any, run: Run) -> list[Binding]:
    """Return the hooks for a callback: of our class, of Keras's, or of one that only looks like them."""
    methods = methods_of(callback)
    warning = KERAS.misspelt(callback)
    if warning is not None:  # the callback is not of our class, and Keras would accept it
        run.logger.warning("%s", warning)
    life = next((hook for hook in run.hooks if isinstance(hook, KerasLifecycle)), None)
    life = life or run.register_hook(KerasLifecycle(run))
    turns = life.turns_of(callback)
    return [
        Binding(Stage(stage, kind), adapt(life, turns, methods[name]))
        for name, (stages, kind, adapt) in _EVENTS.items()
        if name in methods
        for stage in stages
    ]
