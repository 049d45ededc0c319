"""How long calls take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Lock
from time import perf_counter
from typing import final

from aspecthook._core.law.call import Site
from aspecthook._errors import HookLookupError, nearest, plural
from aspecthook._values import columns, shown_time

from ._aspect import AnyHook, Aspect, number
from ._logging import AnyLogger, is_enabled, level_number, logger_for, write
from ._turns import Stopwatch, observed

__tracebackhide__ = True  # pytest leaves our frames out of tracebacks

_FINENESS = 16  # buckets for each power of two: the bounds of one are 4.4 % apart


@final
class Timing:
    """How long the calls of one function took, as a histogram of 16 buckets for each power of two.

    Example:
        >>> timing = Timing()
        >>> for seconds in 0.1, 0.2, 0.4:
        ...     timing.add(seconds, failed=False)
        >>> timing.count, timing.errors, round(timing.total, 3), timing.slowest
        (3, 0, 0.7, 0.4)
        >>> 0.19 < timing.quantile(0.5) < 0.21
        True
    """

    def __init__(self) -> None:
        self.count: int = 0
        self.errors: int = 0
        self.total: float = 0.0
        self.slowest: float = 0.0
        self._buckets: Counter[int] = Counter()
        self._lock = Lock()

    def add(self, seconds: float, *, failed: bool) -> None:
        """Add one call."""
        with self._lock:
            self.count += 1
            self.errors += failed
            self.total += seconds
            self.slowest = max(self.slowest, seconds)
            self._buckets[math.floor(math.log2(max(seconds, 1e-9)) * _FINENESS)] += 1

    @property
    def mean(self) -> float:
        """The mean, in seconds; 0 if there was no call."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """Return how long that share of the calls took at most, in seconds, exact to 2.2 %; 0 if there was no call."""
        with self._lock:
            left = share * self.count
            for bucket, calls in sorted(self._buckets.items()):
                left -= calls
                if left <= 0:
                    return min(math.exp2((bucket + 0.5) / _FINENESS), self.slowest)
            return self.slowest

    def __repr__(self) -> str:
        return (
            f"<{plural(self.count, 'call')}, {self.errors} failed, {shown_time(self.total)} in all, p50 "
            f"{shown_time(self.quantile(0.5))}, p99 {shown_time(self.quantile(0.99))}>"
        )


@final
class Timings(Aspect):
    """The aspect that `timed` returns: a `Timing` for each mount point, by its label; ``print`` shows a table.

    Example:
        >>> from aspecthook import weave
        >>> from aspecthook.aspects import timed
        >>> import shlex
        >>> timings = timed()
        >>> with weave("shlex:quote", aspect=timings):
        ...     line = shlex.join(["cat", "my file"])
        >>> timings["shlex:quote"].count, list(timings)
        (2, ['shlex:quote'])
    """

    def __init__(self, make: Callable[[Site], AnyHook], rows: dict[str, Timing], **settings: object) -> None:
        super().__init__("timed", make, **settings)
        self._rows = rows

    def __getitem__(self, label: str) -> Timing:
        if label not in self._rows:
            raise HookLookupError(f"no calls of {label!r} were timed{nearest(label, list(self._rows))}")
        return self._rows[label]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        heads = ("function", "calls", "errors", "total", "mean", "p50", "p99", "slowest")
        rows: list[tuple[str, ...]] = [heads]
        for label, one in sorted(self._rows.items(), key=lambda row: -row[1].total):
            times = (one.total, one.mean, one.quantile(0.5), one.quantile(0.99), one.slowest)
            rows.append((label, str(one.count), str(one.errors), *map(shown_time, times)))
        return "\n".join(columns(rows))


def timed(
    slow: float | None = None,
    *,
    level: str | int = "WARNING",
    logger: AnyLogger = None,
    clock: Callable[[], float] = perf_counter,
) -> Timings:
    """Measure how long calls take, in a histogram for each function; log the slow ones.

    The time of a coroutine is from begin to end, waiting included; that of a generator is what its own steps take, not
    what is done with its items.

    Args:
        slow: A call that takes more seconds is logged, with the caller's own file and line.
        level: The level of these entries.
        logger: As for `log`.
        clock: What tells the time, in seconds.

    Raises:
        HookOptionError: A setting has a value that it cannot have.

    Example:
        >>> import shlex
        >>> from aspecthook import weave
        >>> timings = timed(slow=1.0)
        >>> with weave("shlex:quote", aspect=timings):
        ...     line = shlex.join(["cat", "my file"])
        >>> timings["shlex:quote"].count
        2
    """
    number_of = level_number("timed", "level", level)
    slow = None if slow is None else number("timed", "slow", slow)
    rows: dict[str, Timing] = {}

    def make(site: Site) -> AnyHook:
        timing = rows.setdefault(site.label, Timing())
        to = logger_for("timed", logger, site)

        def end(seconds: float, exc: BaseException | None) -> None:
            timing.add(seconds, failed=exc is not None)
            if slow is not None and seconds > slow and is_enabled(to, number_of):
                fields = {"function": site.label, "duration": seconds, "slow": slow}
                write(to, number_of, site, f"{site.label} has taken {shown_time(seconds)}", "slow call", fields)

        return observed(site, lambda _: Stopwatch(clock, end))

    return Timings(make, rows, slow=slow)
