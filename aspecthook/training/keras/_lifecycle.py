"""What a fit of Keras knows and a run does not: where an epoch ends, and the means that callbacks are given.

A run has one `KerasLifecycle`, made with its first callback; it is all that the callbacks of the run share. An epoch is
one pass over the data. It ends after the last validation of the workflow before training continues, or after the pass
itself if none follows. Validations that hooks make in between (`EvalHook`) belong to the epoch that they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, final, get_args
from weakref import ref

from aspecthook import hooks
from aspecthook._core.law.kinds import Kind
from aspecthook.training._ranks import broadcast
from aspecthook.training.loop._checks import length_of
from aspecthook.training.loop._logs import Means, logged_by, validation_numbers
from aspecthook.training.loop._names import named
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._steps import validation_follows

from ._bridge import plain
from ._run_model import RunModel
from ._states import CallbackState

# The hooks of the lifecycle that callbacks depend on, by what they need to know: stage, kind and method.
_HOOKS: dict[str, tuple[tuple[str, Kind, str], ...]] = {
    "epoch": (
        ("train_epoch", "pre", "_before_train_epoch"),
        ("train_epoch", "post", "_after_train_epoch"),
        ("val_epoch", "post", "_after_val_epoch"),
    ),
    "train_means": (("train_epoch", "pre", "_before_train_epoch"), ("train_iter", "post", "_after_train_iter")),
    "train_logs": (),
    "evaluation": tuple((f"{mode}_epoch", "pre", "_before_evaluation") for mode in ("val", "test", "predict")),
    "test_means": (("val_iter", "post", "_after_test_iter"), ("test_iter", "post", "_after_test_iter")),
}


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
    # Under way; trained, while a validation is still to come; or over after that stage, so that `on_epoch_end` is due.
    phase: Phase = "open"
    train: SortedMeans = field(default_factory=SortedMeans)
    val: dict[str, Any] | None = None  # None until it has had a validation, with or without numbers
    logs: dict[str, Any] | None = None  # for `on_epoch_end`, and what callbacks have added to them

    @property
    def is_over(self) -> bool:
        """Whether `on_epoch_end` is due."""
        return self.phase.startswith("over")

    def reopen(self) -> None:
        """Continue the epoch, which may have been ended early."""
        self.phase, self.logs = "open", None


@final
class KerasLifecycle:
    """The hooks that turn a run into a fit of Keras. Only those that a callback needs are added."""

    def __init__(self, runner: Run) -> None:
        self.model = RunModel(runner)
        self._find = ref(runner)
        self.running = False
        self.epoch = Epoch()
        self.test = SortedMeans()
        # The means so far, each as one dict that the callbacks of a batch share.
        self.train_logs: dict[str, Any] = {}
        self.test_logs: dict[str, Any] = {}
        self._makes_train_logs = False
        self._last: dict[str, Any] = {}  # the logs of the epoch that was the last to end, as they were at first
        self._loaded = False
        self._states: dict[int, CallbackState] = {}
        self._added: set[tuple[str, Kind, str]] = set()
        self._add("run", "pre", "_before_run")
        self._add("run", "pre", "_after_resume", priority=100)
        self._add("run", "post", "_after_run")
        self._add("run", "always", "_always_run")

    @property
    def runner(self) -> Run:
        """The run, which is alive: its hooks are the only callers."""
        runner = self._find()
        assert runner is not None
        return runner

    # Callbacks

    def state_of(self, callback: Any) -> CallbackState:
        """Return the state of a callback, which is made when it is first asked for."""
        if id(callback) not in self._states:
            self._states[id(callback)] = CallbackState(callback)
        return self._states[id(callback)]

    def states(self) -> list[tuple[str, CallbackState]]:
        """Return the states of the callbacks that are registered, with their names in checkpoints."""
        return [(name, self._states[id(hook)]) for name, hook in named(self.runner) if id(hook) in self._states]

    def need(self, *parts: str) -> None:
        """Add the hooks of the lifecycle that a method of a callback depends on, unless they are there."""
        for part in parts:
            for stage, kind, method in _HOOKS[part]:
                self._add(stage, kind, method)
        self._makes_train_logs = self._makes_train_logs or "train_logs" in parts

    def _add(self, stage: str, kind: Kind, method: str, priority: int = 0) -> None:
        if (stage, kind, method) not in self._added:
            self._added.add((stage, kind, method))
            mount = hooks(getattr(self.runner, stage))
            mount.add(kind, getattr(self, method), name=type(self).__name__, priority=priority)

    # The run

    def _before_run(self) -> None:
        self._introduce(self.runner.max_epochs, "train")
        for _, state in self.states():
            if hasattr(state.callback, "resume_run"):  # before any `on_train_begin`
                state.callback.resume_run(self.runner)
        if not self._loaded:
            for _, state in self.states():
                state.begun = state.ended = None
            self.epoch.reopen()
            self._last = {}
        self.running = True

    def _introduce(self, epochs: int | None, mode: str) -> None:
        """Set the model and the params of all callbacks."""
        steps = length_of(self.runner.loaders.get(mode))
        callbacks = [state.callback for _, state in self.states()]
        for callback in callbacks:
            callback.set_model(self.model)
        for callback in callbacks:
            callback.set_params({"verbose": 1, "epochs": epochs, "steps": steps})

    def _after_resume(self) -> None:
        # The checkpoint may have been saved between the calls of `on_epoch_end` of two callbacks.
        if self._loaded and self.epoch.is_over:
            self._end_epoch_of_all()
        self._loaded = False

    def _after_run(self) -> None:
        if self.epoch.phase == "trained":  # the run was stopped before a validation that was due
            self.epoch.phase = "over after val"
        if self.epoch.is_over:
            self._end_epoch_of_all()

    def _always_run(self) -> None:
        self.running = self._loaded = False
        for _, state in self.states():
            state.end()

    # Epochs

    def _before_train_epoch(self) -> None:
        runner = self.runner
        if runner.done.inner_iter == 0 or self.epoch.number != runner.epoch:
            self.epoch = Epoch(runner.epoch)
        self.epoch.reopen()

    def _after_train_iter(self, result: Any, logs: dict[str, Any]) -> None:
        self.epoch.train.add(result, logs)
        if self._makes_train_logs:
            self.train_logs = self.epoch.train.now()

    def _after_train_epoch(self) -> None:
        if self._is_trained():
            self.epoch.phase = "trained" if validation_follows(self.runner) else "over after train"

    def _is_trained(self) -> bool:
        runner = self.runner
        done = runner.done
        if done.epoch > self.epoch.number:
            return True
        if runner.interrupted:
            return False  # the epoch continues when the run is resumed
        return runner.stopping or (not runner.by_epoch and done.iter >= (runner.max_iters or 0))

    def _after_val_epoch(self) -> None:
        # A validation before the first batch of an epoch does not belong to it.
        epoch = self.epoch
        if self.running and (epoch.phase != "open" or self.runner.done.inner_iter > 0):
            epoch.val = {**(epoch.val or {}), **validation_numbers(self.runner.logs)}
        if epoch.phase == "trained" and not validation_follows(self.runner):
            epoch.phase = "over after val"

    def logs(self) -> dict[str, Any]:
        """Return the logs of the epoch that is over, the same on all ranks; callbacks may add to them."""
        epoch = self.epoch
        if epoch.logs is None:
            # Other hooks may have added numbers since the validation.
            val = {} if epoch.val is None else {**epoch.val, **validation_numbers(self.runner.logs)}
            self._last = dict(sorted(broadcast({**epoch.train.now(), **val}).items()))
            epoch.logs = dict(self._last)
        return epoch.logs

    def last(self) -> dict[str, Any]:
        """Return the logs of the last epoch of the run, without what callbacks have added."""
        if self.epoch.phase != "open":
            self.logs()
        return dict(self._last)

    def begin_epoch(self, state: CallbackState, method: Callable[..., Any]) -> None:
        """Call a callback's `on_epoch_begin`, once for each epoch."""
        if state.begun != self.epoch.number:
            state.begun = self.epoch.number
            method(self.epoch.number, {})

    def end_epoch(self, state: CallbackState) -> None:
        """Call a callback's `on_epoch_end` if the epoch is over, once for each epoch."""
        if self.epoch.is_over and state.ended != self.epoch.number:
            state.ended = self.epoch.number
            if state.on_epoch_end is not None:
                state.on_epoch_end(self.epoch.number, self.logs())

    def _end_epoch_of_all(self) -> None:
        for _, state in self.states():
            self.end_epoch(state)

    # Evaluation

    def _before_evaluation(self, mode: str) -> None:
        self.test, self.test_logs = SortedMeans(), {}
        if not self.running:
            self._introduce(1, mode)

    def _after_test_iter(self, result: Any, logs: dict[str, Any]) -> None:
        self.test.add(result, logs)
        self.test_logs = self.test.now()

    def evaluated(self, mode: str) -> dict[str, Any]:
        """Return the logs of a validation or a test, without the prefix of the mode."""
        return dict(sorted(logged_by(mode, self.runner.logs).items()))

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return how far the epoch has come, and the states of the callbacks."""
        epoch = self.epoch
        return {
            "epoch": {
                "number": epoch.number,
                "train": {name: list(total) for name, total in epoch.train.totals.items()},
                "val": None if epoch.val is None else dict(epoch.val),
                "phase": epoch.phase,
                "logs": None if epoch.logs is None else _storable(epoch.logs),
            },
            "last": self._last,
            "callbacks": {name: state.state_dict() for name, state in self.states()},
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
        for name, callback_state in self.states():
            if name in state["callbacks"]:
                callback_state.load_state_dict(state["callbacks"][name])
                if self.running:
                    callback_state.begin(None)


def lifecycle_of(runner: Run) -> KerasLifecycle:
    """Return the lifecycle of a run, which is made with its first callback."""
    for hook in runner.hooks:
        if isinstance(hook, KerasLifecycle):
            return hook
    life = KerasLifecycle(runner)
    runner.hooks.append(life)
    return life


def _storable(logs: Mapping[str, Any]) -> dict[str, Any]:
    # What a callback has put into the logs may be anything.
    return {name: value for name, value in plain(logs).items() if isinstance(value, (float, str))}
