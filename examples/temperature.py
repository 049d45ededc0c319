"""A temperature sensor, and observers that come and go.

An alarm that rings once removes itself while it is being called, and a display is closed while the sensor continues
to measure. The hand-written version, a list of callbacks and a loop over it, gets both wrong: it skips the observer
after the one that leaves, and keeps the closed display alive and notified. Both versions run here, on the same four
months of real weather. Look for

- `@event` in a class: `Sensor.measured.on` subscribes to every sensor, `hooks(night.measured).on` to one of them;
- `once=True` and `when=`, which replace the line with which the alarm removes itself;
- an observer that subscribes during a reading: it is notified from the next one on;
- a weak reference and `finalize`, which let a display die once nobody else holds it.

Run `python examples/temperature.py` with aspecthook installed. It needs no network.
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
    """Keeps the lowest reading of which it was notified."""

    def __init__(self) -> None:
        self.lowest = Reading("never", "", float("inf"))

    def note(self, celsius: float, day: str) -> None:
        if celsius < self.lowest.celsius:
            self.lowest = Reading(day, "night", celsius)


class Display:
    """Shows the newest reading; here, it only counts how often, in a counter that its owner passes."""

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
    print(f"  the display, closed after {month}, was notified of {late} later readings; is it alive? {alive}")


# By hand: a list and a loop.


def by_hand(readings: list[Reading], frost: float) -> None:
    month, shown = readings[0].day[:7], Counter[str]()
    observers: list[Callable[[float, str], None]] = []

    def alarm(celsius: float, day: str) -> None:
        if celsius < frost:
            ring(celsius, day)
            observers.remove(alarm)  # the list shrinks during the loop, which skips the next observer

    coldest, displays = Coldest(), [Display(shown)]
    observers += [alarm, coldest.note, displays[0].show]
    is_alive = weakref.ref(displays[0])
    for day, sensor, celsius in readings:
        if not day.startswith(month):
            displays.clear()  # closed; but the author forgot the other list
        if sensor == "night":
            for observer in observers:
                observer(celsius, day)
    report(coldest, shown, month, alive=is_alive() is not None)


# With an event.


class Sensor:
    """Measures, and notifies its observers."""

    @event
    def measured(self, celsius: float, day: str) -> None: ...


def with_an_event(readings: list[Reading], frost: float) -> None:
    month, shown = readings[0].day[:7], Counter[str]()
    sensors = {"night": Sensor(), "afternoon": Sensor()}
    night = sensors["night"]
    heated, total = list[str](), Counter[str]()

    def alarm(self: Sensor, celsius: float, day: str) -> None:
        ring(celsius, day)
        hooks(self.measured).on(heating, when=lambda celsius: celsius < 5)  # notified from the next reading on

    def heating(day: str) -> None:
        heated.append(day)

    coldest, displays = Coldest(), [Display(shown)]
    hooks(night.measured).on(alarm, once=True, when=lambda celsius: celsius < frost)
    hooks(night.measured).on(coldest.note)
    display = weakref.proxy(displays[0])
    shows = hooks(night.measured).add("on", lambda celsius, day: display.show(celsius, day))
    weakref.finalize(displays[0], shows.remove)
    is_alive = weakref.ref(displays[0])
    with hooks(Sensor.measured).add("on", lambda day: total.update([day[:7]])):  # and so do hooks of one sensor
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
