"""The model: which hooks a mount point should carry, in which order, which are paused, and how often they have run.

It is plain lists, which the rules of a machine change. The mount point of an instance runs its hooks in one chain with
those of its class: both are here, each one level. The invariant: nothing here asks the library what a rule has done,
except to compare; and the order knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast, final

from aspecthook._core.law.hook import Hook
from aspecthook._core.law.options import Priority
from aspecthook._core.law.order import Mentions
from aspecthook._core.mount.instance import InstanceMountPoint
from aspecthook._core.mount.point import MountPoint
from aspecthook.testing import LawError, Trace


def law_error(name: str, mount: MountPoint, what: str, trace: Trace | None = None) -> LawError:
    """Return the error for a law that a mount point breaks, with its hooks."""
    shown = [] if trace is None else [trace.draw()]
    return LawError("\n".join([f"{mount.name} breaks the law {name!r}: {what}", *shown, *map(repr, mount.members)]))


class Row(NamedTuple):
    """One hook as plain data."""

    hook: Any  # a `Hook`, once it is added
    kind: str
    name: str
    function: Any  # a callable
    priority: int
    before: tuple[object, ...]
    after: tuple[object, ...]
    level: Any = None  # the `MountPoint` that carries it
    candidate: Any = None  # what a machine has made it of
    types: tuple[type[BaseException], ...] = ()
    meaning: Any = None  # what its options come to
    again: bool = False  # whether it was added beside another hook of its function

    def __repr__(self) -> str:
        return f"{self.kind} {self.name}"


def row_of(hook: object, kind: str, name: str, function: object, options: Any, level: MountPoint | None = None) -> Row:
    """Make a row of what was asked for."""
    priority: Any = options.get("priority", Priority.NORMAL)
    number = Priority[priority.upper()] if isinstance(priority, str) else priority
    before, after = _several(options.get("before")), _several(options.get("after"))
    orders = [{one if isinstance(one, str) else id(one) for one in several} for several in (before, after)]
    counts = (_times(options), options.get("every") if options.get("every") != 1 else None)
    flags = (options.get("reentrant", True), options.get("isolate", False))
    meaning = (name, int(number), orders, options.get("when"), counts, flags)
    return Row(hook, kind, name, function, int(number), before, after, level, meaning=meaning)


def _several(value: Any) -> tuple[object, ...]:
    if value is None:
        return ()
    several = isinstance(value, (list, tuple, set, frozenset))
    return tuple(cast("Iterable[object]", value)) if several else (value,)


def levels_of(mount: MountPoint) -> tuple[MountPoint, ...]:
    """Return the mount points whose hooks run in one chain: that of an instance runs those of its class too."""
    return (mount.parent, mount) if isinstance(mount, InstanceMountPoint) else (mount,)


def rows_of(*levels: MountPoint) -> list[Row]:
    """Return the hooks of some mount points, in the order in which they were added."""
    carried = sorted([(one, level) for level in levels for one in level.members], key=lambda pair: pair[0].added)
    rows = [row_of(one, one.kind, one.name, one.meant, one.options, level) for one, level in carried]
    return [row._replace(types=row.hook.types, again=row.hook.again) for row in rows]


def acting(mount: MountPoint) -> list[Row]:
    """Return the hooks that act now, those of an instance together with those of its class."""
    return [row for row in rows_of(*levels_of(mount)) if not row.level.pauses and not row.hook.paused]


def precedes(first: Row, second: Row) -> bool:
    """Whether a constraint puts one before the other."""
    return first.kind == second.kind and (_mentions(first.before, second) or _mentions(second.after, first))


def _mentions(keys: tuple[object, ...], row: Row) -> bool:
    return any(
        key == row.name if isinstance(key, str) else key is row.hook or bool(key == row.function) for key in keys
    )


def ordered(rows: list[Row]) -> list[Row] | None:
    """Among the hooks whose constraints are met, the lowest (priority, added) goes next. None: there is no order."""
    left = sorted(rows, key=lambda row: row.priority)  # stable: of equal priority, the first added is the first
    if not any(row.before or row.after for row in rows):
        return left
    order: list[Row] = []
    while left:
        met = [row for row in left if not any(precedes(other, row) for other in left)]
        if not met:
            return None
        order.append(met[0])
        left.remove(met[0])
    return order


def of_kind(rows: Iterable[Row], kind: str) -> list[Row]:
    """Return the rows of one kind."""
    return [row for row in rows if row.kind == kind]


def named(rows: Iterable[Row]) -> str:
    """Return the names of some hooks."""
    return ", ".join(row.name for row in rows)


# What a mount point should carry


@final
class Expected:
    """The hooks of a mount point in the order in which they were added, and the pauses."""

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
        owner = self.levels[0]
        counted = Mentions()
        for hook in [*owner.members, *(one for instance in owner.instances.values() for one in instance.members)]:
            counted.count(hook, 1)
        if counted != owner.mentions:
            raise law_error("no trace", owner, f"{what}, it counts {owner.mentions}, and its hooks are {counted}")
        others = [row for row in self.rows if row.hook.paused != (id(row.hook) in self.paused)]
        if others:
            should = "should" if id(others[0].hook) in self.paused else "should not"
            raise law_error("pauses", self.mount, f"{what}, these {should} be paused: {named(others)}")


# Conditions that count


class Counts:
    """How often hooks have been asked to act, and which of them are acting: what `once`, `times` and `every` go by.

    Of a hook whose past is not known, and of one whose calls could not all be followed, anything is believed.
    """

    def __init__(self) -> None:
        # By their ids, which nothing else may have: so they are kept.
        self.known: dict[int, object] = {}
        self.asked: dict[int, int] = {}
        self.acted: dict[int, int] = {}
        self.acting: list[object] = []
        # Whether a hook has left a stream open: who knows when those around it end.
        self.has_open_streams = False

    def admits(self, hook: Hook) -> bool | None:
        """Whether a hook runs in the present call, which is counted; None if that is not known."""
        options = hook.options
        if options.get("reentrant") is False and self.has_open_streams:
            return None
        if options.get("reentrant") is False and any(one is hook for one in self.acting):
            return False
        if self.is_unknown(hook):
            return None
        every, times = options.get("every"), _times(options)
        if every:
            self.asked[id(hook)] = self.asked.get(id(hook), 0) + 1
            if self.asked[id(hook)] % every:
                return False
        if times:
            self.acted[id(hook)] = self.acted.get(id(hook), 0) + 1
            return self.acted[id(hook)] <= times
        return True

    def is_unknown(self, hook: Hook) -> bool:
        """Whether it is not known how often a hook has been asked to act."""
        return bool(hook.options.keys() & {"once", "times", "every"}) and id(hook) not in self.known

    def is_used_up(self, hook: Hook) -> bool | None:
        """Whether a hook has run as often as it may and so was removed; None if that is not known."""
        times = _times(hook.options)
        if not times:
            return False
        return self.acted.get(id(hook), 0) >= times if id(hook) in self.known else None

    def forget(self) -> None:
        """Forget all counts, after a call that could not be followed."""
        for one in (self.known, self.asked, self.acted):
            one.clear()

    def know(self, hook: object) -> None:
        """Start to count the runs of a hook that was just added."""
        self.known[id(hook)] = hook


# Any: the options of a hook.
def _times(options: Any) -> int | None:
    return 1 if options.get("once") else options.get("times")
