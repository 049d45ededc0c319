"""A run as a fit of Keras: where an epoch ends, what its logs are, and where the methods of callbacks are called.

A run with callbacks has one `KerasLifecycle`, a hook that comes with the first callback, leaves with the last one, and
holds what they share. An epoch is one pass over the data. It ends after the last validation of the workflow before
training continues, or after the pass itself if no validation follows. A validation by a hook (`EvalHook`) belongs to
the epoch in which it takes place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, Literal, TypeAlias, final

from aspecthook._core.law.kinds import Kind
from aspecthook.training._dialect import Binding, Method
from aspecthook.training._errors import TrainingError
from aspecthook.training._ranks import broadcast
from aspecthook.training.backends._state import is_tensor, map_leaves
from aspecthook.training.hooks._hook import Hook
from aspecthook.training.logging._loggers import values_of
from aspecthook.training.loop._model import Means, Outputs, logged_by, of_mode
from aspecthook.training.loop._reading import length_of
from aspecthook.training.loop._runner import Runner

from ._callback import KERAS, RunModel, has_state, is_of_keras, methods_of
from ._monitor import mode_by_name

# An epoch is open while it is trained, and trained while its validation is still to come. It is over when its
# `on_epoch_end` is due, which is called at the end of the stage that is named: training or validation.
Phase: TypeAlias = Literal["open", "trained", "over after train", "over after val"]
Numbers: TypeAlias = dict[str, Any]  # Any: callbacks may add any value to logs


@final
@dataclass(slots=True)
class Epoch:
    """An epoch of a fit of Keras, and what it has logged so far."""

    number: int = 0
    phase: Phase = "open"
    train: Means = field(default_factory=Means)
    val: Numbers | None = None  # the numbers of its validations; None before the first one
    logs: Numbers | None = None  # of `on_epoch_end`, to which callbacks may add; None before its first call


@final
class KerasLifecycle(Hook):
    """The hook that turns a run into a fit of Keras, before all other hooks."""

    priority: int | str = "HIGHEST"

    def __init__(self, runner: Runner) -> None:
        self.model = RunModel(runner)
        self.epoch = Epoch()
        self.test = Means()
        # The means so far, one dict for all callbacks of a batch, and what they are of; None until a callback asks.
        self._so_far: tuple[Means, Numbers] | None = None
        # By id: the callbacks, and for each the last epoch for which `on_epoch_begin` and `on_epoch_end` were called.
        self.callbacks: dict[int, Any] = {}  # Any: of our class, of Keras's, or one that only looks like them
        self.begun: dict[int, int | None] = {}
        self.ended: dict[int, int | None] = {}

    def _named(self) -> list[tuple[str, Any]]:
        """Return the callbacks that are registered, with their names in checkpoints."""
        return [(one.name, one.hook) for one in self.model.runner.registered if id(one.hook) in self.callbacks]

    def is_unused(self) -> bool:
        """Whether no callback is registered any more."""
        return not self._named()

    # The run

    def before_run(self, runner: Runner) -> None:
        """Introduce the run to the callbacks, and begin with no epoch, unless a state was loaded."""
        self._introduce(runner, runner.max_epochs, "train")
        for _, callback in self._named():
            if hasattr(callback, "resume_run"):  # before any `on_train_begin`
                callback.resume_run(runner)
        if not self.model.resumed:
            self.begun.clear()
            self.ended.clear()
            self.epoch.phase, self.epoch.logs = "open", None
        for _, callback in self._named() if self.model.resumed else ():
            if is_of_keras(callback.__class__) and not has_state(callback):
                runner.logger.warning("%s of Keras has no state, and begins anew", callback.__class__.__name__)

    def _introduce(self, runner: Runner, epochs: int | None, mode: str) -> None:
        """Set the model and the params of all callbacks."""
        steps = length_of(runner.loaders.get(mode))
        for _, callback in self._named():
            callback.set_model(self.model)
            # Keras's own monitors would look for a metric that Keras has compiled.
            if getattr(callback, "mode", None) == "auto" and getattr(callback, "monitor_op", self) is None:
                callback.mode = mode_by_name(str(callback.monitor))
            callback.set_params({"verbose": 1, "epochs": epochs, "steps": steps})

    def before_train(self) -> None:
        """Call `on_epoch_end` where a run is resumed from a checkpoint that one of several callbacks saved there."""
        if self.epoch.phase.startswith("over"):
            for _, callback in self._named():
                self.end_epoch(callback)

    def after_run(self) -> None:
        """End an epoch whose validation was due when the run was stopped."""
        if self.epoch.phase == "trained":
            self.epoch.phase = "over after val"
        self.before_train()

    def always_run(self) -> None:
        """Note that the next run begins anew, unless a state is loaded before it."""
        self.model.resumed = False

    # Epochs

    def before_train_epoch(self, runner: Runner) -> None:
        """Begin an epoch, or continue an interrupted one."""
        if runner.progress.inner_iter == 0 or self.epoch.number != runner.epoch:
            self.epoch = Epoch(runner.epoch)
        self.epoch.phase, self.epoch.logs = "open", None

    def after_train_iter(self, result: Outputs, logs: Numbers) -> None:
        """Add up what the batch has logged."""
        self.epoch.train.add(result, logs)
        self._so_far = None

    def after_train_epoch(self, runner: Runner) -> None:
        """Note whether the epoch is trained, and whether it is over."""
        done = runner.progress
        ends = runner.stopping or (not runner.by_epoch and done.iter >= (runner.max_iters or 0))
        # An epoch that is interrupted continues when the run is resumed.
        if done.epoch > self.epoch.number or (ends and runner.interrupts.came is None):
            self.epoch.phase = "trained" if runner.validation_follows() else "over after train"

    def after_val_epoch(self, runner: Runner) -> None:
        """Take the numbers of a validation; one before the first batch of an epoch does not belong to it."""
        epoch = self.epoch
        if runner.running and (epoch.phase != "open" or runner.progress.inner_iter > 0):
            epoch.val = {**(epoch.val or {}), **of_mode("val", runner.logs)}
        if epoch.phase == "trained" and not runner.validation_follows():
            epoch.phase = "over after val"

    def logs(self) -> Numbers:
        """Return the logs of the epoch that is over, the same on all ranks; {} if none is. Keras has logs sorted."""
        if self.epoch.phase == "open":
            return {}
        # Other hooks may have added numbers since the validation.
        val = {} if self.epoch.val is None else {**self.epoch.val, **of_mode("val", self.model.runner.logs)}
        return dict(sorted(broadcast({**self.epoch.train.now(), **values_of(val)}).items()))

    def end_epoch(self, callback: object) -> None:
        """Call a callback's `on_epoch_end`, once for each epoch."""
        method = KERAS.overridden(callback, "on_epoch_end")
        if method is not None and self.ended.get(id(callback)) != self.epoch.number:
            self.ended[id(callback)] = self.epoch.number
            if self.epoch.logs is None:
                self.epoch.logs = self.logs()
            method(self.epoch.number, self.epoch.logs)

    # Batches and evaluation

    def so_far(self, means: Means) -> Numbers:
        """Return the means of an epoch of training, or of an evaluation, so far."""
        # A hook may have validated within the batch, and then the means are those of the validation.
        if self._so_far is None or self._so_far[0] is not means:
            self._so_far = means, dict(sorted(means.now().items()))
        return self._so_far[1]

    def before_val_epoch(self, runner: Runner) -> None:
        """Begin a validation, a test or a prediction."""
        self.test = Means()
        if not runner.running:
            self._introduce(runner, 1, runner.mode)

    def after_val_iter(self, result: Outputs, logs: Numbers) -> None:
        """Add up what the batch has logged."""
        self.test.add(result, logs)
        self._so_far = None

    before_test_epoch = before_predict_epoch = before_val_epoch
    after_test_iter = after_val_iter

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the epoch, and which callbacks have had its `on_epoch_begin` and `on_epoch_end`."""
        epoch = self.epoch
        return {
            "epoch": {
                "number": epoch.number,
                "train": {name: list(total) for name, total in epoch.train.totals.items()},
                "val": epoch.val and values_of(epoch.val),
                "phase": epoch.phase,
                # What a callback has put into the logs may be anything.
                "logs": epoch.logs and values_of(epoch.logs),
            },
            "callbacks": {name: [self.begun.get(id(one)), self.ended.get(id(one))] for name, one in self._named()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state."""
        epoch: dict[str, Any] = {**state["epoch"], "train": Means(state["epoch"]["train"])}
        self.epoch = Epoch(**epoch)
        self.model.resumed = True
        for name, callback in self._named():
            if name in state["callbacks"]:
                begun, self.ended[id(callback)] = state["callbacks"][name]
                # A callback without a state has lost its preparation for the epoch, so it is called again.
                self.begun[id(callback)] = begun if has_state(callback) else None


