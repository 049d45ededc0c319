"""Hooks that guard a run: they end one that no longer improves, and keep NaN away from the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias, final

from aspecthook._core.law.answers import Return
from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number, one_of, whole_number
from aspecthook.training._ranks import any_rank
from aspecthook.training.loop._runner import Runner

from ._hook import HOOKS, Hook
from ._monitor import Monitor, Rule


@final
@HOOKS.register
class EarlyStoppingHook(Hook):
    """End the run when a validation score has not improved for some time, or is NaN or infinite.

    As in mmengine, a score improves if it is better than the best one by `min_delta` or more. Only validations during a
    run count, those before a resume included.

    Args:
        monitor: The name of the score in the run's logs; ``"loss"`` means ``"val_loss"``.
        patience: Stop after this many validations without improvement.
        min_delta: The least improvement that counts.
        rule: Whether ``"greater"`` or ``"less"`` is better; known by the name or a part of it unless given.

    Attributes:
        watched: The `Monitor` of the score.
        best_score: The best score so far.
        wait_count: The number of validations since the last improvement.
        stop_reason: Why the hook has stopped the run, or None.

    Example:
        >>> EarlyStoppingHook("accuracy", patience=3).watched.rule
        'greater'
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
    ) -> None:
        who = "EarlyStoppingHook"
        self.monitor = monitor
        self.watched: Monitor = Monitor(f"{who}(monitor={brief(monitor)})", monitor, rule)
        self.patience: int = whole_number(who, "patience", patience, 1)
        self.min_delta: float = finite_number(who, "min_delta", min_delta)
        self.best_score: float | None = None
        self.wait_count: int = 0
        self.stop_reason: str | None = None
        self._has_validated = False

    def before_run(self, runner: Runner) -> None:
        """Start counting; a stopped run that is resumed stops again."""
        self.stop_reason, self._has_validated = None, False
        self._stop_if_waited(runner)

    def after_val_epoch(self, runner: Runner) -> None:
        """Judge the validation, and ask the run to stop if it is time."""
        self._has_validated = True
        if not runner.running:
            return
        score, best = self.watched.read(runner.logs), self.best_score
        delta = self.min_delta if self.watched.rule == "greater" else -self.min_delta
        if not isfinite(score):
            self._stop(runner, f"{self.monitor} is {score}")
        elif best is None or not self.watched.exceeds(best + delta, score):
            self.best_score, self.wait_count = score, 0
        else:
            self.wait_count += 1
            self._stop_if_waited(runner)

    def after_run(self, runner: Runner) -> None:
        """Warn if there was nothing to judge."""
        if not self._has_validated and self.stop_reason is None:
            runner.logger.warning(
                "EarlyStoppingHook: there was no validation, so it could not stop the run; give fit(train, held_out), "
                "or an EvalHook"
            )

    def _stop_if_waited(self, runner: Runner) -> None:
        if self.wait_count >= self.patience:
            said = f"did not improve in {self.wait_count} validations; the best was {self.best_score:g}"
            self._stop(runner, f"{self.monitor} {said}")

    def _stop(self, runner: Runner, why: str) -> None:
        self.stop_reason = why
        runner.logger.info("EarlyStoppingHook: %s; the run ends", why)
        runner.request_stop()

    def state_dict(self) -> dict[str, Any]:
        """Return the best score and the number of validations since."""
        return {"best_score": self.best_score, "wait_count": self.wait_count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the best score, and how long there was no better one."""
        best, self.wait_count = state["best_score"], int(state["wait_count"])
        self.best_score = None if best is None else float(best)


Action: TypeAlias = Literal["raise", "skip", "stop"]

_ACTIONS: tuple[Action, ...] = ("raise", "skip", "stop")


class NanLossError(TrainingError, FloatingPointError):
    """The loss is NaN or infinite; the parameters were not changed by it.

    Example:
        >>> issubclass(NanLossError, FloatingPointError)
        True
    """


NanLossError.__module__ = "aspecthook.training"


@HOOKS.register
class NanGuardHook(Hook):
    """Keep a NaN or infinite loss away from the parameters.

    The hook checks the loss before the backward pass. One bad batch spoils the whole step where several batches make
    one, and one bad rank spoils the step of all ranks, which exchange a flag in each step to know. What the forward
    pass has changed is not undone: the running averages of a batch normalisation have seen the batch.

    Args:
        action: ``"raise"`` an error before the backward pass, ``"skip"`` the step, or skip it and ``"stop"`` the run.

    Attributes:
        skipped: The number of steps that were skipped.

    Example:
        >>> NanGuardHook("skip").skipped
        0
        >>> NanGuardHook("warn")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: NanGuardHook(action='warn'): give 'raise', 'skip' or 'stop'
    """

    priority: int | str = "HIGH"  # before OptimizerHook: it need not clip gradients that are thrown away

    def __init__(self, action: Action = "raise") -> None:
        self.action: Action = one_of("NanGuardHook", "action", action, _ACTIONS)
        self.skipped: int = 0
        self._bad: float | None = None  # a bad loss among the batches of the present step

    def before_backward(self, runner: Runner, loss: Any) -> None:
        """Check the loss, and raise on all ranks if it is bad on one, and the action is ``"raise"``."""
        value = runner.backend.item(loss)
        bad = not isfinite(value)
        if self.action != "raise":
            self._bad = value if bad else self._bad
        elif any_rank(bad):
            raise NanLossError(_message(runner, f"the loss is {value}" if bad else "the loss of another rank is bad"))

    def before_optimizer_step(self, runner: Runner) -> Return[None] | None:
        """Skip the step if the loss of one of its batches was bad."""
        if self.action == "raise":
            return None
        bad, self._bad = self._bad, None
        if not any_rank(bad is not None):
            return None
        self.skipped += 1
        problem = "the loss of another rank is bad" if bad is None else f"the loss is {bad}"
        runner.logger.warning("NanGuardHook: %s after iteration %d; the step is skipped", problem, runner.iter + 1)
        if self.action == "stop":
            runner.request_stop()
        return Return(None)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of skipped steps, and a bad loss of the step that is under way."""
        return {"skipped": self.skipped, "bad": self._bad}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.skipped, self._bad = int(state["skipped"]), state["bad"]


def _message(runner: Runner, problem: str) -> str:
    rates = ", ".join(f"{group['lr']:g}" for group in runner.optimizer.param_groups if "lr" in group)
    return (
        f"{problem} in epoch {runner.epoch + 1}, iteration {runner.inner_iter + 1} of it ({runner.iter + 1} of the "
        f"run), with the learning rate {rates or 'unknown'}; the parameters were not changed. Lower the rate or warm "
        "it up, clip the gradients with OptimizerHook(grad_clip={'max_norm': ...}), look for NaN in the data, or give "
        "NanGuardHook(action='skip')"
    )
