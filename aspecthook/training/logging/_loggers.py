"""A row of the log, the hook that makes rows from the numbers that a run logs, and the hook that times iterations.

Text, JSON lines, CSV, TensorBoard, the bar and the curves all use the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib.util import find_spec
from math import isfinite
from numbers import Integral, Real
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, TypeAlias

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag, function, whole_number
from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._model import of_mode
from aspecthook.training.loop._runner import Runner

Sink: TypeAlias = Callable[["Row"], object]

PLACE = ("mode", "epoch", "iter")
TIMES = ("time", "data_time")
RATES = ("lr", "momentum")
# The names of the numbers of all modes but training begin with the mode, as in `val_loss`.
_PREFIXES = ("val_", "test_", "predict_")


class Row(NamedTuple):
    """A row of the log: numbers, and the place in the run where they were logged.

    Attributes:
        mode: ``"train"``, ``"val"`` or ``"test"``.
        epoch: The epoch, counted from 1.
        iter: The number of iterations done in the epoch or in the run, depending on which of the two the logger counts.
        total_iter: The number of iterations done in the run.
        numbers: Numbers, and texts, by name. In a training row, numbers are means over its samples. ``lr`` and
            ``momentum`` of the first parameter group come first, and times come last.

    Example:
        >>> Row("train", 2, 10, 110, {"lr": 0.1, "loss": 0.5}).flat()
        {'mode': 'train', 'epoch': 2, 'iter': 10, 'lr': 0.1, 'loss': 0.5}
    """

    mode: str
    epoch: int
    iter: int
    total_iter: int
    numbers: dict[str, float | str]

    def flat(self) -> dict[str, float | str]:
        """Return the place and the numbers in one dict, as in a line of a log file."""
        return {"mode": self.mode, "epoch": self.epoch, "iter": self.iter, **self.numbers}

    @classmethod
    def of_state(cls, state: Sequence[Any]) -> Row:
        """Return the row that a checkpoint holds; raise if a value in it is not one of a row."""
        mode, epoch, place, total, numbers = state
        found = values_of(numbers)
        if len(found) != len(numbers):
            raise ValueError("the state has values that no row can hold")
        return cls(str(mode), int(epoch), int(place), int(total), found)


def number_of(value: object) -> float | None:
    """Return a number, or the only number of an array, as an int or a float; None for any other value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    shape, item = getattr(value, "shape", None), getattr(value, "item", None)
    if shape is not None and callable(item) and all(size == 1 for size in shape):
        return number_of(item())
    return None


