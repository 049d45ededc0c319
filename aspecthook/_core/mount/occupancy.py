"""Something of ours in a place that others may take too: a function's code, an attribute, a slot of the interpreter.

The invariant is law 4: ours goes in only where there is what was there before us, or something of ours. What a stranger
has put there is never replaced. A stranger may have kept ours, though, and put it back when we have long left: such a
place is *stranded*, and the next look at it restores what was there before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from aspecthook._hints import Any

# What `now` returns for a place that is gone, such as the code of a function that is dead.
GONE: Any = object()


class Occupancy(ABC):
    """One place. Everything here is called under the lock."""

    __slots__ = ("opened", "stranded")

    before: Any  # what was there before us

    def __init__(self) -> None:
        # Whether ours should be there. It is reset by the one who calls `leave`, after all that belongs to leaving: an
        # interrupt before that leaves a place that is still open, and the next change closes it.
        self.opened: bool = False
        # Whether a stranger's was there when ours had to leave.
        self.stranded: bool = False

    @abstractmethod
    def now(self) -> object:
        """Return what is there, or `GONE`."""

    @abstractmethod
    def put(self, value: object) -> None:
        """Put something there, unless the place is gone."""

    @abstractmethod
    def is_ours(self, value: object) -> bool:
        """Whether we have put this there, now or earlier."""

    def is_theirs(self) -> bool:
        """Whether a stranger's is there."""
        now = self.now()
        return now is not self.before and now is not GONE and not self.is_ours(now)

    def occupy(self, ours: object) -> bool:
        """Put ours there, or a newer one; return False, and do nothing, if a stranger's is there."""
        self.opened, self.stranded = True, False
        if self.is_theirs():
            return False
        self.put(ours)
        return True

    def leave(self) -> None:
        """Restore what was there before us, unless a stranger's is there."""
        now = self.now()
        ours = self.is_ours(now)
        if ours:
            self.restore()
        self.stranded = not ours and now is not self.before and now is not GONE

    def heal(self) -> None:
        """Restore what was there before us, if somebody has put ours back since we left."""
        if self.opened:
            return
        if self.is_ours(self.now()):
            self.restore()
        self.stranded = self.stranded and self.is_theirs()

    def restore(self) -> None:
        """Put back what was there before us."""
        self.put(self.before)

    @property
    def displaced(self) -> bool:
        """Whether a stranger's is where ours should be, or has been since ours had to leave."""
        if self.opened:
            now = self.now()
            return now is not GONE and not self.is_ours(now)
        self.heal()
        return self.stranded
