"""Which of two scores is better, for all hooks that ask; and the hook that ends a run that no longer improves."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any, Literal, TypeAlias, final

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number, one_of, whole_number
from aspecthook.training._ranks import broadcast
from aspecthook.training.loop._model import VAL, of_mode
from aspecthook.training.loop._runner import Runner

from ._hook import HOOKS, Hook

Rule: TypeAlias = Literal["greater", "less"]

RULES: tuple[Rule, ...] = ("greater", "less")

# As in mmcv, in lower case: the whole name is looked for under both rules before parts of it are.
_NAMES: dict[Rule, tuple[str, ...]] = {
    "greater": ("acc", "top", "ar@", "auc", "precision", "map", "mdice", "miou", "macc", "aacc"),
    "less": ("loss",),
}


def known_rule(name: str) -> Rule | None:
    """Return whether a greater or a lesser score of this name is better; None if the name does not show it."""
    name = name.lower()
    by_name: list[Rule] = [rule for rule in RULES if name in _NAMES[rule]]
    by_part: list[Rule] = [rule for rule in RULES if any(part in name for part in _NAMES[rule])]
    return next(iter(by_name + by_part), None)


@final
class Monitor:
    """A score that a hook judges by: its name in the logs of validations, and which of two is better.

    Args:
        who: The hook that asks, for error messages.
        name: The name of the score; ``"loss"`` means ``"val_loss"``, and ``"auto"`` the first of a validation.
        rule: Whether ``"greater"`` or ``"less"`` is better; known by the name unless given.

    Attributes:
        found: Whether a score was found in the logs, so that `name` is its name there, and `rule` is known.
    """

    __slots__ = ("found", "name", "rule", "who")

    def __init__(self, who: str, name: str, rule: Rule | None = None) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"{who}: {brief(name)} is not the name of a score")
        self.who: str = who
        self.name: str = name
        self.found: bool = False
        self.rule: Rule | None = known_rule(name) if rule is None else one_of(who, "rule", rule, RULES)
        self._check_rule()

    def read(self, logs: Mapping[str, Any]) -> float:
        """Return the score in the logs of a validation; on all ranks that of the first."""
        if not self.found:
            self._find(logs)
        try:
            return broadcast(float(logs[self.name]))
        except (KeyError, TypeError, ValueError) as error:
            raise TrainingError(
                f"{self.who} judges by {self.name!r}, which is {brief(logs.get(self.name))} in the logs; log a number"
            ) from error

    def exceeds(self, score: float, other: float | None) -> bool:
        """Whether a score is better than another one, by whatever amount; any but the worst is better than None.

        NaN never is.
        """
        if self.rule == "greater":
            return score > (-inf if other is None else other)
        return score < (inf if other is None else other)

    def _find(self, logs: Mapping[str, Any]) -> None:
        made = of_mode("val", logs)
        names = [*made] if self.name == "auto" else [one for one in (f"{VAL}{self.name}", self.name) if one in logs]
        if not names:
            near = nearest(self.name, [*made, *(one.removeprefix(VAL) for one in made)])
            raise TrainingError(
                f"{self.who}: the validation did not log this score; it logged {', '.join(made) or 'nothing'}{near}"
            )
        self.name, self.found = names[0], True
        self.rule = self.rule or known_rule(self.name)
        self._check_rule()

    def _check_rule(self) -> None:
        if self.rule is None and self.name != "auto":
            raise HookOptionError(
                f"the name {self.name!r} does not show whether a greater or a lesser score is better; give "
                'rule="greater" or rule="less"'
            )


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

    def before_run(self, runner: Runner) -> None:
        """Start counting; a stopped run that is resumed stops again."""
        self.stop_reason = None
        self._stop_if_waited(runner)

    def after_val_epoch(self, runner: Runner) -> None:
        """Judge the validation, and ask the run to stop if it is time."""
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
        if not self.watched.found and self.stop_reason is None:
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
        return {"best_score": self.best_score, "wait_count": self.wait_count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        best, self.wait_count = state["best_score"], int(state["wait_count"])
        self.best_score = None if best is None else float(best)
