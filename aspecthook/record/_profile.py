"""The profile: how often each hook of each mount point runs, and how long.

While it lasts, a timer stands in the place of each hook's function; the chains are compiled anew for it, and once more
when it is over. So a program that is not measured does nothing for it.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, NamedTuple, Self, final

from aspecthook._core.law.hook import Hook
from aspecthook._core.law.kinds import Kind
from aspecthook._core.mount import members, unloading
from aspecthook._core.mount.lock import under_lock
from aspecthook._core.mount.members import Members
from aspecthook._core.mount.point import MountPoint
from aspecthook._errors import HookOptionError
from aspecthook._values import columns, shown_time

from ._driving import DRIVES
from ._recorder import CLOCK

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


class Cost(NamedTuple):
    """What one hook of one mount point has cost: how often it ran, and for how many seconds.

    The time is that in which the hook itself ran: an around hook without what is inside it, a coroutine without the
    time in which it waited.

    Example:
        >>> cost = Cost("shop:price", "pre", "clamp", calls=4, time=0.002)
        >>> cost.time / cost.calls
        0.0005
    """

    mount: str
    kind: Kind
    hook: str
    calls: int
    time: float


@final
class _Cells(threading.local):
    """What one thread has measured: for each hook the number of calls and the time. No other thread writes there."""

    def __init__(self, all_cells: list[dict[int, list[float]]]) -> None:
        self.costs: dict[int, list[float]] = {}
        all_cells.append(self.costs)


@final
class Costs:
    """What hooks cost, see `profile`; ``print(costs)`` is a table, the most expensive hook first.

    Example:
        >>> import shlex
        >>> from aspecthook import weave
        >>> with weave(shlex.quote, pre=lambda: None), profile() as costs:
        ...     word = shlex.quote("my file")
        >>> [(cost.mount, cost.kind) for cost in costs]
        [('shlex:quote', 'pre')]
    """

    def __init__(self) -> None:
        self._all_cells: list[dict[int, list[float]]] = []
        self._here = _Cells(self._all_cells)
        self._names: list[tuple[str, Kind, str]] = []
        self._undo: list[tuple[Members, Hook, str, object, object]] = []

    @under_lock
    def __enter__(self) -> Self:
        if members.observers:
            raise HookOptionError("a profile is being made already; end that one first")
        members.observers.append(self._measure)
        try:
            for mount in _mounts():
                for hook in mount.members:
                    self._measure(mount, hook)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def __iter__(self) -> Iterator[Cost]:
        rows: list[Cost] = []
        for number, name in enumerate(self._names):
            cells = [costs.get(number, (0, 0.0)) for costs in self._all_cells.copy()]
            rows.append(Cost(*name, round(sum(cell[0] for cell in cells)), sum(cell[1] for cell in cells)))
        return iter(sorted([row for row in rows if row.calls], key=lambda row: -row.time))

    def __str__(self) -> str:
        heads = ("mount point", "kind", "hook", "calls", "time", "a call")
        rows = [(*row[:3], str(row.calls), shown_time(row.time), shown_time(row.time / row.calls)) for row in self]
        return "\n".join(columns([heads, *rows], left=3)) if rows else "no hook has run"

    @under_lock
    def _end(self) -> None:
        if self._measure in members.observers:
            members.observers.remove(self._measure)
        while self._undo:
            mount, hook, field, before, timer = self._undo[-1]
            if getattr(hook, field) is timer:
                mount._change(partial(setattr, hook, field, before))
            self._undo.pop()

    @under_lock
    def _measure(self, mount: Members, hook: Hook) -> None:
        number = len(self._names)
        self._names.append((mount.name, hook.kind, hook.name))
        field = "function" if hook.ref is None else "ref" if hook.inner is None else "inner"
        before: Any = getattr(hook, field)
        style = mount.site().signature.style

        def timer_of(function: Callable[..., Any]) -> Callable[..., Any]:
            return _timed(function, self._here, number, hook, style)

        timer: Any = _held(before, timer_of) if field == "ref" else timer_of(before)
        self._undo.append((mount, hook, field, before, timer))
        mount._change(partial(setattr, hook, field, timer))


def profile() -> Costs:
    """Measure each hook of each mount point while a ``with`` block runs, in all threads.

    Raises:
        HookOptionError: Another profile is being made.

    Example:
        >>> import shlex
        >>> from aspecthook import weave
        >>> with weave(shlex.quote, pre=lambda: None, post=lambda result: None), profile() as costs:
        ...     words = [shlex.quote(word) for word in ("a", "b c")]
        >>> sorted((cost.mount, cost.kind, cost.calls) for cost in costs)
        [('shlex:quote', 'post', 2), ('shlex:quote', 'pre', 2)]
    """
    return Costs()


def _mounts() -> list[MountPoint]:
    """Return all mount points: those that the collector knows, and those that `gc.freeze` has hidden from it."""
    found: list[object] = [one for one in gc.get_objects() if issubclass(type(one), MountPoint)]
    for watched in list(unloading._watched.values()):
        found += watched.mounts()
    return [mount for mount in {id(one): one for one in found}.values() if isinstance(mount, MountPoint)]


@final
class Timer:
    """Measures one run of a hook: the times between `enter` and `leave`."""

    __slots__ = ("_begun", "_cell", "running")

    def __init__(self, cells: _Cells, number: int) -> None:
        cell = cells.costs.get(number)
        if cell is None:
            cell = cells.costs[number] = [0, 0.0]
        cell[0] += 1
        self._cell = cell
        self._begun = 0.0
        self.running = False

    def enter(self) -> None:
        """Begin to measure."""
        self.running = True
        self._begun = CLOCK[0]()

    def leave(self) -> None:
        """Stop measuring."""
        self.running = False
        self._cell[1] += CLOCK[0]() - self._begun


@final
class _Pause:
    """Stops a timer meanwhile: what runs inside an around hook is not the hook's."""

    __slots__ = ("_ran", "_timer")

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._ran = False

    def enter(self) -> None:
        """Stop the timer, unless the hook has ended and has left the call to who called it."""
        self._ran = self._timer.running
        if self._ran:
            self._timer.leave()

    def leave(self) -> None:
        """Go on."""
        if self._ran:
            self._timer.enter()


