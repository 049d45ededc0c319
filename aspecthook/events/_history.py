"""The past calls of an event, kept for subscribers that come later.

The invariant: whoever subscribes is told of every call exactly once, in their order. For as long as a subscriber is
being told of the past, that is where it hears of every call whose own chain it is not in; from then on, of such a call
that is under way, from that call. Calls are noted, and subscribers put in, under the lock; hooks run outside of it. A
signal handler or a finalizer may come between any two steps, and call the event or subscribe to it.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast, final

from aspecthook._core.compile.copies import Attribute
from aspecthook._core.law.answers import settled
from aspecthook._core.law.call import Call
from aspecthook._core.law.law_sync import ask
from aspecthook._core.law.tally import together
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import plural

if TYPE_CHECKING:
    from aspecthook._core.law.asks import Kind
    from aspecthook._core.law.call import Record, Site
    from aspecthook._core.law.hook import Hook
    from aspecthook._core.law.signature import Emission

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class _Noted:
    """One call that is kept."""

    __slots__ = ("told", "values")

    # No __init__: one is made in each call.
    values: tuple[object, ...]
    # While it is being noted: those who have come in the middle of that, and know of it already.
    told: list[Hook] | None


@final
class _Telling:
    """One subscriber that is being told of the past, and what it has yet to be told."""

    __slots__ = ("hook", "missed")

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        # A short history may forget what is in here.
        self.missed: list[_Noted] = []


@final
class History(Attribute):
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

    __slots__ = ("__weakref__", "_calls", "_row", "_site", "_tellings")

    def __init__(self, most: int | None, site: Callable[[], Site], row: Callable[[], tuple[Hook, ...]]) -> None:
        self._calls: deque[_Noted] = deque(maxlen=most)
        self._tellings: tuple[_Telling, ...] = ()
        self._site = site
        self._row = row

    def found_at(self) -> tuple[FunctionType | None, str]:
        """Return the function whose attribute it is, or None, and the name of the attribute."""
        return cast("FunctionType | None", self._site().function()), "history"

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self._site().signature.names
        return iter([dict(zip(names, noted.values, strict=True)) for noted in self._noted()])

    def __repr__(self) -> str:
        return f"<history of {self._site().label}, {plural(len(self), 'call')}>"

    @under_lock
    def clear(self) -> None:
        """Forget all past calls."""
        self._calls.clear()

    @under_lock
    def _noted(self) -> list[_Noted]:
        # A list: as a tuple is made, the garbage collector may run in the middle, and finalizers call the event.
        return list(self._calls)

    @under_lock
    def record(self, values: tuple[object, ...], row: tuple[Hook, ...]) -> tuple[Hook, ...]:
        """Keep a call, and give the subscribers that have come since it began with those in `row`."""
        noted = _Noted()
        told: list[Hook] = []
        noted.values, noted.told = values, told
        self._calls.append(noted)
        if self._tellings:
            self._leave(noted, row)
        # In this order: whoever comes between two of these steps is found by the next.
        now = self._row()
        noted.told = None
        return () if now is row or not now else self._late(now, row, told)

    def _leave(self, noted: _Noted, row: tuple[Hook, ...]) -> None:
        for telling in self._tellings:
            if telling.hook not in row:
                telling.missed.append(noted)

    def _late(self, now: tuple[Hook, ...], row: tuple[Hook, ...], told: list[Hook]) -> tuple[Hook, ...]:
        hears = [*row, *told, *[telling.hook for telling in self._tellings]]
        return tuple([hook for hook in now if hook not in hears])

    def tell(self, hook: Hook, insert: Callable[[], None]) -> None:
        """Tell a new subscriber of the past, and put it in as soon as it knows all of it.

        Raises:
            Exception: What the subscriber raises; it is then not put in.
        """
        telling, slips = _Telling(hook), list[Exception]()
        try:
            self._tell(telling, insert, slips)
            if slips:
                raise together(self._site(), slips)
        except BaseException:
            hook.remove()
            raise
        finally:
            self._stop(telling)
            del slips  # else they and this frame, which is in their tracebacks, keep each other alive

    def _tell(self, telling: _Telling, insert: Callable[[], None], slips: list[Exception]) -> None:
        known: dict[int, _Noted] = {}
        try:
            waiting: list[_Noted] | None = self._begin(telling)
            while waiting is not None:
                self._tell_all(telling.hook, waiting, known, slips)
                waiting = self._continue(telling, insert, slips)
            # What a signal handler has called while the hook was added.
            self._tell_all(telling.hook, telling.missed, known, slips)
        finally:
            del slips  # as in `tell`

    @under_lock
    def _begin(self, telling: _Telling) -> list[_Noted]:
        """Return the past calls; calls from now on are collected in `telling.missed`."""
        self._tellings = (*self._tellings, telling)
        return list(self._calls)

    @under_lock
    def _continue(self, telling: _Telling, insert: Callable[[], None], slips: list[Exception]) -> list[_Noted] | None:
        """Return the calls that were missed meanwhile; without any, add the hook and return None."""
        waiting, telling.missed = telling.missed, []
        if waiting:
            return waiting
        if not slips:
            insert()
        self._stop(telling)
        return None

    def _tell_all(self, hook: Hook, waiting: list[_Noted], known: dict[int, _Noted], slips: list[Exception]) -> None:
        site = self._site()
        assert site.signature.emission is not None
        try:
            for noted in waiting:
                told = noted.told
                if id(noted) in known:
                    continue
                known[id(noted)] = noted
                if told is not None:
                    told.append(hook)
                try:
                    answer = ask(hook, Call(site, noted.values))
                    if answer is not None:
                        settled(site, "on", hook.function, answer)
                except Exception as slip:
                    if not site.signature.emission.group:
                        raise
                    slips.append(slip)
        finally:
            del slips  # as in `tell`

    @under_lock
    def _stop(self, telling: _Telling) -> None:
        self._tellings = tuple([one for one in self._tellings if one is not telling])


@final
class Recorder:
    """What the code of an event calls. Code objects are invisible to the garbage collector: it keeps nothing alive."""

    __slots__ = ("_history",)

    def __init__(self, history: History) -> None:
        self._history = weakref.ref(history)

    def __call__(self, values: tuple[object, ...], row: tuple[Hook, ...]) -> tuple[Hook, ...]:
        history = self._history()
        return () if history is None else history.record(values, row)


class EventPoint(MountPoint):
    """The mount point of an event, which may keep its calls for late subscribers."""

    __slots__ = ("history",)

    def __init__(self, function: FunctionType, name: str | None = None, emission: Emission | None = None) -> None:
        super().__init__(function, name, emission)
        self.history: History | None = None

    def keep(self, most: int | None) -> None:
        """Keep calls from now on: the last `most`, or all of them."""
        self.history = History(most, self._get_site, lambda: self._active().on)

    def replays(self, kind: Kind) -> bool:
        """Whether hooks of this kind are told of past calls before they are added."""
        return kind == "on" and self.history is not None

    def replay(self, hook: Hook, insert: Callable[[], None]) -> None:
        """Replay past calls to a subscriber (without the lock), then add it (under the lock)."""
        self.check_order(hook)  # one that cannot be added is told nothing
        assert self.history is not None
        self.history.tell(hook, insert)

    def _record(self) -> Record | None:
        return None if self.history is None else Recorder(self.history)
