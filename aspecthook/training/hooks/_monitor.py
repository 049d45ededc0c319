"""Which of two scores is better: one answer for early stopping, the best checkpoint, callbacks and reports."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Literal, TypeAlias, final

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import one_of
from aspecthook.training._ranks import broadcast
from aspecthook.training.loop._logs import VAL, of_mode

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
    by_name = [rule for rule in RULES if name in _NAMES[rule]]
    by_part = [rule for rule in RULES if any(part in name for part in _NAMES[rule])]
    return next(iter([*by_name, *by_part]), None)


def find_score(who: str, wanted: str, logs: Mapping[str, Any]) -> str:
    """Return the name of a score in the logs of a validation; ``"loss"`` means ``"val_loss"``, ``"auto"`` the first."""
    found = of_mode("val", logs)
    names = list(found) if wanted == "auto" else [name for name in (f"{VAL}{wanted}", wanted) if name in logs]
    if names:
        return names[0]
    near = nearest(wanted, [*found, *(one.removeprefix(VAL) for one in found)])
    raise TrainingError(
        f"{who}: the validation did not log this score; it logged {', '.join(found) or 'nothing'}{near}"
    )


def score_of(who: str, name: str, logs: Mapping[str, Any]) -> float:
    """Return a score in the logs; on all ranks that of the first."""
    try:
        return broadcast(float(logs[name]))
    except (KeyError, TypeError, ValueError) as error:
        raise TrainingError(
            f"{who} judges by {name!r}, which is {brief(logs.get(name))} in the logs; log a number"
        ) from error


@final
class Monitor:
    """The name of a score, and which of two scores is better.

    Args:
        who: The hook that asks, for error messages.
        name: The name of the score, such as ``"val_accuracy"``.
        rule: Whether ``"greater"`` or ``"less"`` is better; known by the name unless given.

    Example:
        >>> monitor = Monitor("EarlyStoppingHook", "val_accuracy")
        >>> monitor.rule, monitor.exceeds(0.7, 0.5), monitor.exceeds(float("nan"), monitor.worst)
        ('greater', True, False)
    """

    __slots__ = ("name", "rule", "worst")

    def __init__(self, who: str, name: str, rule: Rule | None = None) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"{who}: {brief(name)} is not the name of a score")
        self.name: str = name
        found = known_rule(name) if rule is None else one_of(who, "rule", rule, RULES)
        if found is None:
            raise HookOptionError(
                f'the name {name!r} does not show whether a greater or a lesser score is better; give rule="greater" '
                'or rule="less"'
            )
        self.rule: Rule = found
        self.worst: float = -inf if found == "greater" else inf

    def exceeds(self, score: float, other: float) -> bool:
        """Whether a score is better than another number, by whatever amount; NaN never is."""
        return score > other if self.rule == "greater" else score < other