@final
@dataclass(frozen=True, slots=True)
class Caller:
    """Calls a method of a callback. Each method here is the hook for some of the events.

    All of them return None: unlike a hook, a callback does not change a stage by what it returns.
    """

    life: KerasLifecycle
    callback: object
    method: Method

    def stage(self) -> None:
        self.method({})

    def train_end(self) -> None:
        self.method(self.life.logs())

    def epoch_begin(self) -> None:
        number = self.life.epoch.number
        if self.life.begun.get(id(self.callback)) != number:
            self.life.begun[id(self.callback)] = number
            self.method(number, {})

    def epoch_end(self, exc: BaseException | None, mode: str) -> None:
        if exc is None and self.life.epoch.phase == f"over after {mode}":
            self.life.end_epoch(self.callback)

    def batch_begin(self, inner_iter: int) -> None:
        self.method(inner_iter, {})

    def train_batch_end(self, inner_iter: int) -> None:
        self.method(inner_iter, self.life.so_far(self.life.epoch.train))

    def test_batch_end(self, inner_iter: int) -> None:
        self.method(inner_iter, self.life.so_far(self.life.test))

    def test_end(self, mode: str, logs: Numbers) -> None:
        self.method(dict(sorted(logged_by(mode, logs).items())))

    def predict_batch_end(self, inner_iter: int, result: object) -> None:
        arrays = map_leaves(lambda one: one.detach().cpu().numpy() if is_tensor(one) else one, result)
        self.method(inner_iter, {"outputs": arrays})


