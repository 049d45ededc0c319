"""What was measured, what it is held against, and how both are printed and kept."""

from __future__ import annotations

import json
import platform
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import pyperf

OURS = "aspecthook"
SCALE = {"ns": 1e9, "µs": 1e6, "ms": 1e3, "s": 1.0, "bytes": 1.0}
PEERS = ("wrapt", "aspectlib", "pluggy", "blinker")


@dataclass(frozen=True)
class Goal:
    """A contender's time, or its ratio to that of another (`over`), and the most (or the least) that it should be."""

    of: str
    limit: float
    over: str = ""
    at_least: bool = False


@dataclass
class Contest:
    """Contenders that did the same work in the same rounds: for each, its seconds per call, one entry a round."""

    section: str
    title: str
    unit: str
    times: dict[str, list[float]]
    against: str = ""
    goals: list[Goal] = field(default_factory=list)
    facts: dict[str, bool] = field(default_factory=dict)
    wide: bool = False  # one line for the whole contest

    @classmethod
    def read(cls, data: dict[str, Any]) -> Contest:
        """Make a contest of what `asdict` gave."""
        return cls(**{**data, "goals": [Goal(**goal) for goal in data["goals"]]})

    def add(self, other: Contest) -> None:
        """Add the rounds that another process ran."""
        for name, row in other.times.items():
            self.times[name].extend(row)
        for fact, holds in other.facts.items():
            self.facts[fact] = self.facts.get(fact, True) and holds

    def time(self, name: str) -> float:
        """Return the median of a contender's rounds, in seconds."""
        return median(self.times[name])

    def ratio(self, name: str, over: str) -> float:
        """Return the median, over the rounds, of the ratio of two contenders in one and the same round."""
        return median(one / other for one, other in zip(self.times[name], self.times[over], strict=True))

    def judge(self, goal: Goal) -> tuple[float, bool]:
        """Measure a goal, and say whether it is met."""
        value = self.ratio(goal.of, goal.over) if goal.over else self.time(goal.of)
        # Rounded as it is printed, so that no goal is missed by what nobody can see.
        shown = round(value, 2) if goal.over else value
        return value, shown >= goal.limit if goal.at_least else shown <= goal.limit


def shown_time(seconds: float, unit: str) -> str:
    """Show a time to about three digits."""
    value = seconds * SCALE[unit]
    return f"{value:,.{0 if value >= 999.5 else 1 if value >= 10 else 2}f}"


def shown_goal(contest: Contest, goal: Goal) -> str:
    """Return what a goal asks for, what was measured, and whether that is enough."""
    value, met = contest.judge(goal)
    sign = "≥" if goal.at_least else "≤"
    verdict = "met" if met else "MISSED"
    if not goal.over:
        return f"goal {sign} {goal.limit * SCALE[contest.unit]:g} {contest.unit}: {verdict}"
    return f"{value:.2f} × {goal.over}, goal {sign} {goal.limit:g}: {verdict}"


def lines(contests: Iterable[Contest]) -> Iterator[str]:
    """Print the contests of one section."""
    header = ""
    for contest in contests:
        if not contest.wide:
            yield from _tall(contest)
            continue
        names = "".join(f"{name:>12}" for name in (*contest.times, f"× {contest.against}"))
        if names != header:
            yield from ("", f"{contest.unit:>32}{names}")
            header = names
        times = "".join(f"{shown_time(contest.time(name), contest.unit):>12}" for name in contest.times)
        yield f"  {contest.title:<30}{times}{contest.ratio(list(contest.times)[-1], contest.against):>12.2f}"


def _tall(contest: Contest) -> Iterator[str]:
    yield ""
    width = max([40, *(len(name) for name in contest.times)])
    ratios = f"  × {contest.against}" if contest.against else ""
    yield f"{contest.title:<{width + 2}} {contest.unit:>9}{ratios}"
    for name in contest.times:
        ratio = f"  {contest.ratio(name, contest.against):>7.2f}" if contest.against else ""
        goal = "".join(f"   {shown_goal(contest, goal)}" for goal in contest.goals if goal.of == name)
        yield f"  {name:<{width}} {shown_time(contest.time(name), contest.unit):>9}{ratio}{goal}"
    for fact, holds in contest.facts.items():
        yield f"  {fact}: {'yes' if holds else 'NO: MISSED'}"


def summary(contests: Iterable[Contest]) -> Iterator[str]:
    """Count the goals, and name those that were missed."""
    met, missed = 0, []
    for contest in contests:
        held = {f"{goal.of}: {shown_goal(contest, goal)}": contest.judge(goal)[1] for goal in contest.goals}
        for what, holds in (held | contest.facts).items():
            met += holds
            missed += [] if holds else [f"  {contest.title}: {what}"]
    yield f"\n{met} of {met + len(missed)} goals met."
    if missed:
        yield from ["MISSED:", *missed]


def machine() -> str:
    """Name the machine and the versions, as `pyperf` sees them."""
    known = pyperf.Run([1.0], collect_metadata=True).get_metadata()
    cpu = known.get("cpu_model_name") or platform.processor() or platform.machine()
    return (
        f"Python {platform.python_version()} ({platform.python_compiler()}), {cpu}, {known.get('cpu_count', '?')} "
        f"cores, {platform.system()}; {', '.join(f'{name} {version(name)}' for name in (OURS, *PEERS))}"
    )


def save_goals(contests: Iterable[Contest], path: str) -> None:
    """Write each goal with what was measured, for `benchmarks.table`."""
    free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    goals = []
    for contest in contests:
        for goal in contest.goals:
            value, met = contest.judge(goal)
            goals.append({"title": contest.title, "unit": contest.unit, **asdict(goal), "value": value, "met": met})
    kept = {"python": ".".join(platform.python_version_tuple()[:2]) + free, "goals": goals}
    Path(path).write_text(json.dumps(kept, indent=1), encoding="utf-8")


def as_data(contests: Iterable[Contest]) -> list[dict[str, Any]]:
    """Turn contests into plain data, to be sent from process to process."""
    return [asdict(contest) for contest in contests]
