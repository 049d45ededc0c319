"""How long calls take."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import perf_counter
from typing import Any, final

from aspecthook._core.law.call import Call, Site
from aspecthook._core.law.variables import Variable, variable
from aspecthook._errors import HookLookupError, nearest
from aspecthook.record._functions import Row, Table, Totals
from aspecthook.weave._steps import End

from ._aspect import AnyHook, Aspect
from ._turns import TurnContext, observed

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks


@final
class Timings(Aspect):
    """The aspect that `timed` returns. Its `table` has a row for each mount point; ``print`` shows the table.

    Example:
        >>> from aspecthook import weave
        >>> from aspecthook.aspects import timed
        >>> import shlex
        >>> timings = timed()
        >>> with weave("shlex:quote", aspect=timings):
        ...     line = shlex.join(["cat", "my file"])
        >>> timings["shlex:quote"].calls, [row.name for row in timings.table()]
        (2, ['shlex:quote'])
    """

    def __init__(self, make: Callable[[Site], AnyHook], totals: Totals, lock: Lock) -> None:
        super().__init__("timed", make)
        self._totals, self._lock = totals, lock

    def table(self) -> Table:
        """Return the calls, errors and times of each function, as `Tape.functions` does."""
        with self._lock:
            return self._totals.table()

    def __getitem__(self, label: str) -> Row:
        rows = {row.name: row for row in self.table()}
        if label not in rows:
            raise HookLookupError(f"no calls of {label!r} were timed{nearest(label, list(rows))}")
        return rows[label]

    def __str__(self) -> str:
        return str(self.table())


def timed(clock: Callable[[], float] = perf_counter) -> Timings:
    """Measure how long the calls of each function take.

    The time of a coroutine, its own time too, includes waiting. The time of a generator includes only its own steps,
    not those of the code that uses its items.

    Args:
        clock: A function that returns the time, in seconds.

    Example:
        >>> import shlex
        >>> from aspecthook import weave
        >>> timings = timed()
        >>> with weave("shlex:quote", aspect=timings):
        ...     line = shlex.join(["cat", "my file"])
        >>> timings["shlex:quote"].calls
        2
    """
    totals, lock = Totals(), Lock()
    running: Variable[_Stopwatch | None] = variable("aspecthook_timed", None)

    def make(site: Site) -> AnyHook:
        labels = frozenset((site.label,))

        def begin(_: Call) -> tuple[TurnContext, End]:
            watch = _Stopwatch(labels, clock, running)

            def end(_: Any, exc: BaseException | None) -> None:
                own = max(0.0, watch.spent - watch.inside)  # tasks that it started may have run side by side
                with lock:
                    totals[site.label].add(watch.spent, own, failed=exc is not None, recursive=watch.recursive)

            return lambda: watch, end

        return observed(site, begin)

    return Timings(make, totals, lock)


@final
class _Stopwatch:
    """How long the turns of a call took, and the calls that were measured inside them."""

    __slots__ = ("_around", "_clock", "_labels", "_running", "_start", "inside", "recursive", "spent")

    def __init__(self, own: frozenset[str], clock: Callable[[], float], running: Variable[_Stopwatch | None]) -> None:
        self._clock, self._running = clock, running
        self.spent = self.inside = 0.0
        around = running.get()
        self.recursive = around is not None and own <= around._labels
        # Its label and those of the calls around it.
        self._labels: frozenset[str] = own if around is None else around._labels | own

    def __enter__(self) -> None:
        self._around = self._running.get()
        self._running.set(self)
        self._start = self._clock()

    def __exit__(self, *_: object) -> None:
        length = self._clock() - self._start
        self.spent += length
        # A task that was started inside keeps this one, which must not keep those around it.
        around, self._around = self._around, None
        self._running.set(around)
        if around is not None:
            around.inside += length
