"""The profile of a run: a stack of the calls under way, and the time of each stage and each hook on one.

Measuring takes time too, which counts as own time of the surrounding call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import astuple, dataclass
from threading import get_ident
from time import perf_counter_ns
from typing import Any, NamedTuple, final

from aspecthook._errors import printable
from aspecthook.training.logging._numbers import duration_text

WORDS = {"pre": "before", "around": "around", "exception": "on failure", "post": "after", "always": "always"}


@final
@dataclass(slots=True, eq=False)
class Part:
    """A stage, or one hook on a stage, and the time it has taken so far, in nanoseconds."""

    stage: str
    hook: str = ""
    kind: str = ""
    where: str = ""
    calls: int = 0
    own: int = 0
    total: int = 0


class Line(NamedTuple):
    """A line of the profile; times in seconds."""

    level: int
    stage: str
    hook: str
    kind: str
    calls: int
    own: float
    total: float
    mean: float
    share: float
    where: str

    @property
    def word(self) -> str:
        """When the hook is called."""
        return WORDS.get(self.kind, "")

    @property
    def label(self) -> str:
        """The name of the line in a table."""
        return f"{self.word} {self.hook}" if self.hook else self.stage


@final
@dataclass(slots=True, eq=False)
class Frame:
    """A call under way."""

    part: Part
    is_body: bool  # the stage alone, inside all its hooks: its time is its own, even within an around hook
    begun: int = 0
    inner: int = 0  # nanoseconds of the measured calls directly in it


@final
class Profile:
    """The times measured so far."""

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self.parts: dict[tuple[str, str, str], Part] = {}
        self.parents: dict[str, str] = {}  # the stage that each stage is in
        self.unmeasured: list[str] = []
        self.clock = clock
        self._frames: list[Frame] = []
        self._thread = 0

    def part(self, stage: str, hook: str = "", kind: str = "", where: str = "") -> Part:
        """Return the part of this name, which is made when it is first asked for."""
        key = (stage, kind, hook)
        if key not in self.parts:
            self.parts[key] = Part(stage, hook, kind, where)
        return self.parts[key]

    # Measuring

    def begin(self) -> None:
        """Measure this thread from now on."""
        self._thread = get_ident()
        self._frames.clear()

    @property
    def stage(self) -> str:
        """The stage under way in this thread, or ``""``."""
        return self._frames[-1].part.stage if self._frames and get_ident() == self._thread else ""

    def enter(self, part: Part, *, is_body: bool = False) -> Frame | None:
        """Begin a call. Return what `leave` ends it with, None in another thread."""
        if get_ident() != self._thread:
            return None
        if not part.hook and part.stage not in self.parents and self._frames:
            self._nest(part.stage, self._frames[-1].part.stage)
        frame = Frame(part, is_body)
        self._frames.append(frame)
        frame.begun = self.clock()
        return frame

    def _nest(self, stage: str, outer: str) -> None:
        """Record that a stage is within another one, unless the other is within it."""
        above: str | None = outer
        while above is not None and above != stage:
            above = self.parents.get(above)
        if above is None:
            self.parents[stage] = outer

    def leave(self, frame: Frame | None) -> None:
        """End a call, and all calls in it that were not ended."""
        now = self.clock()
        if frame in self._frames and get_ident() == self._thread:
            while self._end(now) is not frame:
                pass

    def leave_part(self, part: Part) -> None:
        """End the innermost call of a stage or a hook."""
        calls = [frame for frame in self._frames if frame.part is part and not frame.is_body]
        if calls:
            self.leave(calls[-1])

    def end(self) -> None:
        """End all calls under way."""
        now = self.clock()
        while self._frames:
            self._end(now)

    def _end(self, now: int) -> Frame:
        frame = self._frames.pop()
        part, took = frame.part, now - frame.begun
        part.own += took - frame.inner
        if not frame.is_body:
            part.calls += 1
            if not any(outer.part is part and not outer.is_body for outer in self._frames):
                part.total += took
        if self._frames:
            self._frames[-1].inner += took
        return frame

    def settled(self) -> list[Part]:
        """Return the parts as if all calls under way ended now, without counting these calls."""
        ahead = deepcopy(self)
        for frame in ahead._frames:
            frame.part.calls -= not frame.is_body
        ahead.end()
        return list(ahead.parts.values())

    # Results

    def lines(self) -> list[Line]:
        """Return a line for each part that was called: stages within each other, hooks in the order they ran."""
        parts = [part for part in self.settled() if part.calls or part.total]
        whole = max((part.total for part in parts), default=0)
        roots = dict.fromkeys(part.stage for part in parts if part.stage not in self.parents)
        return [line for stage in roots for line in self._lines_of(stage, parts, 0, whole)]

    @property
    def seconds(self) -> float:
        """The seconds that were measured."""
        return max((part.total for part in self.settled()), default=0) / 1e9

    @property
    def iterations(self) -> int:
        """The number of training iterations that were measured."""
        return self.parts[key].calls if (key := ("train_iter", "", "")) in self.parts else 0

    def _lines_of(self, stage: str, parts: list[Part], level: int, whole: int) -> Iterable[Line]:
        for part in sorted(
            (part for part in parts if part.stage == stage), key=lambda part: ["", *WORDS].index(part.kind)
        ):
            yield _line(part, level + bool(part.hook), whole)
        for inner, outer in self.parents.items():
            if outer == stage:
                yield from self._lines_of(inner, parts, level + 1, whole)

    def summary(self) -> str:
        """Return how much was measured, in words."""
        return f"{self.iterations:,} iterations in {duration_text(self.seconds)}"

    def table(self) -> str:
        """Return the profile as text."""
        rows = [("stage, and hooks on it", "calls", "own", "share", "total", "mean")]
        for line in self.lines():
            times = (duration_text(line.own), f"{line.share:.1%}", duration_text(line.total), duration_text(line.mean))
            rows.append(("  " * line.level + line.label, f"{line.calls:,}", *times))
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        text = "\n".join(
            row[0].ljust(widths[0])
            + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
            for row in rows
        )
        missing = f"\nnot measured: {'; '.join(self.unmeasured)}" if self.unmeasured else ""
        return f"profile of {self.summary()}\n{text}{missing}"

    def as_json(self) -> dict[str, Any]:
        """Return the profile as plain values; times in seconds."""
        rows = [{name: value for name, value in line._asdict().items() if name != "level"} for line in self.lines()]
        return {
            "iterations": self.iterations,
            "seconds": self.seconds,
            "stages": [{**row, "in": self.parents.get(row["stage"])} for row in rows if not row["hook"]],
            "hooks": [row for row in rows if row["hook"]],
            "unmeasured": self.unmeasured,
        }

    # The state for a checkpoint

    def state_dict(self) -> dict[str, Any]:
        """Return the times so far, those of calls under way included."""
        return {"parts": [list(astuple(part)) for part in self.settled()], "parents": dict(self.parents)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the times."""
        parts, parents = [_part_of(row) for row in state["parts"]], dict(state["parents"])
        for stage in parents:  # a checkpoint may be anybody's, and a stage that is within itself would never be left
            above = [stage]
            while above[-1] in parents:
                above.append(printable(parents[above[-1]]))
                if above[-1] in above[:-1]:
                    raise ValueError(f"the stage {stage!r} is within itself")
        self.parents = parents
        for part in self.parts.values():  # hooks that measure already hold them
            part.calls = part.own = part.total = 0
        for loaded in parts:
            part = self.part(loaded.stage, loaded.hook, loaded.kind, loaded.where)
            part.calls, part.own, part.total = loaded.calls, loaded.own, loaded.total


def _part_of(row: Sequence[Any]) -> Part:
    """Return the part of a row in a state."""
    stage, hook, kind, where = map(printable, row[:4])
    if kind not in ("", *WORDS):
        raise ValueError(f"{kind!r} is no kind of hook")
    return Part(stage, hook, kind, where, *map(int, row[4:]))


def _line(part: Part, level: int, whole: int) -> Line:
    own, total, calls = part.own / 1e9, part.total / 1e9, max(part.calls, 1)
    share = part.own / whole if whole else 0.0
    return Line(level, part.stage, part.hook, part.kind, calls, own, total, total / calls, share, part.where)
