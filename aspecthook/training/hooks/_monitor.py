"""The score by which a hook judges validations, and the hook that ends a run whose score no longer improves."""

from __future__ import annotations

from collections.abc import Mapping
from logging import INFO, WARNING
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

# The parts of names by which mmcv knows the rule, in lower case. As in mmcv, a part of the first rule wins: `top_loss`.
_PARTS: dict[Rule, tuple[str, ...]] = {
    "greater": ("acc", "top", "ar@", "auc", "precision", "map", "mdice", "miou", "macc", "aacc"),
    "less": ("loss",),
}


def known_rule(name: str) -> Rule | None:
    """Return whether a greater or a lesser score of this name is better; None if the name does not show it."""
    return next((rule for rule in RULES if any(part in name.lower() for part in _PARTS[rule])), None)


def _required_rule(name: str) -> Rule:
    rule = known_rule(name)
    if rule is None:
        raise HookOptionError(
            f"the name {name!r} does not show whether a greater or a lesser score is better; give "
            'rule="greater" or rule="less"'
        )
    return rule


@final
class Monitor:
    """A score by which a hook judges validations: its name in their logs, and which of two scores is better.

    Args:
        who: The hook that asks, for error messages.
        name: The name of the score; ``"loss"`` means ``"val_loss"``, and ``"auto"`` the first of a validation.
        rule: Whether ``"greater"`` or ``"less"`` is better; by default the name decides.

    Attributes:
        found: Whether a validation has logged the score. From then on, `name` is its name in the logs, and `rule` is
            known.
    """

    __slots__ = ("found", "name", "rule", "who")

    def __init__(self, who: str, name: str, rule: Rule | None = None) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"{who}: {brief(name)} is not the name of a score")
        self.who: str = who
        self.name: str = name
        self.found: bool = False
        self.rule: Rule | None = None
        if rule is not None:
            self.rule = one_of(who, "rule", rule, RULES)
        elif name != "auto":
            self.rule = _required_rule(name)

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
        """Whether a score is better than another one. NaN never is; None stands for the worst score there is."""
        if self.rule == "greater":
            return score > (-inf if other is None else other)
        return score < (inf if other is None else other)

    def _find(self, logs: Mapping[str, Any]) -> None:
        logged = of_mode("val", logs)
        names = [*logged] if self.name == "auto" else [one for one in (f"{VAL}{self.name}", self.name) if one in logs]
        if not names:
            near = nearest(self.name, [*logged, *(one.removeprefix(VAL) for one in logged)])
            raise TrainingError(
                f"{self.who}: the validation did not log this score; it logged {', '.join(logged) or 'nothing'}{near}"
            )
        self.rule = self.rule or _required_rule(names[0])
        self.name, self.found = names[0], True


@final
@HOOKS.register
class EarlyStoppingHook(Hook):
    """End the run when a validation score has not improved for some time, or is NaN or infinite.

    As in mmengine, a score improves if it is better than the best one by `min_delta` or more. Only validations during a
    run count, including those before it was resumed.

    Args:
        monitor: The name of the score in the run's logs; ``"loss"`` means ``"val_loss"``.
        patience: Stop after this many validations without improvement.
        min_delta: The smallest improvement that counts.
        rule: See `CheckpointHook`.

    Attributes:
        best_score: The best score so far.
        wait_count: The number of validations since the last improvement; set it to 0 to train on after a stop.
        stop_reason: Why the hook has stopped the run, or None.

    Example:
        >>> EarlyStoppingHook("accuracy", patience=3).wait_count
        0
        >>> EarlyStoppingHook("f1")
        Traceback (most recent call last):
          ...
        aspecthook.HookOptionError: the name 'f1' does not show whether a greater or a lesser score is better; ...
    """

    priority: int | str = "LOWEST"

    def __init__(self, monitor: str, *, patience: int = 5, min_delta: float = 0.1, rule: Rule | None = None) -> None:
        who = "EarlyStoppingHook"
        self.monitor = monitor
        self._watched = Monitor(f"{who}(monitor={brief(monitor)})", monitor, rule)
        self.patience: int = whole_number(who, "patience", patience, 1)
        self.min_delta: float = finite_number(who, "min_delta", min_delta)
        self.best_score: float | None = None
        self.wait_count: int = 0
        self.stop_reason: str | None = None

    def before_run(self, runner: Runner) -> None:
        """Start counting; a stopped run that is resumed stops again."""
        self.stop_reason = None
        self._stop_if_waited(runner, WARNING, "nothing is trained; to train on, set its wait_count to 0")

    def after_val_epoch(self, runner: Runner) -> None:
        """Judge the validation, and ask the run to stop if it is time."""
        if not runner.running:
            return
        score, best = self._watched.read(runner.logs), self.best_score
        delta = self.min_delta if self._watched.rule == "greater" else -self.min_delta
        if not isfinite(score):
            self._stop(runner, f"{self.monitor} is {score}")
        elif best is None or not self._watched.exceeds(best + delta, score):  # to equal it is enough, as in mmengine
            self.best_score, self.wait_count = score, 0
        else:
            self.wait_count += 1
            self._stop_if_waited(runner)

    def after_run(self, runner: Runner) -> None:
        """Warn if there was nothing to judge."""
        if not self._watched.found and self.stop_reason is None:
            runner.logger.warning("EarlyStoppingHook had no validation to judge; give fit(train, val) or an EvalHook")

    def _stop_if_waited(self, runner: Runner, level: int = INFO, then: str = "the run ends") -> None:
        if self.wait_count >= self.patience:
            waited = f"did not improve in {self.wait_count} validations; the best was {self.best_score:g}"
            self._stop(runner, f"{self.monitor} {waited}", level, then)

    def _stop(self, runner: Runner, why: str, level: int = INFO, then: str = "the run ends") -> None:
        self.stop_reason = why
        runner.logger.log(level, "EarlyStoppingHook: %s; %s", why, then)
        runner.request_stop()

    def state_dict(self) -> dict[str, Any]:
        return {"monitor": self.monitor, "best_score": self.best_score, "wait_count": self.wait_count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state, unless it is about another score."""
        if state["monitor"] == self.monitor:
            best, self.wait_count = state["best_score"], int(state["wait_count"])
            self.best_score = None if best is None else float(best)
