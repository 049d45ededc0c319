"""The past calls of an event, kept for subscribers that come later.

The invariant: whoever subscribes is told of every call exactly once, in their order; by the history if the call was
noted before it was in the chain, by the call itself if after. Both happen under the lock; hooks run outside of it.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, final

from ._call import Call
from ._changes import lock
from ._law import ask
from ._runtime import Tally, together

if TYPE_CHECKING:
    from ._call import Site
    from ._hook import Hook


@final
class History:
    """What an event with ``replay`` has been called with: iterate it, take its `len`, ``clear()`` it.

    Example:
        >>> from aspecthook import event
        >>> @event(replay=2)
        ... def rang(who): ...
        >>> rang("ann"), rang("bob"), rang("cleo")
        ([], [], [])
        >>> list(rang.history)
        [{'who': 'bob'}, {'who': 'cleo'}]
        >>> rang.on(print)
        bob
        cleo
        <built-in function print>
    """

    __slots__ = ("__weakref__", "_calls", "_pending", "_row", "_site")

    def __init__(self, most: int | None, site: Callable[[], Site], row: Callable[[], tuple[Hook, ...]]) -> None:
        self._calls: deque[tuple[object, ...]] = deque(maxlen=most)
        # What those have yet to be told who are being told of the past right now; a short history may forget it.
        self._pending: tuple[list[tuple[object, ...]], ...] = ()
        self._site = site
        self._row = row

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self._site().signature.names
        return iter([dict(zip(names, values, strict=True)) for values in tuple(self._calls)])

    def __repr__(self) -> str:
        return f"<history of {self._site().label}, {len(self)} calls>"

    def clear(self) -> None:
        """Forget all past calls."""
        with lock:
            self._calls.clear()

    def record(self, values: tuple[object, ...], row: tuple[Hook, ...]) -> tuple[Hook, ...]:
        """Keep a call, and give the subscribers that have come since it began with those in `row`."""
        with lock:
            self._calls.append(values)
            for missed in self._pending:
                missed.append(values)
            now = self._row()
            return () if now is row or not now else tuple([hook for hook in now if hook not in row])

    def tell(self, hook: Hook, insert: Callable[[], None]) -> None:
        """Tell a new subscriber of the past, and put it in as soon as it knows all of it.

        Raises:
            Exception: What the subscriber raises; it is then not put in.
        """
        site, slips = self._site(), list[Exception]()
        missed: list[tuple[object, ...]] = []
        with lock:
            waiting = tuple(self._calls)
            self._pending = (*self._pending, missed)
        try:
            while True:
                for values in waiting:
                    tally = Tally(site, values)
                    try:
                        tally.take(hook, ask(hook, Call(site, values)))
                    except Exception as slip:
                        tally.slip(slip)
                        slips.append(slip)
                with lock:
                    waiting = tuple(missed)
                    missed.clear()
                    if not waiting:
                        if not slips and not (hook.guard is not None and hook.guard.is_spent):
                            insert()
                        break
        finally:
            with lock:
                self._pending = tuple([one for one in self._pending if one is not missed])
        if slips:
            raise together(site, slips)


@final
class Recorder:
    """What the code of an event calls. Code objects are invisible to the garbage collector: it keeps nothing alive."""

    __slots__ = ("_history",)

    def __init__(self, history: History) -> None:
        self._history = weakref.ref(history)

    def __call__(self, values: tuple[object, ...], row: tuple[Hook, ...]) -> tuple[Hook, ...]:
        history = self._history()
        return () if history is None else history.record(values, row)
