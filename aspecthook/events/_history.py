"""The past calls of an event, kept for later subscribers, and their replay.

The invariant: a subscriber runs exactly once for every call, in the order of the calls. During its replay it gets those
calls from the replay whose own chain it is not in. After that, a call that began before it was added and is recorded
later runs it itself. Calls are recorded, and subscribers added, under the lock; hooks run without it. A signal handler
or a finalizer may come between any two steps, and call the event or subscribe to it.
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
    from aspecthook._core.law.call import Record, Site
    from aspecthook._core.law.hook import Hook
    from aspecthook._core.law.kinds import Kind
    from aspecthook._core.law.signature import Emission

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class _PastCall:
    """One call that is kept."""

    __slots__ = ("seen_by", "values")

    # No __init__: one is made in each call.
    values: tuple[object, ...]
    # While it is being recorded: the subscribers whose replay has already run them for it.
    seen_by: list[Hook] | None


@final
class _Replay:
    """The replay to one subscriber."""

    __slots__ = ("done", "failures", "hook", "missed")

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        # The calls that were recorded since it began. Kept here too, since a short history may drop them.
        self.missed: list[_PastCall] = []
        self.done: dict[int, _PastCall] = {}
        self.failures: list[Exception] = []


@final
class History(Attribute):
    """The past calls of an event with ``replay``: iterate them, take their `len`, ``clear()`` them.

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

    __slots__ = ("__weakref__", "_calls", "_replays", "_site", "_subscribers")

    def __init__(self, most: int | None, site: Callable[[], Site], subscribers: Callable[[], tuple[Hook, ...]]) -> None:
        self._calls: deque[_PastCall] = deque(maxlen=most)
        self._replays: tuple[_Replay, ...] = ()
        self._site = site
        self._subscribers = subscribers

    def found_at(self) -> tuple[FunctionType | None, str]:
        """Return the function whose attribute it is, or None, and the name of the attribute."""
        return cast("FunctionType | None", self._site().function()), "history"

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self._site().signature.names
        return iter([dict(zip(names, call.values, strict=True)) for call in self._recorded()])

    def __repr__(self) -> str:
        return f"<history of {self._site().label}, {plural(len(self), 'call')}>"

    @under_lock
    def clear(self) -> None:
        """Forget all past calls."""
        self._calls.clear()

    @under_lock
    def _recorded(self) -> list[_PastCall]:
        # A list: while a tuple is made, the garbage collector may run, and finalizers may call the event.
        return list(self._calls)

    @under_lock
    def record(self, values: tuple[object, ...], chain: tuple[Hook, ...]) -> tuple[Hook, ...]:
        """Keep a call that runs the subscribers in `chain`, and return those that have been added since it began."""
        call = _PastCall()
        seen_by: list[Hook] = []
        call.values, call.seen_by = values, seen_by
        self._calls.append(call)
        for replay in self._replays:
            if replay.hook not in chain:
                replay.missed.append(call)
        # In this order, so that a subscriber which is added between two of these steps is found by the next.
        now = self._subscribers()
        call.seen_by = None
        if now is chain or not now:
            return ()
        run = [*chain, *seen_by, *[replay.hook for replay in self._replays]]
        return tuple([hook for hook in now if hook not in run])

    def replay(self, hook: Hook, insert: Callable[[], object]) -> None:
        """Run a new subscriber for all past calls, and add it as soon as none is left.

        Raises:
            Exception: What the subscriber raises; it is then not added.
        """
        replay = _Replay(hook)
        try:
            self._run(replay, insert)
            if replay.failures:
                raise together(self._site(), replay.failures)
        except BaseException:
            hook.remove()
            raise
        finally:
            self._end(replay)
            replay.failures = []  # else they and the frames in their tracebacks, which have the replay, form a cycle

    def _run(self, replay: _Replay, insert: Callable[[], object]) -> None:
        waiting: list[_PastCall] | None = self._begin(replay)
        while waiting is not None:
            self._call(replay, waiting)
            waiting = self._continue(replay, insert)
        # The calls of a signal handler while the hook was added.
        self._call(replay, replay.missed)

    @under_lock
    def _begin(self, replay: _Replay) -> list[_PastCall]:
        """Return the past calls; calls from now on are collected in `replay.missed`."""
        self._replays = (*self._replays, replay)
        return list(self._calls)

    @under_lock
    def _continue(self, replay: _Replay, insert: Callable[[], object]) -> list[_PastCall] | None:
        """Return the calls that were missed meanwhile; without any, add the hook and return None."""
        waiting, replay.missed = replay.missed, []
        if waiting:
            return waiting
        if not replay.failures:
            insert()
        self._end(replay)
        return None

    def _call(self, replay: _Replay, waiting: list[_PastCall]) -> None:
        site, hook = self._site(), replay.hook
        assert site.signature.emission is not None
        for call in waiting:
            seen_by = call.seen_by
            if id(call) in replay.done:
                continue
            replay.done[id(call)] = call
            if seen_by is not None:
                seen_by.append(hook)
            try:
                answer = ask(hook, Call(site, call.values))
                if answer is not None:
                    settled(site, "on", hook.function, answer)
            except Exception as failure:
                if not site.signature.emission.group:
                    raise
                replay.failures.append(failure)

    @under_lock
    def _end(self, replay: _Replay) -> None:
        self._replays = tuple([one for one in self._replays if one is not replay])


@final
class Recorder:
    """What the code of an event calls. It keeps nothing alive, as the garbage collector does not see code objects."""

    __slots__ = ("_history",)

    def __init__(self, history: History) -> None:
        self._history = weakref.ref(history)

    def __call__(self, values: tuple[object, ...], chain: tuple[Hook, ...]) -> tuple[Hook, ...]:
        history = self._history()
        return () if history is None else history.record(values, chain)


class EventPoint(MountPoint):
    """The mount point of an event, which may keep its calls for late subscribers."""

    __slots__ = ("history",)

    def __init__(self, function: FunctionType, name: str | None = None, emission: Emission | None = None) -> None:
        super().__init__(function, name, emission)
        self.history: History | None = None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), "history"]

    def keep(self, most: int | None) -> None:
        """Keep calls from now on: the last `most`, or all of them."""
        self.history = History(most, self.site, lambda: self.chain().on)

    def replays(self, kind: Kind) -> bool:
        """Whether past calls are replayed to hooks of this kind before they are added."""
        return kind == "on" and self.history is not None

    def replay(self, hook: Hook, insert: Callable[[], object]) -> None:
        """Replay past calls to a subscriber (without the lock), then add it (under the lock)."""
        self.check_order(hook)  # nothing is replayed to a hook that cannot be added
        assert self.history is not None
        self.history.replay(hook, insert)

    def _record(self) -> Record | None:
        return None if self.history is None else Recorder(self.history)