_EVENTS: dict[str, tuple[str, Kind, Callable[..., None]]] = {
    "on_train_begin": ("run", "pre", Caller.stage),
    "on_train_end": ("run", "post", Caller.train_end),
    "on_epoch_begin": ("train_epoch", "pre", Caller.epoch_begin),
    # An always hook, since Keras ends all tests before it ends an epoch: on_test_end is called in a post hook.
    "on_epoch_end": ("train_epoch val_epoch", "always", Caller.epoch_end),
    "on_train_batch_begin": ("train_iter", "pre", Caller.batch_begin),
    "on_train_batch_end": ("train_iter", "post", Caller.train_batch_end),
    "on_test_begin": ("val_epoch test_epoch", "pre", Caller.stage),
    "on_test_end": ("val_epoch test_epoch", "post", Caller.test_end),
    "on_test_batch_begin": ("val_iter test_iter", "pre", Caller.batch_begin),
    "on_test_batch_end": ("val_iter test_iter", "post", Caller.test_batch_end),
    "on_predict_begin": ("predict_epoch", "pre", Caller.stage),
    "on_predict_end": ("predict_epoch", "post", Caller.stage),
    "on_predict_batch_begin": ("predict_iter", "pre", Caller.batch_begin),
    "on_predict_batch_end": ("predict_iter", "post", Caller.predict_batch_end),
}


def bindings(callback: object, run: Runner) -> Iterator[Binding]:
    """Yield the hooks for a callback: of our class, of Keras's, or of one that only looks like them."""
    methods = methods_of(callback)
    if type(callback).__name__ == "BackupAndRestore" and is_of_keras(type(callback)):
        raise TrainingError(
            "BackupAndRestore of Keras restores fits of Keras; register that of aspecthook.training.keras, which can "
            "resume inside an epoch too"
        )
    life = next((hook for hook in run.hooks if isinstance(hook, KerasLifecycle)), None)
    life = life or run.register_hook(KerasLifecycle(run))
    life.callbacks[id(callback)] = callback
    for event, method in methods.items():
        stages, kind, function = _EVENTS[event]
        for stage in stages.split():
            yield Binding(stage, kind, MethodType(function, Caller(life, callback, method)))
