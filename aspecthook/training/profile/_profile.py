"""Where the time of a run goes: a stack of what is under way, and what each stage and each hook on one has taken.

Measuring takes time itself. What one measured call costs is measured as measuring begins, inside the call and around
it, and taken off wherever it was counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import get_ident
from time import perf_counter_ns
from typing import Any, NamedTuple, final

from aspecthook.training.logging._numbers import duration_text

WORDS = {"pre": "before", "around": "around", "exception": "on failure", "post": "after", "always": "always"}


class Cost(NamedTuple):
    """Nanoseconds that measuring adds to a call: inside, where the call itself counts them, and outside."""

    inside: float = 0.0
    outside: float = 0.0


@final
class Part:
    """A stage, or one hook on a stage, and what it has taken so far, in nanoseconds."""

    __slots__ = ("calls", "hook", "inner_hooks", "inner_stages", "kind", "own", "stage", "total", "where")

    def __init__(self, stage: str, hook: str = "", kind: str = "", where: str = "") -> None:
        self.stage = stage
        self.hook = hook
        self.kind = kind
        self.where = where
        self.calls = 0
        self.own = 0
        self.total = 0
        # How many measured calls there were in its calls, of hooks and of stages: directly, and in all.
        self.inner_hooks = [0, 0]
        self.inner_stages = [0, 0]

    def copy(self) -> Part:
        """Give another one of the same."""
        made = Part(self.stage, self.hook, self.kind, self.where)
        made.calls, made.own, made.total = self.calls, self.own, self.total
        made.inner_hooks, made.inner_stages = list(self.inner_hooks), list(self.inner_stages)
        return made


class Line(NamedTuple):
    """A line of the profile; times in seconds, without what measuring took."""

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
        """What it is called in a table."""
        return f"{self.word} {self.hook}" if self.hook else self.stage


@final
class Frame:
    """A call that is under way."""

    __slots__ = ("begun", "hooks", "inner", "is_body", "part", "stages")

    def __init__(self, part: Part, *, is_body: bool) -> None:
        self.part = part
        # The stage alone, inside of all hooks: its time is its own even where it is in an around hook.
        self.is_body = is_body
        self.begun = 0
        # Nanoseconds of the measured calls directly in it; and how many there were, directly and in all.
        self.inner = 0
        self.hooks = [0, 0]
        self.stages = [0, 0]

    def count_own(self, part: Part, took: int) -> None:
        """Note what a call took by itself."""
        part.own += took - self.inner
        part.inner_hooks[0] += self.hooks[0]
        part.inner_stages[0] += self.stages[0]

    def count_whole(self, part: Part, took: int) -> None:
        """Note a call of a part as a whole; not if it is in another one of the same."""
        part.total += took
        part.inner_hooks[1] += self.hooks[1]
        part.inner_stages[1] += self.stages[1]


def _tell(outer: Frame, frame: Frame, took: int) -> None:
    """Note in a call what was measured in it."""
    outer.inner += took
    counts = not frame.is_body
    is_hook = bool(frame.part.hook)
    outer.hooks[0] += counts and is_hook
    outer.stages[0] += counts and not is_hook
    outer.hooks[1] += frame.hooks[1] + (counts and is_hook)
    outer.stages[1] += frame.stages[1] + (counts and not is_hook)


@final
class Profile:
    """What was measured so far."""

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self.parts: dict[tuple[str, str, str], Part] = {}
        self.parents: dict[str, str] = {}
        self.unmeasured: list[str] = []
        self.of_hook = Cost()
        self.of_stage = Cost()
        self.clock = clock
        self._frames: list[Frame] = []
        self._thread = 0

    def part(self, stage: str, hook: str = "", kind: str = "", where: str = "") -> Part:
        """Give the part of this name, a new one if there is none."""
        key = (stage, kind, hook)
        if key not in self.parts:
            self.parts[key] = Part(stage, hook, kind, where)
        return self.parts[key]

    # Measuring

    def begin(self) -> None:
        """Measure in this thread from now on."""
        self._thread = get_ident()
        self._frames.clear()

    @property
    def stage(self) -> str:
        """The stage that is under way here, or ``""``."""
        return self._frames[-1].part.stage if self._frames and get_ident() == self._thread else ""

    def enter(self, part: Part, *, is_body: bool = False) -> Frame | None:
        """Begin a call; give what ends it, None in another thread."""
        if get_ident() != self._thread:
            return None
        if not part.hook and part.stage not in self.parents and self._frames:
            self._place(part.stage, self._frames[-1].part.stage)
        frame = Frame(part, is_body=is_body)
        self._frames.append(frame)
        frame.begun = self.clock()
        return frame

    def _place(self, stage: str, outer: str) -> None:
        """Note that a stage is in another one, unless that one is in it."""
        above: str | None = outer
        while above is not None and above != stage:
            above = self.parents.get(above)
        if above is None:
            self.parents[stage] = outer

    def leave(self, frame: Frame | None) -> None:
        """End a call, and whatever in it was not ended."""
        now = self.clock()
        if frame in self._frames and get_ident() == self._thread:
            while self._end(now) is not frame:
                pass

    def leave_part(self, part: Part) -> None:
        """End the innermost call of a stage or a hook."""
        whole = [frame for frame in self._frames if frame.part is part and not frame.is_body]
        if whole:
            self.leave(whole[-1])

    def end(self) -> None:
        """End all calls that are under way."""
        now = self.clock()
        while self._frames:
            self._end(now)

    def _end(self, now: int) -> Frame:
        frame = self._frames.pop()
        part, took = frame.part, now - frame.begun
        frame.count_own(part, took)
        if not frame.is_body:
            self._count(frame, took)
        if self._frames:
            _tell(self._frames[-1], frame, took)
        return frame

    def _count(self, frame: Frame, took: int) -> None:
        frame.part.calls += 1
        if not any(outer.part is frame.part and not outer.is_body for outer in self._frames):
            frame.count_whole(frame.part, took)

    def settled(self) -> list[Part]:
        """Give the parts as if all calls that are under way ended now; only their number is as it is."""
        now, inner = self.clock(), 0
        made = {id(part): part.copy() for part in self.parts.values()}
        wholes = {id(frame.part): frame for frame in reversed(self._frames) if not frame.is_body}  # the outermost ones
        for frame in reversed(self._frames):
            part, took = made[id(frame.part)], now - frame.begun
            frame.count_own(part, took - inner)
            if wholes.get(id(frame.part)) is frame:
                frame.count_whole(part, took)
            inner = took
        return list(made.values())

    # What came of it

    def lines(self) -> list[Line]:
        """Give a line for each part that was called: stages as they were in each other, hooks as they were met."""
        parts = [part for part in self.settled() if part.calls or part.total]
        whole = max((self._total(part) for part in parts), default=0.0)
        roots = dict.fromkeys(part.stage for part in parts if part.stage not in self.parents)
        return [line for stage in roots for line in self._lines_of(stage, parts, 0, whole)]

    @property
    def seconds(self) -> float:
        """How long was measured, without what measuring took."""
        return max((self._total(part) for part in self.settled()), default=0.0)

    @property
    def overhead(self) -> float:
        """About how many seconds measuring took."""
        return sum(part.calls * sum(self._cost(part)) for part in self.parts.values()) / 1e9

    @property
    def iterations(self) -> int:
        """How many iterations of training were measured."""
        return self.parts[key].calls if (key := ("train_iter", "", "")) in self.parts else 0

    def _cost(self, part: Part) -> Cost:
        return self.of_hook if part.hook else self.of_stage

    def _own(self, part: Part) -> float:
        around = part.inner_hooks[0] * self.of_hook.outside + part.inner_stages[0] * self.of_stage.outside
        return max(0.0, part.own - part.calls * self._cost(part).inside - around) / 1e9

    def _total(self, part: Part) -> float:
        within = part.inner_hooks[1] * sum(self.of_hook) + part.inner_stages[1] * sum(self.of_stage)
        return max(0.0, part.total - part.calls * self._cost(part).inside - within) / 1e9

    def _lines_of(self, stage: str, parts: list[Part], level: int, whole: float) -> Iterable[Line]:
        for part in sorted((part for part in parts if part.stage == stage), key=_rank):
            yield self._line(part, level + bool(part.hook), whole)
        for inner, outer in self.parents.items():
            if outer == stage:
                yield from self._lines_of(inner, parts, level + 1, whole)

    def _line(self, part: Part, level: int, whole: float) -> Line:
        own, total, calls = self._own(part), self._total(part), max(part.calls, 1)
        share = own / whole if whole else 0.0
        return Line(level, part.stage, part.hook, part.kind, calls, own, total, total / calls, share, part.where)

    def told(self) -> str:
        """Say in a sentence what was measured."""
        took = f"measuring took about {duration_text(self.overhead)} more, which is taken off"
        return f"{self.iterations:,} iterations in {duration_text(self.seconds)}; {took}"

    def table(self) -> str:
        """Give the profile as text."""
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
        return f"profile of {self.told()}\n{text}{missing}"

    def as_json(self) -> dict[str, Any]:
        """Give the profile as plain values; times in seconds."""
        rows = [{name: value for name, value in line._asdict().items() if name != "level"} for line in self.lines()]
        return {
            "iterations": self.iterations,
            "seconds": self.seconds,
            "overhead": self.overhead,
            "stages": [{**row, "in": self.parents.get(row["stage"])} for row in rows if not row["hook"]],
            "hooks": [row for row in rows if row["hook"]],
            "unmeasured": self.unmeasured,
        }

    # What a resumed run goes on with

    def state_dict(self) -> dict[str, Any]:
        """Give what was measured; of calls that are under way, what they have taken so far."""
        rows = [
            [one.stage, one.hook, one.kind, one.where, one.calls, one.own, one.total, one.inner_hooks, one.inner_stages]
            for one in self.settled()
        ]
        return {"parts": rows, "parents": dict(self.parents)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        self.parents = dict(state["parents"])
        for part in self.parts.values():  # whoever measures holds them
            part.calls = part.own = part.total = 0
            part.inner_hooks, part.inner_stages = [0, 0], [0, 0]
        for stage, hook, kind, where, *numbers, hooks, stages in state["parts"]:
            part = self.part(stage, hook, kind, where)
            part.calls, part.own, part.total = numbers
            part.inner_hooks, part.inner_stages = list(hooks), list(stages)


def _rank(part: Part) -> int:
    return ["", *WORDS].index(part.kind)
