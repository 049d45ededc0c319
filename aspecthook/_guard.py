"""The conditions of a hook that count: ``once``, ``times``, ``every``, ``reentrant=False``."""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ._hook import Hook


@final
class Run:
    """One run of a hook with ``reentrant=False``. It may end in another context than it began in."""

    __slots__ = ("_alive", "_guard")

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._alive = True
        _running.set((*(run for run in _running.get() if run._alive), self))

    def leave(self) -> None:
        """Note that the hook has run."""
        self._alive = False
        _running.set(tuple(run for run in _running.get() if run._alive))

    @staticmethod
    def is_under_way(guard: Guard) -> bool:
        """Say whether a run of this hook is under way in this context, or in the one that it was copied from."""
        return any(run._alive and run._guard is guard for run in _running.get())


_running: ContextVar[tuple[Run, ...]] = ContextVar("aspecthook_running", default=())


@final
class Guard:
    """Decides whether a hook with ``once``, ``times``, ``every`` or ``reentrant=False`` runs in this call."""

    __slots__ = ("__weakref__", "_hook", "_lock", "_ran", "_seen", "every", "reentrant", "times")

    def __init__(self, times: int | None, every: int | None, reentrant: bool, hook: Hook) -> None:
        self.times = times
        self.every = every
        self.reentrant = reentrant
        self._hook = weakref.ref(hook)
        self._seen = 0
        self._ran = 0
        self._lock = Lock()

    def admit(self) -> Run | bool:
        """Say whether the hook runs now, and count it; exact also when threads call at once.

        A hook that is not reentrant is given its run, which must be left.
        """
        if not self.reentrant and Run.is_under_way(self):
            return False
        if (self.times or self.every) and not self._count():
            return False
        return self.reentrant or Run(self)

    @property
    def is_spent(self) -> bool:
        """Say whether the hook has run as often as it may."""
        return self.times is not None and self._ran >= self.times

    def _count(self) -> bool:
        with self._lock:
            self._seen += 1
            if self.every and self._seen % self.every:
                return False
            if self.times and self._ran >= self.times:
                return False
            self._ran += 1
            last = self._ran == self.times
        hook = self._hook()
        if last and hook is not None:
            hook.remove()
        return True
