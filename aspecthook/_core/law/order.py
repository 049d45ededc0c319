"""Law 2: every chain runs in one total order.

Lowest priority first, then the order in which the hooks were added; ``before`` and ``after`` outrank both: among the
hooks whose constraints are met, the one with the lowest (priority, added) is next. Constraints hold among the hooks of
one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from operator import attrgetter

from aspecthook._errors import HookOrderError
from aspecthook._hints import TYPE_CHECKING, Any, final

from .kinds import KINDS, Kind

if TYPE_CHECKING:
    from .hook import Hook


# The last one decides between hooks of one priority before the order in which they were added does.
_tie_breakers: list[Callable[[Hook], float]] = []


@contextmanager
def ties_broken_by(rank: Callable[[Hook], float]) -> Generator[None]:
    """Order hooks of one priority by a rank, in all chains that are arranged inside the `with` block."""
    _tie_breakers.append(rank)
    try:
        yield
    finally:
        _tie_breakers.pop()


def arrange(hooks: Iterable[Hook], label: str = "") -> tuple[Hook, ...]:
    """Return hooks of one kind in their total order; `label` names the mount point in messages.

    Raises:
        HookOrderError: Their constraints form a cycle, which the message spells out.
    """
    ranked = sorted(hooks, key=attrgetter("priority", "added"))
    if _tie_breakers:
        rank = _tie_breakers[-1]
        ranked.sort(key=lambda hook: (hook.priority, rank(hook)))
    if not [one for one in map(attrgetter("conditions"), ranked) if one.before or one.after]:
        return tuple(ranked)
    followers, waiting = graph(ranked)
    ready = [place for place, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[Hook] = []
    while ready:
        place = heappop(ready)
        order.append(ranked[place])
        for follower in followers[place]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, follower)
    if len(order) < len(ranked):
        raise HookOrderError(_spell(label, ranked, followers, waiting))
    return tuple(order)


def graph(ranked: list[Hook]) -> tuple[list[list[int]], list[int]]:
    """Return, by places in `ranked`, which hooks must follow each hook, and for how many hooks each one waits."""
    bearers: dict[object, list[int]] = {}
    for place, hook in enumerate(ranked):
        for key in hook.keys:
            bearers.setdefault(key, []).append(place)
    edges: set[tuple[int, int]] = set()
    for place, hook in enumerate(ranked):
        edges.update((place, other) for key in hook.conditions.before for other in bearers.get(key, ()))
        edges.update((other, place) for key in hook.conditions.after for other in bearers.get(key, ()))
    followers: list[list[int]] = [[] for _ in ranked]
    waiting = [0] * len(ranked)
    for first, second in edges:
        followers[first].append(second)
        waiting[second] += 1
    return followers, waiting


def _spell(label: str, ranked: list[Hook], followers: list[list[int]], waiting: list[int]) -> str:
    """Return the message that spells one cycle out.

    Every hook that still waits is on a cycle or behind one, and waits for another such hook. So going from hook to hook
    it waits for, one comes to a cycle.
    """
    leaders = {second: first for first, row in enumerate(followers) if waiting[first] for second in row}
    place = next(place for place, count in enumerate(waiting) if count)
    path: list[int] = []
    while place not in path:
        path.append(place)
        place = leaders[place]
    cycle = [*path[path.index(place) :], place][::-1]
    steps = " before ".join(repr(ranked[place].name) for place in cycle)
    places = ", ".join(ranked[place].who for place in cycle[:-1])
    lead = f"{label}: " if label else ""
    return f"{lead}these hooks cannot be ordered: {steps}; remove a `before` or `after` from {places}"


# Among the mentions: how many of them are in `before` and `after`.
ORDERS: object = "before and after"


@final
class Mentions(dict[object, int]):
    """Counts of the names and callables in `before` and `after`, and of the callables, of a mount point's hooks.

    They answer most questions about a new hook without a search.
    """

    __slots__ = ()

    def count(self, hook: Hook, step: int) -> None:
        """Count a hook in (1) or out (-1)."""
        mentions: list[object] = [] if hook.again else [hook.identity]
        conditions = hook.conditions
        if conditions.before or conditions.after:
            for where, keys in (("before", conditions.before), ("after", conditions.after)):
                for key in keys:
                    mentions += [(where, hook.kind, key), ORDERS]
        for mention in mentions:
            total = self.get(mention, 0) + step
            if total:
                self[mention] = total
            else:
                del self[mention]

    def may_close_cycle(self, hook: Hook) -> bool:
        """Whether a new hook is constrained on both sides; only then can it close a cycle."""
        before, after = hook.conditions.before, hook.conditions.after
        leads = before or any(("after", hook.kind, key) in self for key in hook.keys)
        follows = after or any(("before", hook.kind, key) in self for key in hook.keys)
        return bool(leads and follows) or not {*hook.keys}.isdisjoint((*before, *after))


# Of a mount point whose hooks have mentioned nothing yet; it stays empty.
NO_MENTIONS = Mentions()


@final
class Chain:
    """The ordered hooks of one mount point, one tuple for each kind; immutable."""

    __slots__ = (*KINDS, "hooks", "shapes")

    # All hooks, kind by kind in the order in which a call may run them; and what the source of a call depends on.
    hooks: tuple[Hook, ...]
    shapes: tuple[object, ...]
    pre: tuple[Hook, ...]
    around: tuple[Hook, ...]
    on: tuple[Hook, ...]
    item: tuple[Hook, ...]
    exception: tuple[Hook, ...]
    post: tuple[Hook, ...]
    always: tuple[Hook, ...]

    def __init__(self, members: tuple[Hook, ...]) -> None:
        self.pre = self.around = self.on = self.item = self.exception = self.post = self.always = ()
        self.hooks = members
        if len(members) == 1:  # as most chains are
            setattr(self, members[0].kind, members)
        elif members:
            by_kind: dict[Kind, list[Hook]] = {}
            for hook in members:
                by_kind.setdefault(hook.kind, []).append(hook)
            for kind, hooks in by_kind.items():
                setattr(self, kind, arrange(hooks) if len(hooks) > 1 else tuple(hooks))
            self.hooks = self.pre + self.around + self.on + self.item + self.exception + self.post + self.always
        self.shapes = tuple(map(attrgetter("shape"), self.hooks))

    # Any: a kind, which callers may have as any string.
    def replaced(self, by_kind: Mapping[Any, tuple[Hook, ...]]) -> Chain:
        """Return a chain with other hooks of some kinds, which are in order already."""
        made = Chain(())
        for kind in KINDS:
            setattr(made, kind, by_kind.get(kind, getattr(self, kind)))
            made.hooks += getattr(made, kind)
        made.shapes = tuple(map(attrgetter("shape"), made.hooks))
        return made
