"""A temperature sensor, and observers that come and go.

An alarm that rings once takes itself off while it is being told, and a display is closed while the sensor goes on
measuring. The hand-written version of this, a list of callbacks and a loop over it, gets both wrong: it skips
whoever stands behind the one that goes, and keeps what was closed alive and told. Both versions run here, over the
same four months of real weather. Look for

- `@event` in a class: `Sensor.measured.on` is told by every sensor, `hooks(night.measured).on` by one of them;
- `once=True` and `when=`, which make an alarm that takes itself off, in the place of a line that does it by hand;
- an observer that comes while a reading is being told: it is told from the next one on;
- a weak reference and `finalize`, which let a display die that nobody else holds.

Run `python examples/temperature.py` with aspecthook installed. No network is used.
"""

from __future__ import annotations

import argparse
import csv
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from aspecthook import event, hooks

DATA = Path(__file__).parent / "data" / "seattle-2012.csv"


class Reading(NamedTuple):
    day: str
    sensor: str
    celsius: float


def load(path: Path) -> Iterator[Reading]:
    """Return the readings in the order in which they were taken."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            try:
                yield Reading(row["date"], "night", float(row["temp_min"]))
                yield Reading(row["date"], "afternoon", float(row["temp_max"]))
            except (KeyError, TypeError, ValueError):
                raise ValueError(f"no date, temp_max and temp_min in {row}") from None


# The observers, the same for both versions.


class Coldest:
    """Keeps the lowest reading that it has been told."""

    def __init__(self) -> None:
        self.lowest = Reading("never", "", float("inf"))

    def note(self, celsius: float, day: str) -> None:
        if celsius < self.lowest.celsius:
            self.lowest = Reading(day, "night", celsius)


class Display:
    """Shows the newest reading; here, it counts how often, into what its owner gave it."""

    def __init__(self, shown: Counter[str]) -> None:
        self.shown = shown

    def show(self, celsius: float, day: str) -> None:
        self.shown[day[:7]] += 1


def ring(celsius: float, day: str) -> None:
    print(f"  {day}  frost, {celsius} °C: the alarm rings, once")


def report(coldest: Coldest, shown: Counter[str], month: str, *, alive: bool) -> None:
    day, _, celsius = coldest.lowest
    print(f"  the coldest night was {day}, {celsius} °C")
    late = shown.total() - shown[month]
    print(f"  the display, closed after {month}, was told of {late} later readings; is it alive? {alive}")


# By hand: a list and a loop.


def by_hand(readings: list[Reading], frost: float) -> None:
    month, shown = readings[0].day[:7], Counter[str]()
    observers: list[Callable[[float, str], None]] = []

    def alarm(celsius: float, day: str) -> None:
        if celsius < frost:
            ring(celsius, day)
            observers.remove(alarm)  # the list gets shorter under the loop: the next observer is passed over

    coldest, displays = Coldest(), [Display(shown)]
    observers += [alarm, coldest.note, displays[0].show]
    is_alive = weakref.ref(displays[0])
    for day, sensor, celsius in readings:
        if not day.startswith(month):
            displays.clear()  # closed; whoever wrote this has forgotten the other list
        if sensor == "night":
            for observer in observers:
                observer(celsius, day)
    report(coldest, shown, month, alive=is_alive() is not None)


# With an event.


class Sensor:
    """Measures, and says so to whoever listens."""

    @event
    def measured(self, celsius: float, day: str) -> None: ...


def with_an_event(readings: list[Reading], frost: float) -> None:
    month, shown = readings[0].day[:7], Counter[str]()
    sensors = {"night": Sensor(), "afternoon": Sensor()}
    night = sensors["night"]
    heated, total = list[str](), Counter[str]()

    def alarm(self: Sensor, celsius: float, day: str) -> None:
        ring(celsius, day)
        hooks(self.measured).on(heating, when=lambda celsius: celsius < 5)  # told from the next reading on

    def heating(day: str) -> None:
        heated.append(day)

    coldest, displays = Coldest(), [Display(shown)]
    hooks(night.measured).on(alarm, once=True, when=lambda celsius: celsius < frost)
    hooks(night.measured).on(coldest.note)
    display = weakref.proxy(displays[0])
    shows = hooks(night.measured).add("on", lambda celsius, day: display.show(celsius, day))
    weakref.finalize(displays[0], shows.remove)
    is_alive = weakref.ref(displays[0])
    with hooks(Sensor.measured).add("on", lambda day: total.update([day[:7]])):  # those of one sensor go with it
        for day, sensor, celsius in readings:
            if not day.startswith(month):
                displays.clear()
            sensors[sensor].measured(celsius, day)
    report(coldest, shown, month, alive=is_alive() is not None)
    print(f"  since the frost, the heating was on for {len(heated)} nights below 5 °C")
    print("  readings of both sensors:", ", ".join(f"{month} {times}" for month, times in total.items()))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A temperature sensor, and observers that come and go.")
    parser.add_argument("path", nargs="?", type=Path, default=DATA, help="a file like data/seattle-2012.csv")
    parser.add_argument("--frost", type=float, default=0.0, metavar="°C", help="the alarm rings below it (default: 0)")
    options = parser.parse_args(argv)
    try:
        readings = list(load(options.path))
        if not readings:
            raise ValueError("it has no readings")
    except (OSError, ValueError, csv.Error) as error:
        sys.exit(f"temperature.py: cannot use {options.path}: {getattr(error, 'strerror', None) or error}")
    print("By hand, a list and a loop:")
    by_hand(readings, options.frost)
    print("\nWith an event:")
    with_an_event(readings, options.frost)


if __name__ == "__main__":
    main()
