"""Limits: which calls are left out, and how many have been."""

from __future__ import annotations

from collections import Counter

from aspecthook._hints import TYPE_CHECKING, final

from ._calls import RecordedCall

if TYPE_CHECKING:
    from random import Random


@final
class Limits:
    """Which calls of one recording are left out: whole trees by ``sample``, and what is too deep or too many."""

    __slots__ = ("_kept", "_random", "left_out", "max_calls", "max_depth", "sample")

    def __init__(self, sample: float, max_depth: int | None, max_calls: int | None) -> None:
        self.sample = sample
        self.max_depth = max_depth
        self.max_calls = max_calls
        # How many calls, by the name of the limit.
        self.left_out: Counter[str] = Counter()
        self._kept = 0
        self._random: Random | None = None

    @property
    def active(self) -> bool:
        """Whether there are any."""
        return self.sample < 1.0 or self.max_depth is not None or self.max_calls is not None

    def keep_tree(self) -> bool:
        """Whether the next tree is recorded; if not, count it."""
        kept = self._draw()
        if not kept:
            self.left_out["sample"] += 1
        return kept

    def keep(self, call: RecordedCall, *, drawn: bool) -> bool:
        """Whether a call is recorded; if not, count it, unless it is inside one that is left out.

        `drawn` says whether it is known already that the tree it begins is recorded.
        """
        parent = call.parent
        if parent is not None and not parent.kept:
            return False
        if parent is None and not drawn and not self._draw():
            why = "sample"
        elif self.max_depth is not None and call.depth >= self.max_depth:
            why = "max_depth"
        elif self.max_calls is not None and self._kept >= self.max_calls:
            why = "max_calls"
        else:
            self._kept += 1
            return True
        self.left_out[why] += 1
        return False

    def _draw(self) -> bool:
        if self.sample >= 1.0:
            return True
        if self._random is None:
            from random import Random

            self._random = Random()  # one of our own: the program may have seeded the module's
        return self._random.random() < self.sample
