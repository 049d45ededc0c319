"""How long iterations take, and how long the rest of a run will."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from aspecthook.training.hooks._hook import HOOKS, Hook

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner


@HOOKS.register
class IterTimerHook(Hook):
    """Put how long each iteration of the training takes into the run's logs, in seconds.

    ``data_time`` is how long it waited for its batch (and for what hooks do between the timer and there), ``time`` how
    long it took in all. What validations take in the middle of the training is in neither.

    Example:
        >>> timer = IterTimerHook()
        >>> timer.priority, timer.mean is None
        ('LOW', True)
    """

    priority: int | str = "LOW"

    def __init__(self) -> None:
        self._since = 0.0  # the end of the last iteration, or of what came between
        self._inside = False
        self._count, self._total = 0, 0.0

    @property
    def mean(self) -> float | None:
        """How long an iteration takes on average, since the run has begun or was resumed."""
        return self._total / self._count if self._count else None

    def eta(self, runner: Runner) -> float | None:
        """Say how many seconds the rest of the training will take; None if that cannot be known yet."""
        left = iterations_left(runner)
        return None if left is None or self.mean is None else left * self.mean

    def before_run(self) -> None:
        """Begin anew: what was measured before may have been another machine."""
        self._inside = False
        self._count, self._total = 0, 0.0

    def before_train_epoch(self) -> None:
        """Begin to wait for the first batch."""
        self._since = perf_counter()

    def before_train_iter(self, runner: Runner) -> None:
        """Say how long the batch was waited for."""
        self._inside = True
        runner.logs = {**runner.logs, "data_time": perf_counter() - self._since}

    def after_train_iter(self, runner: Runner) -> None:
        """Say how long the iteration took."""
        self._end(runner)
        self._since = perf_counter()

    def before_val_epoch(self, runner: Runner) -> None:
        """End the iteration, if a hook validates after it."""
        self._end(runner)

    before_test_epoch = before_predict_epoch = before_val_epoch

    def always_val_epoch(self) -> None:
        """Go on measuring."""
        self._since = perf_counter()

    always_test_epoch = always_predict_epoch = always_val_epoch

    def _end(self, runner: Runner) -> None:
        if self._inside:
            self._inside = False
            took = perf_counter() - self._since
            runner.logs = {**runner.logs, "time": took}
            self._count, self._total = self._count + 1, self._total + took


def iterations_left(runner: Runner) -> float | None:
    """Say how many iterations a run still has: from the epochs so far, if the length of one is not known before."""
    progress = runner.progress
    total: float | None = runner.max_iters
    if total is None and runner.max_epochs is not None and progress["epoch"]:
        total = (progress["iter"] - progress["inner_iter"]) / progress["epoch"] * runner.max_epochs
    return None if total is None else max(0.0, total - progress["iter"])


def eta_of(runner: Runner) -> float | None:
    """Give what the timer of a run expects; None without one, and before it has measured anything."""
    return next((hook.eta(runner) for hook in runner.hooks if isinstance(hook, IterTimerHook)), None)
