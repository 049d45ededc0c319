"""The hook that ends a run whose validation score no longer improves."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, final

from aspecthook._errors import HookTypeError, brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number, flag, whole_number
from aspecthook.training._ranks import broadcast
from aspecthook.training.loop._logs import VAL
from aspecthook.training.loop._run import Run

from ._hook import HOOKS, Hook
from ._monitor import Monitor, Rule, missing_score


@final
@HOOKS.register
class EarlyStoppingHook(Hook):
    """End the run when a validation score has not improved for some time.

    As in mmengine, a score improves if it is better than the best one by `min_delta` or more; NaN never does. Only
    validations during a run count, those before a resume included.

    Args:
        monitor: The name of the score in the run's logs; ``"loss"`` means ``"val_loss"``.
        patience: Stop after this many validations without improvement.
        min_delta: The least improvement that counts.
        rule: Whether ``"greater"`` or ``"less"`` is better; known by the name or a part of it unless given.
        baseline: The score to improve on at first.
        stopping_threshold: Stop as soon as a score is better than this.
        check_finite: Stop if a score is NaN or infinite.
        strict: Raise an error if a validation did not log the score; otherwise log a warning.

    Attributes:
        monitor: The name of the score.
        watched: The `Monitor` of the score.
        wait_count: The number of validations since the last improvement.
        stop_reason: Why the hook has stopped the run, or None.

    Example:
        >>> hook = EarlyStoppingHook("accuracy", patience=3)
        >>> hook.rule, hook.best_score
        ('greater', -inf)
        >>> EarlyStoppingHook("f1")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: the name 'f1' does not show whether a greater or a lesser score is better; ...
    """

    priority: int | str = "LOWEST"

    def __init__(
        self,
        monitor: str,
        *,
        patience: int = 5,
        min_delta: float = 0.1,
        rule: Rule | None = None,
        baseline: float | None = None,
        stopping_threshold: float | None = None,
        check_finite: bool = True,
        strict: bool = False,
    ) -> None:
        who = "EarlyStoppingHook"
        if not isinstance(monitor, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"{who}: monitor={brief(monitor)} is not the name of a score")
        self.monitor = monitor
        self.watched: Monitor = Monitor(who, monitor, rule, min_delta=min_delta, or_equal=True, baseline=baseline)
        self.patience: int = whole_number(who, "patience", patience, 1)
        self.stopping_threshold: float | None = (
            None if stopping_threshold is None else finite_number(who, "stopping_threshold", stopping_threshold)
        )
        self.check_finite: bool = flag(who, "check_finite", check_finite)
        self.strict: bool = flag(who, "strict", strict)
        self.wait_count: int = 0
        self.stop_reason: str | None = None
        self._has_validated = False

    @property
    def rule(self) -> Rule:
        """Whether a greater or a lesser score is better."""
        return self.watched.rule

    @property
    def best_score(self) -> float:
        """The best score so far; before the first, the baseline or infinity."""
        return self.watched.best

    def before_run(self, runner: Run) -> None:
        """Start counting; a stopped run that is resumed stops again."""
        self.stop_reason, self._has_validated = None, False
        if self.wait_count >= self.patience:
            self._stop(runner, self._no_improvement())

    def after_val_epoch(self, runner: Run) -> None:
        """Judge the validation, and ask the run to stop if it is time."""
        self._has_validated = True
        if not runner.running:
            return
        key = f"{VAL}{self.monitor}" if f"{VAL}{self.monitor}" in runner.logs else self.monitor
        score: float | None = broadcast(float(runner.logs[key]) if key in runner.logs else None)
        if score is None:
            self._report_missing(runner)
            return
        why = self._judge(score)
        if why is not None:
            self._stop(runner, why)

    def after_run(self, runner: Run) -> None:
        """Warn if there was nothing to judge."""
        if not self._has_validated and self.stop_reason is None:
            runner.logger.warning(
                "EarlyStoppingHook: there was no validation, so it could not stop the run; give fit(train, held_out), "
                "or an EvalHook"
            )

    def _judge(self, score: float) -> str | None:
        """Return why the run should stop after this score, or None."""
        if self.check_finite and not isfinite(score):
            return f"{self.monitor} is {score}"
        threshold = self.stopping_threshold
        if threshold is not None and self.watched.exceeds(score, threshold):
            self.watched.best = score
            return f"{self.monitor} is {score:g}, which is better than the threshold {threshold:g}"
        if self.watched.update(score):
            self.wait_count = 0
            return None
        self.wait_count += 1
        return self._no_improvement() if self.wait_count >= self.patience else None

    def _no_improvement(self) -> str:
        return f"{self.monitor} did not improve in {self.wait_count} validations; the best was {self.best_score:g}"

    def _stop(self, runner: Run, why: str) -> None:
        self.stop_reason = why
        runner.logger.info("EarlyStoppingHook: %s; the run ends", why)
        runner.request_stop()

    def _report_missing(self, runner: Run) -> None:
        text = missing_score(f"EarlyStoppingHook(monitor={self.monitor!r})", self.monitor, runner.logs)
        if self.strict:
            raise TrainingError(text)
        runner.logger.warning("%s", text)

    def state_dict(self) -> dict[str, Any]:
        """Return the best score and the number of validations since."""
        return {"best_score": self.best_score, "wait_count": self.wait_count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the best score, and how long there was no better one."""
        self.watched.best, self.wait_count = float(state["best_score"]), int(state["wait_count"])
