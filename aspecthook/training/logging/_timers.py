"""The duration of iterations, and an estimate for the rest of a run."""

from __future__ import annotations

from time import perf_counter

from aspecthook.training.hooks._hook import HOOKS, Hook
from aspecthook.training.loop._run import Run


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
        self._since = 0.0  # the end of the last iteration, or of the validation after it
        self._inside = False
        self._count, self._total = 0, 0.0

    @property
    def mean(self) -> float | None:
        """The mean duration of an iteration since the run began or was resumed."""
        return self._total / self._count if self._count else None

    def eta(self, runner: Run) -> float | None:
        """Return an estimate of the seconds that the rest of the training takes; None if there is none yet."""
        left = iterations_left(runner)
        return None if left is None or self.mean is None else left * self.mean

    def before_run(self) -> None:
        """Start over: earlier measurements may come from another machine."""
        self._inside = False
        self._count, self._total = 0, 0.0

    def before_train_epoch(self) -> None:
        """Start waiting for the first batch."""
        self._since = perf_counter()

    def before_train_iter(self, runner: Run) -> None:
        """Log how long the batch took to arrive."""
        self._inside = True
        runner.log(data_time=perf_counter() - self._since)

    def after_train_iter(self, runner: Run) -> None:
        """Log how long the iteration took."""
        self._end(runner)
        self._since = perf_counter()

    def before_val_epoch(self, runner: Run) -> None:
        """End the iteration if a hook validates within it."""
        self._end(runner)

    before_test_epoch = before_val_epoch
    before_predict_epoch = before_val_epoch

    def always_val_epoch(self) -> None:
        """Continue measuring."""
        self._since = perf_counter()

    always_test_epoch = always_val_epoch
    always_predict_epoch = always_val_epoch

    def _end(self, runner: Run) -> None:
        if self._inside:
            self._inside = False
            took = perf_counter() - self._since
            runner.log(time=took)
            self._count, self._total = self._count + 1, self._total + took


def iterations_left(runner: Run) -> float | None:
    """Return how many iterations are left, estimated from the past epochs if the length of an epoch is unknown."""
    done = runner.progress
    total: float | None = runner.max_iters
    if total is None and runner.max_epochs is not None and done.epoch:
        total = (done.iter - done.inner_iter) / done.epoch * runner.max_epochs
    return None if total is None else max(0.0, total - done.iter)


def eta_of(runner: Run) -> float | None:
    """Return the estimate of the timer of a run; None if the run has no timer, or no estimate yet."""
    return next((hook.eta(runner) for hook in runner.hooks if isinstance(hook, IterTimerHook)), None)
