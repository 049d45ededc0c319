"""What a mount point should carry, and which of its hooks are paused: plain lists, which the rules of a machine change.

The mount point of an instance runs its hooks in one chain with those of its class: both are here, each one level. The
invariant: nothing here asks the library what a rule has done, except to compare.
"""

from __future__ import annotations

from typing import final

from aspecthook._core.mount.point import MountPoint
from tests.oracle.laws import law_error, named
from tests.oracle.rows import Row, levels_of, rows_of


@final
class Expected:
    """The hooks in the order in which they were added, and the pauses."""

    def __init__(self, mount: MountPoint) -> None:
        self.mount = mount
        self.levels = levels_of(mount)
        self.parent = self.levels[0] if len(self.levels) > 1 else None
        self.rows: list[Row] = []
        self.paused: set[int] = set()
        self.pauses: dict[int, int] = {}
        self.take_over()

    def take_over(self) -> None:
        """Adopt what others have changed: a rule of the user's own, or a hook that has removed itself."""
        present = {id(row.hook): row for row in rows_of(*self.levels)}
        known = [row for row in self.rows if present.pop(id(row.hook), None) is not None]
        self.rows = [*known, *present.values()]
        self.paused = {id(row.hook) for row in self.rows if row.hook.paused}
        self.pauses = {id(level): len(level.pauses) for level in self.levels}

    def of(self, level: MountPoint) -> list[Row]:
        """Return the hooks of one level."""
        return [row for row in self.rows if row.level is level]

    def acting(self) -> list[Row]:
        """Return the hooks that act now: not paused, nor is what carries them."""
        return [row for row in self.rows if id(row.hook) not in self.paused and not self.pauses[id(row.level)]]

    def pause(self, row: Row, *, paused: bool) -> None:
        """Record that one hook is paused, or is resumed."""
        self.paused = self.paused | {id(row.hook)} if paused else self.paused - {id(row.hook)}

    def drop(self, rows: list[Row]) -> None:
        """Record that hooks are removed."""
        gone = {id(row.hook) for row in rows}
        self.rows = [row for row in self.rows if id(row.hook) not in gone]
        self.paused -= gone

    def check(self, what: str) -> None:
        """Check that the mount point carries these hooks and no others, and that those are paused which should be."""
        for level in self.levels:
            due, pauses = self.of(level), self.pauses[id(level)]
            if list(map(id, level.members)) != [id(row.hook) for row in due]:
                carried = ", ".join(hook.name for hook in level.members) or "none"
                wrong = f"it should carry {named(due) or 'none'}, and carries {carried}"
                raise law_error("members", level, f"{what}, {wrong}")
            if len(level.pauses) != pauses:
                wrong = f"it should be paused {pauses} times, and is {len(level.pauses)} times"
                raise law_error("pauses", level, f"{what}, {wrong}")
        others = [row for row in self.rows if row.hook.paused != (id(row.hook) in self.paused)]
        if others:
            should = "should" if id(others[0].hook) in self.paused else "should not"
            raise law_error("pauses", self.mount, f"{what}, these {should} be paused: {named(others)}")
