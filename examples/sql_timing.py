"""Which statements does a program run, how often, and how long do they take? Nobody asked the program.

The program here loads the penguins into SQLite and writes a report in JSON. It is the code of somebody else: it
knows nothing of timing, has taken `connect` and `dumps` by name, and hides a mistake that is seen only from outside.
Look for

- the pre hook on `sqlite3.connect`, a C function, that slips another class of connection into the program;
- the around hook on the methods of that class, which it only inherits from C, that times every statement;
- the post hook on `json.dumps`, which sees what goes out and rounds it;
- the end of `main`: the weavings are removed, and everything is the very object that it was.

Run `python examples/sql_timing.py` with aspecthook installed. Nothing else is needed, and no network.
"""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from json import dumps
from pathlib import Path
from sqlite3 import connect
from time import perf_counter
from typing import Any

from aspecthook import Args, weave

DATA = Path(__file__).parent / "data" / "penguins-raw.csv"

# The program. It is not touched, and no name in it is looked up anew: `connect` and `dumps` were imported long ago.


def load(path: Path) -> sqlite3.Connection:
    connection = connect(":memory:")
    connection.execute("create table penguin (id text, species text, island text, mass real)")
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["Body Mass (g)"] != "NA":
                values = row["Individual ID"], row["Species"].split()[0], row["Island"], float(row["Body Mass (g)"])
                connection.execute("insert into penguin values (?, ?, ?, ?)", values)
    return connection


def heavy(connection: sqlite3.Connection) -> dict[str, list[float]]:
    """Find the birds that are heavier than the mean of their species; slowly, as will be seen."""
    found: dict[str, list[float]] = defaultdict(list)
    for species, mass in connection.execute("select species, mass from penguin").fetchall():
        (mean,) = connection.execute("select avg(mass) from penguin where species = ?", (species,)).fetchone()
        if mass > mean:
            found[species].append(mass / mean)
    return found


def report(path: Path) -> str:
    connection = load(path)
    found = heavy(connection)
    islands = connection.execute("select island, count(*) from penguin group by island").fetchall()
    connection.close()
    heaviest = {species: max(ratios) for species, ratios in found.items()}
    return dumps({"heavy": {species: len(r) for species, r in found.items()}, "heaviest": heaviest, **dict(islands)})


# The hooks


class Watched(sqlite3.Connection):
    """A connection that can be woven: `sqlite3.Connection` is a C type, in which nothing can be replaced."""


def watch(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Args:
    """Pre hook: have `connect` make one of ours. C code tells no parameter names, so it is given args and kwargs."""
    return Args(kwargs={**kwargs, "factory": Watched})


class Statements:
    """How often each statement ran, and how long that took in all."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)

    def time(self, args: tuple[Any, ...]) -> Iterator[None]:
        """Around hook, as a generator: the statement runs at the `yield`, and raises there what it raises."""
        start = perf_counter()
        try:
            yield
        finally:
            self.times[args[1]].append(perf_counter() - start)  # args[0] is the connection

    def show(self) -> None:
        print(f"{'runs':>6}{'total ms':>10}{'mean µs':>9}  statement")
        for statement, times in sorted(self.times.items(), key=lambda entry: -len(entry[1])):
            total = sum(times)
            print(f"{len(times):6}{total * 1000:10.2f}{total / len(times) * 1e6:9.1f}  {statement}")
        most, times = max(self.times.items(), key=lambda entry: len(entry[1]) * entry[0].startswith("select"))
        print(f"\nOne query for every row? {most!r} ran {len(times)} times.")


def rounded(result: str) -> str:
    """Post hook: two decimals are enough for whoever reads the report."""
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number.group()):.2f}", result)


def main() -> None:
    before = sqlite3.connect, json.dumps.__code__, dict(vars(Watched))
    print("plain:", plain := report(DATA))

    statements = Statements()
    with (
        weave("sqlite3:connect", pre=watch),
        weave(f"{__name__}:Watched.execute", around=statements.time),
        weave("json:dumps", post=rounded),
    ):
        print("woven:", report(DATA), end="\n\n")
    statements.show()

    print("\nWeavings removed. Does the report read as before?", report(DATA) == plain)
    print(
        "Is everything the object that it was?", before == (sqlite3.connect, json.dumps.__code__, dict(vars(Watched)))
    )


if __name__ == "__main__":
    main()
