"""The conditions of a hook that depend on its other runs: ``once``, ``times``, ``every``, ``reentrant=False``."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from itertools import count, cycle, repeat
from operator import mod
from sys import version

from aspecthook._hints import final

from .options import Conditions, Handle
from .variables import Variable, variable

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class Entry:
    """One run of a hook with ``reentrant=False``. It may end in another context than it began in."""

    __slots__ = ("_alive", "_guard")

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._alive = True
        _running.set((*(one for one in _running.get() if one._alive), self))

    def leave(self) -> None:
        """End the run."""
        self._alive = False
        _running.set(tuple(one for one in _running.get() if one._alive))


_running: Variable[tuple[Entry, ...]] = variable("aspecthook_running", ())


def _skips(every: int) -> Iterator[object]:
    """Return an iterator that says of each call whether the hook skips it: each `every`-th item is false.

    Generated code asks it at each call, so it is C throughout; and its `next` is atomic.
    """
    # Up to 8 KB a hook, for a third of the time. Without the GIL, two threads may get one item of a `cycle`.
    if every <= 1024 and "free-threading" not in version:
        return cycle([*repeat(True, every - 1), False])
    return map(mod, count(1), repeat(every))


@final
class Guard:
    """Decides whether a hook with ``once``, ``times``, ``every`` or ``reentrant=False`` runs in this call.

    The invariant: each call takes a number of its own, and whether the hook runs depends on that number alone. So the
    counts are exact when threads call concurrently, and no lock is held when a signal handler, an interrupt or a fork
    comes in the middle of a call.
    """

    __slots__ = (
        "__weakref__",
        "_hook",
        "_runs",
        "counts_every_alone",
        "every",
        "reentrant",
        "skips",
        "times",
    )

    def __init__(self, conditions: Conditions, hook: Handle) -> None:
        self.times: int | None = conditions.times
        self.every: int | None = conditions.every
        self.reentrant: bool = conditions.reentrant
        self._hook = weakref.ref(hook)
        self.skips: Iterator[object] | None = None if self.every is None else _skips(self.every)
        # Whether `every` is all that counts, so that `skips` may be asked in the place of `admit`.
        self.counts_every_alone: bool = self.every is not None and self.times is None and self.reentrant
        # `next` of an `itertools.count` is atomic, with the GIL and without it.
        self._runs = count(1)

    def admit(self) -> Entry | bool:
        """Count this call, and return whether the hook runs in it.

        For a hook that is not reentrant, return its entry, whose `leave` ends the run.
        """
        # Whether it runs now in this context, or in the context that this one was copied from.
        if not self.reentrant and any(one._alive and one._guard is self for one in _running.get()):
            return False
        if self.skips is not None and next(self.skips):
            return False
        if self.times is not None and not self._is_due(next(self._runs), self.times):
            return False
        return self.reentrant or Entry(self)

    def _is_due(self, number: int, times: int) -> bool:
        """Whether run `number` is within the limit; the last run removes the hook."""
        if number >= times:  # not only the last: an interrupt may have stopped that one before it removed the hook
            hook = self._hook()
            if hook is not None:
                hook.remove()
        return number <= times


def guard_for(conditions: Conditions, hook: Handle) -> Guard | None:
    """Return the guard of a hook; None if whether it runs does not depend on its other runs."""
    counts = (conditions.times, conditions.every, conditions.reentrant)
    return None if counts == (None, None, True) else Guard(conditions, hook)
