"""What ``keras.Model.fit`` knows and a run does not: where an epoch ends, and the means that its callbacks are given.

There is one for a run, made with its first callback; it is the only thing that all callbacks of the run share. An epoch
is one pass over the data. It ends with the last validation of the workflow before training goes on, else by itself;
validations that hooks ask for in between (`EvalHook`) belong to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, final
from weakref import ref

from aspecthook import hooks
from aspecthook._core.law.asks import Kind
from aspecthook.training._ranks import broadcast
from aspecthook.training.loop._state import named

from ._callback import is_any
from ._list import plain
from ._model import Model, length_of
from ._states import Seat

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

_VAL = "val_"

# What must be on which stage for those who hear of something.
_NEEDS: dict[str, tuple[tuple[str, Kind, str], ...]] = {
    "epoch": (
        ("train_epoch", "pre", "_before_train_epoch"),
        ("train_epoch", "post", "_after_train_epoch"),
        ("val_epoch", "post", "_after_val_epoch"),
    ),
    "train_means": (("train_epoch", "pre", "_before_train_epoch"), ("train_iter", "post", "_after_train_iter")),
    "train_logs": (),
    "test": (("val_epoch", "pre", "_before_evaluation"), ("test_epoch", "pre", "_before_evaluation")),
    "test_logs": (("val_iter", "post", "_after_test_iter"), ("test_iter", "post", "_after_test_iter")),
    "predict": (("predict_epoch", "pre", "_before_evaluation"),),
}


@final
class Means:
    """Running means of what a model logs, each batch counted by its samples."""

    __slots__ = ("rows",)

    def __init__(self, rows: Mapping[str, list[float]] | None = None) -> None:
        # The sum and the count of each, in the order of the names.
        self.rows: dict[str, list[float]] = {name: list(row) for name, row in (rows or {}).items()}

    def add(self, outputs: Any, logs: Mapping[str, Any]) -> None:
        """Add what a batch made; one that was skipped made nothing."""
        if outputs.__class__ is not dict and not is_any(outputs, Mapping):
            return
        count: int = outputs.get("num_samples", 1)
        # A model without `train_step` names no numbers, and the runner has logged its loss.
        numbers: Mapping[str, Any] = outputs["log_vars"] if "log_vars" in outputs else {"loss": logs["loss"]}
        for name in numbers:
            row = self.rows.get(name) or self._row(name)
            row[0] += float(numbers[name]) * count
            row[1] += count

    def _row(self, name: str) -> list[float]:
        self.rows[name] = row = [0.0, 0]
        self.rows = {name: self.rows[name] for name in sorted(self.rows)}
        return row

    def now(self) -> dict[str, Any]:
        """Give the means so far."""
        return {name: total / (count or 1) for name, (total, count) in self.rows.items()}


@final
class KerasLifecycle:
    """The hooks of a run that make a fit of it. Those that nobody needs are not there."""

    def __init__(self, runner: Runner) -> None:
        self.model = Model.of(runner)
        self._find = ref(runner)
        self.verbose = 1
        self.epoch = 0
        self.train = Means()
        self.test = Means()
        self.train_logs: dict[str, Any] = {}
        self.test_logs: dict[str, Any] = {}
        self.running = False
        # After which stage the epoch ends, "train" or "val"; None while it goes on.
        self.ends: str | None = None
        self.closed = False
        self._logs: dict[str, Any] | None = None
        self._last: dict[str, Any] = {}
        self._val: dict[str, Any] = {}
        self._validated = False
        self._loaded = False
        self._publishes = False
        self._seats: dict[int, Seat] = {}
        self._watched: set[str] = set()
        self._watch("run", "pre", self._before_run)
        self._watch("run", "pre", self._resumed, 100)
        self._watch("run", "post", self._after_run)
        self._watch("run", "always", self._always_run)

    @property
    def runner(self) -> Runner:
        """The run."""
        runner = self._find()
        assert runner is not None  # else nobody calls
        return runner

    # Who is there

    def seat(self, callback: Any) -> Seat:
        """Give the seat of a callback."""
        return self._seats.setdefault(id(callback), Seat(callback))

    def leave(self, callback: Any) -> None:
        """Forget a callback that was there for one fit."""
        self._seats.pop(id(callback), None)

    def seats(self) -> Iterator[tuple[str, Seat]]:
        """Give those of the callbacks that are registered, by their names in checkpoints."""
        for name, hook in named(self.runner):
            if id(hook) in self._seats:
                yield name, self._seats[id(hook)]

    def need(self, *parts: str) -> None:
        """Put on the hooks that events of these kinds need."""
        for part in parts:
            for stage, kind, name in _NEEDS[part]:
                self._watch(stage, kind, getattr(self, name))
        self._publishes = self._publishes or "train_logs" in parts

    def _watch(self, stage: str, kind: Kind, function: Callable[..., Any], priority: int = 0) -> None:
        key = f"{kind} {stage} {function.__name__}"
        if key not in self._watched:
            self._watched.add(key)
            hooks(getattr(self.runner, stage)).add(kind, function, name=type(self).__name__, priority=priority)

    # A run

    def _before_run(self) -> None:
        self._introduce(self.runner.max_epochs, "train")
        for _, seat in list(self.seats()):
            if hasattr(seat.callback, "resume_run"):  # before anybody is told that training begins
                seat.callback.resume_run(self.runner)
        if not self._loaded:
            for _, seat in self.seats():
                seat.begun = seat.ended = None
            self.ends, self.closed, self._last = None, False, {}
        self.running = True

    def _introduce(self, epochs: int | None, mode: str) -> None:
        steps = length_of(self.runner.loaders.get(mode))
        callbacks = [seat.callback for _, seat in self.seats() if not seat.silent]
        for callback in callbacks:
            callback.set_model(self.model)
        for callback in callbacks:
            callback.set_params({"verbose": self.verbose, "epochs": epochs, "steps": steps})

    def _resumed(self) -> None:
        """Tell those that had not heard of the end of an epoch when the checkpoint was saved in the middle of it."""
        if self._loaded and self.closed:
            self._flush()
        self._loaded = False

    def _after_run(self) -> None:
        if self.ends is not None:  # a validation was due, and the run was stopped before it
            self.closed = True
            self._flush()

    def _always_run(self) -> None:
        self.running = self._loaded = False
        for _, seat in self.seats():
            seat.end()

    def _flush(self) -> None:
        for _, seat in list(self.seats()):
            self.end_epoch(seat)

    # An epoch

    def _before_train_epoch(self) -> None:
        runner = self.runner
        if runner.progress["inner_iter"] == 0 or self.epoch != runner.epoch:
            self.train, self._val, self._validated = Means(), {}, False
        self.epoch, self.ends, self.closed, self._logs = runner.epoch, None, False, None

    def _after_train_iter(self, result: Any, logs: dict[str, Any]) -> None:
        self.train.add(result, logs)
        if self._publishes:
            self.train_logs = self.train.now()

    def _after_train_epoch(self) -> None:
        if self._is_over():
            follows = validation_follows(self.runner)
            self.ends, self.closed = ("val", False) if follows else ("train", True)

    def _is_over(self) -> bool:
        runner = self.runner
        done = runner.progress
        if done["epoch"] > self.epoch:
            return True
        if runner.interrupted:
            return False  # it goes on when the run is resumed
        return runner.stopping or (not runner.by_epoch and done["iter"] >= (runner.max_iters or 0))

    def _after_val_epoch(self) -> None:
        # One before the first batch of an epoch says nothing of it.
        if self.running and (self.ends is not None or self.runner.progress["inner_iter"] > 0):
            self._validated = True
            self._val.update(self._val_now())
        if self.ends == "val" and not validation_follows(self.runner):
            self.closed = True

    def _val_now(self) -> dict[str, Any]:
        return {name: value for name, value in self.runner.logs.items() if name.startswith(_VAL)}

    def logs(self) -> dict[str, Any]:
        """Give the numbers of the epoch that has ended; callbacks may add to them. On all ranks they are the same."""
        if self._logs is None:
            # Other hooks may have added to those of the validation since.
            made = broadcast({**self.train.now(), **self._val, **(self._val_now() if self._validated else {})})
            self._last = {name: made[name] for name in sorted(made)}
            self._logs = dict(self._last)
        return self._logs

    def last(self) -> dict[str, Any]:
        """Give the numbers of the last epoch of the run."""
        if self.ends is not None:
            self.logs()
        return dict(self._last)

    def begin_epoch(self, seat: Seat, method: Callable[..., Any]) -> None:
        """Tell a callback that an epoch begins, once."""
        if seat.begun != self.epoch:
            seat.begun = self.epoch
            method(self.epoch, {})

    def end_epoch(self, seat: Seat) -> None:
        """Tell a callback that an epoch has ended, once."""
        if self.closed and seat.ended != self.epoch:
            seat.ended = self.epoch
            if seat.on_epoch_end is not None:
                seat.on_epoch_end(self.epoch, self.logs())

    # Evaluation

    def _before_evaluation(self, mode: str) -> None:
        self.test, self.test_logs = Means(), {}
        if not self.running:
            self._introduce(1, mode)

    def _after_test_iter(self, result: Any, logs: dict[str, Any]) -> None:
        self.test.add(result, logs)
        self.test_logs = self.test.now()

    def evaluated(self, mode: str) -> dict[str, Any]:
        """Give the numbers of a validation or a test."""
        start = f"{mode}_"
        logs = self.runner.logs
        return {name.removeprefix(start): logs[name] for name in sorted(logs) if name.startswith(start)}

    # What a checkpoint keeps

    def state_dict(self) -> dict[str, Any]:
        """Give where the epoch is, and what callbacks have been told of it."""
        return {
            "epoch": self.epoch,
            "means": {name: list(row) for name, row in self.train.rows.items()},
            "val": dict(self._val),
            "validated": self._validated,
            "ends": self.ends,
            "closed": self.closed,
            "logs": None if self._logs is None else _kept_logs(self._logs),
            "last": self._last,
            "callbacks": {name: seat.state_dict() for name, seat in self.seats()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self.epoch, self.ends, self.closed = state["epoch"], state["ends"], state["closed"]
        self.train = Means(state["means"])
        self._val, self._validated = dict(state["val"]), bool(state["validated"])
        self._logs, self._last = state["logs"], dict(state["last"])
        self._loaded = not self.running
        for name, seat in self.seats():
            if name in state["callbacks"]:
                seat.load_state_dict(state["callbacks"][name])
                if self.running:
                    seat.begin(None)


def _kept_logs(logs: Mapping[str, Any]) -> dict[str, Any]:
    # What a callback has put there may be anything.
    return {name: value for name, value in plain(logs).items() if isinstance(value, (float, str))}


def validation_follows(runner: Runner) -> bool:
    """Say whether the workflow validates before it trains again, or ends."""
    if runner.stopping:
        return False
    done, rows = runner.progress, runner.workflow
    trained = done["epoch"] if runner.by_epoch else done["iter"]
    end = (runner.max_epochs if runner.by_epoch else runner.max_iters) or 0
    row = done["row"]
    mode, times = rows[row]
    if mode == "train" and trained < (end if len(rows) == 1 else min(done["begun"] + times, end)):
        return False
    if mode == "val" and done["validated"] < times:
        return True
    for place in range(row + 1, row + len(rows)):
        if place == len(rows) and trained >= end:
            return False
        mode = rows[place % len(rows)][0]
        if mode == "val":
            return True
        if trained < end:
            return False
    return False


def lifecycle_of(runner: Runner) -> KerasLifecycle:
    """Give the lifecycle of a run."""
    for hook in runner.hooks:
        if isinstance(hook, KerasLifecycle):
            return hook
    made = KerasLifecycle(runner)
    runner.hooks.append(made)
    return made
