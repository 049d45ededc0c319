"""A tour of aspecthook: three plain functions, and the hooks that make a robust program of them.

The functions load, clean and summarise a table of penguins. They know nothing of missing values, units or
clocks, and on their own they fail at the first bad row. Each hook asks by name for what it needs. Look for

- the pre hooks, which refuse a row (they raise) or repair it (they answer `Args(...)`);
- the post hooks: one converts units, one is added before it but runs after it;
- the exception hook, which turns a refused row into an entry of the report (it answers `Return(...)`);
- the around hooks, in both forms, and the always hook, which counts every row, whatever became of it;
- the end of `main`, where the hooks come off and the function is the plain one again.

Run `python examples/tour.py` with aspecthook installed. No network is used.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from time import perf_counter

from aspecthook import Args, Return, explain, hookable, hooks

DATA = Path(__file__).parent / "data" / "penguins-raw.csv"
COLUMNS = {"species": "Species", "sex": "Sex", "flipper": "Flipper Length (mm)", "mass": "Body Mass (g)"}
COLUMNS |= {"nitrogen": "Delta 15 N (o/oo)", "notes": "Comments"}


@dataclass(frozen=True)
class Penguin:
    species: str
    sex: str
    flipper: float
    mass: float
    nitrogen: float
    build: float = 0.0  # mass per flipper length


Table = dict[str, tuple[float, ...]]

# The plain functions. `@hookable` gives the same function back; until it has hooks, nothing has changed.


@hookable
def load(path: Path) -> list[Penguin]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [{name: row[column] for name, column in COLUMNS.items()} for row in csv.DictReader(file)]
    return [penguin for row in rows if (penguin := clean(**row)) is not None]


@hookable
def clean(species: str, sex: str, flipper: str, mass: str, nitrogen: str, notes: str) -> Penguin | None:
    return Penguin(species, sex, float(flipper), float(mass), float(nitrogen))


@hookable
def summarise(penguins: list[Penguin]) -> Table:
    table: Table = {}
    for species in sorted({p.species for p in penguins}):
        birds = [(p.flipper, p.mass, p.build, p.nitrogen) for p in penguins if p.species == species]
        table[species] = (len(birds), *map(fmean, zip(*birds, strict=True)))
    return table


PLAIN_CODE = clean.__code__  # to compare with, at the end

# The hooks. None of the functions above is touched, nor is any place that calls them.


@clean.pre
def short_name(species: str) -> Args:
    return Args(species=species.split(maxsplit=1)[0])  # "Gentoo penguin (Pygoscelis papua)" is Gentoo


@clean.pre
def unknown_sex(sex: str) -> Args | None:
    return Args(sex="unknown") if sex == "NA" else None  # None: leave it


@clean.pre(priority="HIGH")  # added last, runs first: what is refused need not be repaired
def needs_isotopes(nitrogen: str, notes: str) -> None:
    if nitrogen == "NA":
        raise ValueError(notes)  # as if `clean` itself had raised it


@clean.post(after="metric")  # added first, runs second: it is in kg per cm
def build(result: Penguin) -> Penguin:
    return replace(result, build=result.mass / result.flipper)


@clean.post
def metric(result: Penguin) -> Penguin:
    return replace(result, flipper=result.flipper / 10, mass=result.mass / 1000)  # mm to cm, g to kg


@summarise.around  # one that asks for `proceed` may call it as often as it likes
def with_total(proceed: Callable[..., Table], penguins: list[Penguin]) -> Table:
    return proceed() | proceed(penguins=[replace(penguin, species="all") for penguin in penguins])


@dataclass
class Report:
    """What happened; its methods are hooks too, attached in `main`."""

    rows: int = 0
    unsexed: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def count(self, sex: str, notes: str) -> None:  # always: sees the arguments as the pre hooks left them
        self.rows += 1
        if sex == "unknown":
            self.unsexed[notes] += 1

    def reject(self, exc: ValueError) -> Return[None]:  # exception: `clean` gives None, post is skipped
        self.rejected[str(exc)] += 1
        return Return(None)

    def time(self) -> Iterator[None]:  # around, as a generator: the call runs at the `yield`
        start = perf_counter()
        yield
        self.seconds = perf_counter() - start

    def show(self) -> None:
        print("read:", self.rows)
        for title, reasons in {"repaired (sex unknown)": self.unsexed, "rejected": self.rejected}.items():
            print(f"{title}: {reasons.total()}")
            for reason, times in sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0])):
                print(f"{times:5}  {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description="A tour of aspecthook.")
    parser.add_argument("path", nargs="?", type=Path, default=DATA, help="a file like data/penguins-raw.csv")
    parser.add_argument("--brief", action="store_true", help="do not show the source that `clean` is compiled to")
    options = parser.parse_args()
    report = Report()
    clean.always(report.count)
    clean.exception(ValueError)(report.reject)
    load.around(report.time)
    penguins = load(options.path)
    report.show()
    print(f"\n{'species':10}{'birds':>6}{'flipper cm':>12}{'mass kg':>9}{'kg per cm':>11}{'15N o/oo':>10}")
    for species, (birds, flipper, mass, per_cm, nitrogen) in summarise(penguins).items():
        print(f"{species:10}{birds:6}{flipper:12.1f}{mass:9.2f}{per_cm:11.3f}{nitrogen:10.2f}")
    print(f"\nload took {report.seconds * 1000:.1f} ms")

    print("\nthe hooks of clean:", ", ".join(f"{hook.name} ({hook.kind})" for hook in hooks(clean)))
    if not options.brief:
        print("what a call of clean runs now (explain):\n")
        explain(clean)
        print()
    hooks(clean).clear()
    print("hooks off; is clean the plain function again?", clean.__code__ is PLAIN_CODE)
    try:
        load(options.path)
    except ValueError as error:
        print("yes, it fails at the first bad row:", error)


if __name__ == "__main__":
    main()