def _timed(function: Callable[..., Any], cells: _Cells, number: int, hook: Hook, style: str) -> Callable[..., Any]:
    """Return a function that runs a hook and measures it."""
    place = next((place for place, (how, what) in enumerate(hook.asks) if what == "proceed" and not how), None)
    name = next((how.removeprefix("=") for how, what in hook.asks if what == "proceed" and how), None)
    drive = DRIVES.get(hook.style)

    def timed(*args: Any, **kwargs: Any) -> Any:
        timer = Timer(cells, number)
        if place is not None:
            args = (*args[:place], _inside(args[place], timer, style), *args[place + 1 :])
        elif name is not None:
            kwargs[name] = _inside(kwargs[name], timer, style)
        timer.enter()
        try:
            answer = function(*args, **kwargs)
        finally:
            timer.leave()
        return answer if drive is None else drive(timer, answer)

    return update_wrapper(timed, function)


def _inside(proceed: Callable[..., Any], timer: Timer, style: str) -> Callable[..., Any]:
    """Return a `proceed` during which the around hook is not measured."""
    pause = _Pause(timer)
    drive = DRIVES.get(style)

    def proceeding(*args: Any, **kwargs: Any) -> Any:
        if drive is not None:  # a coroutine or a stream, which runs later
            return drive(pause, proceed(*args, **kwargs))
        pause.enter()
        try:
            return proceed(*args, **kwargs)
        finally:
            pause.leave()

    return proceeding


def _held(ref: Callable[[], Any], timer: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[[], Any]:
    """Return what looks up a hook that is held weakly, and measures it."""

    def held() -> Any:
        function = ref()
        return None if function is None else timer(function)

    return held
