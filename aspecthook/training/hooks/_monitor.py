"""Which of two scores is better: one answer for early stopping, the best checkpoint, callbacks and reports."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Literal, TypeAlias, final

from aspecthook._errors import HookOptionError, nearest
from aspecthook.training._options import finite_number, one_of
from aspecthook.training.loop._logs import VAL, validation_numbers

Rule: TypeAlias = Literal["greater", "less"]

RULES: tuple[Rule, ...] = ("greater", "less")

# As in mmcv, in lower case: the whole name is looked for under both rules before parts of it are.
_NAMES: dict[Rule, tuple[str, ...]] = {
    "greater": ("acc", "top", "ar@", "auc", "precision", "map", "mdice", "miou", "macc", "aacc"),
    "less": ("loss",),
}


def known_rule(name: str) -> Rule | None:
    """Return whether a greater or a lesser score of this name is better; None if the name does not show it.

    Example:
        >>> known_rule("val_loss"), known_rule("bbox_mAP_50"), known_rule("top1"), known_rule("f1")
        ('less', 'greater', 'greater', None)
    """
    name = name.lower()
    for rule in RULES:
        if name in _NAMES[rule]:
            return rule
    return next((rule for rule in RULES if any(part in name for part in _NAMES[rule])), None)


def missing_score(who: str, name: str, logs: Mapping[str, Any]) -> str:
    """Return the message of a hook whose score a validation did not log."""
    found = validation_numbers(logs)
    near = nearest(name, [*found, *(one.removeprefix(VAL) for one in found)])
    return f"{who}: the validation did not log this score; it logged {', '.join(found) or 'nothing'}{near}"


@final
class Monitor:
    """The best score so far, and whether a new one is better.

    Args:
        who: The hook that asks, for error messages.
        name: The name of the score, such as ``"val_accuracy"``.
        rule: Whether ``"greater"`` or ``"less"`` is better; known by the name unless given.
        min_delta: A score must be better than the best one by more than this.
        or_equal: A score that is better by exactly `min_delta` counts too, as in mmengine.
        baseline: The score to improve on at first; unless given, infinitely bad.

    Attributes:
        best: The best score so far; before the first, the baseline.

    Example:
        >>> monitor = Monitor("EarlyStoppingHook", "val_accuracy", min_delta=0.1)
        >>> [monitor.update(score) for score in (0.5, 0.55, 0.7, float("nan"))], monitor.best
        ([True, False, True, False], 0.7)
    """

    __slots__ = ("_margin", "_or_equal", "best", "name", "rule")

    def __init__(
        self,
        who: str,
        name: str,
        rule: Rule | None = None,
        *,
        min_delta: float = 0.0,
        or_equal: bool = False,
        baseline: float | None = None,
    ) -> None:
        self.name: str = name
        found = known_rule(name) if rule is None else one_of(who, "rule", rule, RULES)
        if found is None:
            raise HookOptionError(
                f'the name {name!r} does not show whether a greater or a lesser score is better; give rule="greater" '
                'or rule="less"'
            )
        self.rule: Rule = found
        delta = finite_number(who, "min_delta", min_delta)
        worst = -inf if self.rule == "greater" else inf
        self.best: float = worst if baseline is None else finite_number(who, "baseline", baseline)
        self._margin = delta if self.rule == "greater" else -delta
        self._or_equal = or_equal

    def exceeds(self, score: float, other: float) -> bool:
        """Whether a score is better than another number, by whatever amount; NaN never is."""
        return score > other if self.rule == "greater" else score < other

    def is_better(self, score: float) -> bool:
        """Whether a score is better than the best one so far by `min_delta`; NaN never is."""
        bar = self.best + self._margin
        return self.exceeds(score, bar) or (self._or_equal and score == bar)

    def update(self, score: float) -> bool:
        """Whether a score is better than the best one so far; if it is, it becomes the best."""
        better = self.is_better(score)
        if better:
            self.best = score
        return better
