"""Which of two scores is better: one answer for early stopping, the best checkpoint, callbacks and reports."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Literal, TypeAlias, final

from aspecthook._errors import HookOptionError, HookTypeError, brief, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import one_of
from aspecthook.training._ranks import broadcast
from aspecthook.training.loop._model import VAL, of_mode

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

    Example:
        >>> monitor = Monitor("EarlyStoppingHook", "accuracy")
        >>> monitor.read({"val_accuracy": 0.7}), monitor.name, monitor.exceeds(0.7, 0.5)
        (0.7, 'val_accuracy', True)
    """

    __slots__ = ("_who", "found", "name", "rule")

    def __init__(self, who: str, name: str, rule: Rule | None = None, *, found: bool = False) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # it comes from configs
            raise HookTypeError(f"{who}: {brief(name)} is not the name of a score")
        self._who = who
        self.name: str = name
        self.found: bool = found
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
                f"{self._who} judges by {self.name!r}, which is {brief(logs.get(self.name))} in the logs; log a number"
            ) from error

    def exceeds(self, score: float, other: float | None) -> bool:
        """Whether a score is better than another one, by whatever amount; any but the worst is better than None.

        NaN never is.
        """
        if self.rule == "greater":
            return score > (-inf if other is None else other)
        return score < (inf if other is None else other)

    def state_dict(self) -> dict[str, Any]:
        """Return what another one is made of, which goes on with the same score."""
        return {"name": self.name, "rule": self.rule, "found": self.found}

    def _find(self, logs: Mapping[str, Any]) -> None:
        made = of_mode("val", logs)
        names = [*made] if self.name == "auto" else [one for one in (f"{VAL}{self.name}", self.name) if one in logs]
        if not names:
            near = nearest(self.name, [*made, *(one.removeprefix(VAL) for one in made)])
            raise TrainingError(
                f"{self._who}: the validation did not log this score; it logged {', '.join(made) or 'nothing'}{near}"
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