def values_of(logs: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the numbers and texts that a row can hold, but no name that would hide the place of the row."""
    found = {name: str(value) if isinstance(value, str) else number_of(value) for name, value in logs.items()}
    return {name: value for name, value in found.items() if value is not None and name not in PLACE}


def _training_values(logs: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the numbers and texts of the training in logs."""
    return {name: value for name, value in values_of(logs).items() if not name.startswith(_PREFIXES)}


def rates_of(optimizer: object) -> dict[str, float | str]:
    """Return the learning rate and the momentum of the first parameter group; a momentum of 0 is left out."""
    groups: list[Mapping[str, Any]] = list(getattr(optimizer, "param_groups", ()))
    group: Mapping[str, Any] = groups[0] if groups else {}
    # The first beta of Adam is its momentum.
    lr, momentum = number_of(group.get("lr")), number_of(group.get("momentum", group.get("betas", (None,))[0]))
    found = {"lr": lr, "momentum": momentum or None}
    return {name: rate for name, rate in found.items() if rate is not None}


def number_text(value: float | str) -> str:
    """Return a number for a line of a log: ``0.2500``, or ``3.000e-05`` if four places would show too little."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, int) or not isfinite(value):
        return str(value)
    return f"{value:.4f}" if not value or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"


def duration_text(seconds: float) -> str:
    """Return a duration as mmcv writes it, such as ``1:02:05``."""
    return str(timedelta(seconds=round(min(seconds, 1e13))))  # an estimate may be infinite


def one_line(text: str, encoding: str | None = None) -> str:
    """Return a text on one line; control characters, and characters that the encoding lacks, are replaced."""
    shown = "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
    return shown.encode(encoding or "utf-8", "replace").decode(encoding or "utf-8")


# A slow action is repeated only after 20 times its duration, so it takes at most 5 % of a run's time.
PAUSE = 20


class LoggerHook(Hook):
    """Call a function with each row of the log.

    A training row has the means over the iterations since the last row, weighted by ``num_samples``. Each validation
    and each test adds a row of its own. Only rank 0 logs. If the function raises, the run continues with a warning, and
    the function gets the rows that it missed as soon as it works again.

    Args:
        sink: The function to call with each `Row`; subclasses have their own.
        interval: The number of training iterations per row; 0 for no training rows.
        by_epoch: Whether to count the iterations of each epoch; otherwise those of the run.
        ignore_last: Whether to leave out the last iterations of an epoch if they are fewer than `interval`; otherwise
            they get a row of their own.

    Example:
        >>> rows = []
        >>> LoggerHook(rows.append, interval=50).ignore_last
        True
    """

    priority: int | str = "VERY_LOW"
    # The packages that this hook needs. They are optional, so a missing one raises an error when the hook is created.
    needs: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, sink: Sink | None = None, interval: int = 10, *, by_epoch: bool = True, ignore_last: bool = True
    ) -> None:
        who = type(self).__name__
        missing = [name for name in self.needs if find_spec(name) is None]
        if missing:
            raise TrainingError(f"{who} needs {' and '.join(missing)}; pip install {' '.join(missing)}")
        # It gets rows, or the texts that a subclass makes of them.
        self._sink: Callable[[Any], object] | None = sink
        if type(self) is LoggerHook:
            function(who, "sink", sink, "give a function of a row")
        self._sink_name: object = f"the sink {brief(sink)}"  # for messages
        self.interval: int = whole_number(who, "interval", interval, 0)
        self.by_epoch: bool = flag(who, "by_epoch", by_epoch)
        self.ignore_last: bool = flag(who, "ignore_last", ignore_last)
        self._waiting: list[Any] = []  # the items that the sink has not taken yet
        self._retry_at = 0.0  # when to call the sink again; 0 if it has not failed
        self._run: Runner | None = None  # the run to which the attributes below belong
        self._loaded: Mapping[str, Any] | None = None  # the state of a checkpoint, until its run begins
        # By name, for the numbers logged since the last training row: the sum, and its weight.
        self._sums: dict[str, list[float]] = {}
        # The newest iteration in the sums: its epoch, its number there, and its number in the run.
        self._place: tuple[int, int, int] = (0, 0, 0)
        self._mode = ""  # of the validation or the test under way

    # When

    def before_run(self, runner: Runner) -> None:
        """Begin, or continue where the resumed run had stopped."""
        if runner.rank != 0:
            return
        loaded, now = self._loaded, runner.progress
        if loaded is not None or self._run is not runner:  # otherwise the same runner runs again
            self._open(runner)
        self._run, self._loaded, self._mode = runner, None, ""
        if loaded is not None:
            self._sums, self._place, self._waiting = loaded["sums"], loaded["place"], [*loaded["missed"]]
            if loaded["row"] is not None:
                self._write(runner, loaded["row"])
            self._write_if_due(runner)
        if self._place[2] != now.iter:  # the run came here without this hook, so the sums are of other iterations
            self._sums.clear()
            self._place = (now.epoch + bool(now.inner_iter), now.inner_iter, now.iter)
        self._end_epoch(runner)

    def _open(self, runner: Runner) -> None:
        """Prepare the sink."""

    def after_train_iter(self, runner: Runner) -> None:
        """Add up the numbers that the iteration has logged, and write a row if one is due."""
        if runner.rank == 0:
            if self._run is None:  # the hook was registered during the run
                self.before_run(runner)
            self._catch_up(runner, runner.iter + 1)

    def before_epoch(self, runner: Runner) -> None:
        """Before a validation or a test, write the training rows that are due.

        A hook may validate before this one is called for the iteration, or for the epoch.
        """
        if runner.rank == 0 and runner.mode != "train":
            self._finish_training(runner)
            self._mode = runner.mode if runner.mode != "predict" else ""

    def after_epoch(self, runner: Runner) -> None:
        """Write a row of the last iterations of an epoch, or of a validation or test."""
        if runner.mode == "train":
            self._finish_training(runner)
        elif self._mode:
            row, self._mode = self._validation_row(runner), ""
            if row is not None:  # else a hook has skipped the validation
                self._write(runner, row)

    def always_run(self, runner: Runner, exc: BaseException | None) -> None:  # noqa: ARG002  # for subclasses
        """Write the rows that the sink has missed, if it works now."""
        self._send(runner, at_once=True)

    # Rows

    def _finish_training(self, runner: Runner) -> None:
        if self._run is not None:
            self._catch_up(runner, runner.progress.iter)
            self._end_epoch(runner)

    def _catch_up(self, runner: Runner, done: int) -> None:
        """Add up the numbers of the newest iteration, now that `done` iterations are done, including skipped ones."""
        if done > self._place[2]:
            if done == runner.progress.iter:  # else a hook has skipped it
                _add_newest(self._sums, runner)
            self._place = (runner.epoch + 1, runner.inner_iter + 1, done)
            self._write_if_due(runner)

    def _write_if_due(self, runner: Runner) -> None:
        """Write a training row if one is due. A second call finds no sums, and does nothing."""
        _, inner, done = self._place
        is_due = bool(self.interval) and (inner if self.by_epoch else done) % self.interval == 0
        is_last = not self.by_epoch and not runner.by_epoch and done == runner.max_iters
        if is_due or (is_last and not self.ignore_last):
            self._write_training(runner)

    def _end_epoch(self, runner: Runner) -> None:
        """Write the rest of an epoch that is complete. A second call finds no sums, and does nothing."""
        if runner.progress.inner_iter == 0:
            if not self.ignore_last and (self.by_epoch or runner.by_epoch):
                self._write_training(runner)
            if self.by_epoch:
                self._sums.clear()

    def _write_training(self, runner: Runner) -> None:
        """Write a row of the sums, if there are any, and start over."""
        if self._sums:
            self._write(runner, self._row(runner, "train", self._means(runner)))
            self._sums.clear()

    def _validation_row(self, runner: Runner) -> Row | None:
        """Return a row of the validation under way; None if it has logged nothing."""
        numbers = values_of(of_mode(self._mode, runner.logged))
        return self._row(runner, self._mode, numbers) if numbers else None

    def _row(self, runner: Runner, mode: str, numbers: Mapping[str, float | str]) -> Row:
        """Return a row at the place that the training has reached."""
        epoch, inner, done = self._place
        return Row(mode, epoch, inner if self.by_epoch else done, done, {**rates_of(runner.optimizer), **numbers})

    def _means(self, runner: Runner) -> dict[str, float | str]:
        """Return the means since the last row, times last; a number that was not logged since keeps its value."""
        found = _training_values(runner.logs)
        found.update((name, total / weight) for name, (total, weight) in self._sums.items() if weight)
        return {name: found[name] for name in sorted(found, key=TIMES.__contains__)}

    def _write(self, runner: Runner, row: Row) -> None:
        """Send a row to the sink; subclasses send a text instead, or draw the row."""
        self._send(runner, row)

    def _send(self, runner: Runner, *items: Any, at_once: bool = False) -> None:
        """Call the sink. While that fails, keep the items that it has missed, and try again now and then."""
        if self._sink is None:
            return
        self._waiting += items
        begun = perf_counter()
        if begun < self._retry_at and not at_once:
            return
        try:
            while self._waiting:
                self._sink(self._waiting[0])
                del self._waiting[0]
            self._retry_at = 0.0
        except Exception as error:
            if not self._retry_at:
                message = (
                    "%s cannot be written: %s; the run continues, and what is missing is written as soon as that works"
                )
                why = getattr(error, "strerror", None) or repr(error)
                trace = None if isinstance(error, OSError) else error
                runner.logger.warning(message, self._sink_name, why, exc_info=trace)
            self._retry_at = perf_counter() + PAUSE * (perf_counter() - begun)

    # The state for a checkpoint

    def state_dict(self) -> dict[str, Any]:
        """Return the sums, the row of a validation that is not written yet, and what the sink has missed.

        A hook that is called before this one may save a checkpoint, and then the sums lack the newest iteration.
        """
        if self._loaded is not None:
            return dict(self._loaded)
        run, row, place = self._run, None, self._place
        sums = {name: list(total) for name, total in self._sums.items()}
        if run is not None and self._mode:
            row = self._validation_row(run)
        elif run is not None and run.progress.iter > place[2]:
            _add_newest(sums, run)
            place = (run.epoch + 1, run.inner_iter + 1, run.progress.iter)
        return {"sums": sums, "place": place, "row": row, "missed": [*self._waiting]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        epoch, inner, done = map(int, state["place"])
        sums = {str(name): [float(total), float(weight)] for name, (total, weight) in state["sums"].items()}
        row = None if state["row"] is None else Row.of_state(state["row"])
        missed = [one if isinstance(one, str) else Row.of_state(one) for one in state["missed"]]
        self._loaded = {**state, "sums": sums, "place": (epoch, inner, done), "row": row, "missed": missed}


def _add_newest(sums: dict[str, list[float]], runner: Runner) -> None:
    """Add the numbers of the newest iteration to sums: times with weight 1, others weighted by its samples."""
    outputs: Mapping[str, Any] | None = runner.outputs
    samples = float(outputs.get("num_samples", 1)) if isinstance(outputs, Mapping) else 1.0
    for name, number in _training_values(runner.logged).items():
        if not isinstance(number, str):
            weight = 1.0 if name in TIMES else samples
            total = sums.setdefault(name, [0.0, 0.0])
            total[0] += number * weight
            total[1] += weight


@HOOKS.register
class IterTimerHook(Hook):
    """Log how long each training iteration takes, in seconds.

    ``data_time`` is the time spent waiting for the batch, including hooks that run between the timer and the loader.
    ``time`` is the time of the whole iteration. Neither includes validations in the middle of an epoch.

    Example:
        >>> timer = IterTimerHook()
        >>> timer.priority, timer.mean is None
        ('LOW', True)
    """

    priority: int | str = "LOW"

    def __init__(self) -> None:
        self._since = 0.0  # the end of the last iteration
        self._count, self._total = 0, 0.0

    @property
    def mean(self) -> float | None:
        """The mean duration of an iteration of this process; a checkpoint may come from another machine."""
        return self._total / self._count if self._count else None

    def before_train_epoch(self) -> None:
        """Start waiting for the first batch."""
        self._since = perf_counter()

    def before_train_iter(self, runner: Runner) -> None:
        """Log how long the batch took to arrive."""
        runner.log(data_time=perf_counter() - self._since)

    def after_train_iter(self, runner: Runner) -> None:
        """Log how long the iteration took."""
        now = perf_counter()
        runner.log(time=now - self._since)
        self._count, self._total = self._count + 1, self._total + now - self._since
        self._since = now

    def around_val_epoch(self, proceed: Callable[[], object]) -> object:
        """Stop the clock: a hook may validate within an iteration, or between two."""
        begun = perf_counter()
        try:
            return proceed()
        finally:
            self._since += perf_counter() - begun

    around_test_epoch = around_val_epoch
    around_predict_epoch = around_val_epoch


def eta_of(runner: Runner) -> float | None:
    """Return how many seconds the rest of a training takes by its timer; None if that cannot be known."""
    mean = next((hook.mean for hook in runner.hooks if isinstance(hook, IterTimerHook)), None)
    total = runner.max_iters  # of a run by epochs too, as soon as their length is known
    return None if total is None or mean is None else max(0, total - runner.progress.iter) * mean
