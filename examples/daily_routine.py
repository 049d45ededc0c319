"""A daily routine: each step is an event, and its body is what is done when nothing is hooked.

A day is read from a file. Then helpers come: they take a step over, put something before it, or give advice. One of
them fails, as helpers do. In the hand-written version, a list of helpers for each step and a loop, its exception ends
the loop, and with it the day; and things are done in the order in which the helpers came. Look for

- `@event` on a function with a body: the default, as long as nobody has subscribed;
- `errors="group"`: all helpers are asked, and then what went wrong is raised, all of it together;
- `@event(first=True)`: the first one who knows a way is taken at his word, and the body is asked last;
- a pre hook that answers `Return(...)`: on a day off, the step does not happen, whoever has subscribed.

Run `python examples/daily_routine.py` with aspecthook installed, or with an agenda of your own.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aspecthook import Return, event, hooks

DATA = Path(__file__).parent / "data" / "agenda.txt"
LINE = re.compile(r"(\d\d:\d\d) +(\w+) *(.*)")

# The steps, and what is done when nothing is hooked.


@event(errors="group")
def wake(at: str, about: str) -> None:
    print(f"  {at}  the alarm clock rings")


@event(errors="group")
def wash(at: str, about: str) -> None:
    print(f"  {at}  wash")


@event(errors="group")
def eat(at: str, about: str) -> None:
    print(f"  {at}  bread; there was to be {about}")


@event(errors="group")
def leave(at: str, about: str) -> None:
    print(f"  {at}  leave {about}: {way(about)}")


@event(errors="group")
def work(at: str, about: str) -> None:
    print(f"  {at}  work {about}")


@event(errors="group")
def sleep(at: str, about: str) -> None:
    print(f"  {at}  sleep")


@event(first=True)
def way(about: str) -> str:
    return "on foot"


STEPS = {step.__name__: step for step in (wake, wash, eat, leave, work, sleep)}


class Entry(NamedTuple):
    at: str
    step: str
    about: str


def read(path: Path) -> list[Entry]:
    """Read an agenda: lines such as `08:20 leave for work, 5 km`."""
    entries: list[Entry] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise ValueError(f"line {number}: {line!r} is not a time, a step and what it is about")
        entries.append(Entry(*match.groups()))
        if match[2] not in STEPS:
            near = difflib.get_close_matches(match[2], STEPS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(STEPS)}"
            raise ValueError(f"line {number}: there is no step {match[2]!r}{hint}")
    if not entries:
        raise ValueError("it has no entries: nothing to do all day")
    return entries


# The helpers, the same for both versions.

RECIPES = {"soup": "onions, potatoes, leeks", "pancakes": "flour, eggs, milk"}


def wash_up(at: str, about: str) -> None:
    print(f"  {at}  wash up")


def cook(at: str, about: str) -> None:
    print(f"  {at}  cook {about}: {RECIPES[about]}")  # fails for porridge: there is no recipe


def set_table(at: str, about: str) -> None:
    print(f"  {at}  set the table")


def radio(at: str, about: str) -> None:
    print(f"  {at}  the radio plays")


def bicycle(about: str) -> str | None:
    km = re.search(r"([\d.]+) km", about)
    return f"by bicycle, {float(km[1]) * 4:.0f} minutes" if km else None


# By hand: lists and a loop.


def by_hand(day: list[Entry]) -> None:
    helpers: dict[str, list[Callable[[str, str], Any]]] = {"eat": [wash_up, cook, set_table], "wake": [radio]}
    left = list(day)
    try:
        while left:
            at, step, about = left[0]
            for helper in helpers.get(step) or [STEPS[step]]:
                helper(at, about)
            del left[0]
    except Exception as error:
        print(f"  the day ended at {left[0].at}: {error!r}; {len(left)} of {len(day)} steps not done")


# With events.


def live(day: list[Entry]) -> None:
    """One day, whatever is hooked."""
    for at, step, about in day:
        try:
            STEPS[step](at, about)
        except* Exception as group:
            print(f"  {at}  trouble: {', '.join(map(repr, group.exceptions))}; the day goes on")


def with_helpers(day: list[Entry], *, day_off: bool) -> None:
    added = [
        hooks(eat).add("on", wash_up, priority="LOW"),  # added first, and yet it is what is done last
        hooks(eat).add("on", cook),
        hooks(eat).add("on", set_table, before="cook"),
        hooks(wake).add("on", radio),
        hooks(way).add("on", bicycle),
    ]
    if day_off:
        added.append(hooks(work).add("pre", lambda: Return(None)))
    try:
        live(day)
    finally:
        for hook in added:
            hook.remove()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A daily routine whose steps are events with defaults.")
    parser.add_argument("path", nargs="?", type=Path, default=DATA, help="an agenda like data/agenda.txt")
    parser.add_argument("--day-off", action="store_true", help="do not work in the last version")
    options = parser.parse_args(argv)
    try:
        day = read(options.path)
    except (OSError, ValueError) as error:
        sys.exit(f"daily_routine.py: cannot use {options.path}: {getattr(error, 'strerror', None) or error}")
    print("Nothing hooked, every step by default:")
    live(day)
    print("\nHelpers by hand, lists and a loop:")
    by_hand(day)
    print("\nHelpers as subscribers:")
    with_helpers(day, day_off=options.day_off)
    print("\nTaken off; is every step its default again?", not any(len(hooks(step)) for step in (*STEPS.values(), way)))


if __name__ == "__main__":
    main()
