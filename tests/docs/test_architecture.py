"""The page on the architecture names every dependency between rooms, and every library that an extra brings."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable
from graphlib import TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from aspecthook import Weaving, hookable, hooks, weave

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributing" / "architecture.md"
PACKAGE = ROOT / "aspecthook"
# What all rooms use, and has no room below it.
BELOW = {"_errors", "_lazy", "_typing", "_hints"}
CORE = {"_core/law", "_core/compile", "_core/mount"}
# A table lists these extras by what they are for.
BY_PURPOSE = {"bench", "tests"}


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table after a heading, without its two first lines."""
    _, _, rest = PAGE.read_text().partition(f"# {heading}\n")
    rows = re.findall(r"^\|.*\|$", rest.partition("\n## ")[0], re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def room_of(module: str) -> str:
    """Return the room of a module of the package."""
    _, room, *rest = module.split(".")
    return f"_core/{rest[0]}" if room == "_core" and rest else room


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(file): file for file in PACKAGE.rglob("*.py")}


def imported(name: str) -> set[str]:
    """Return the modules of the package that a module imports, wherever in it."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            origin = ".".join(parts[: len(parts) + 1 - node.level]) if node.level else ""
            origin = ".".join(filter(None, [origin, node.module]))
            found |= {whole if (whole := f"{origin}.{one.name}") in MODULES else origin for one in node.names}
    return found & MODULES.keys() - {name}


def test_the_dependencies_between_rooms_are_those_of_the_page() -> None:
    there: set[tuple[str, str]] = set()
    for name in MODULES.keys() - {"aspecthook"}:
        room = room_of(name)
        targets = {room_of(module) for module in imported(name) - {"aspecthook"}} - BELOW - {room}
        # The rooms from `_foreign` on all use the core, which the page says once.
        whole = room in ("_values", "_foreign")
        if room not in CORE:
            targets = targets - CORE | ({"_core"} if whole and targets & CORE else set())
        there |= {(room, target) for target in targets}
    named = {(room.strip("`"), target.strip("`")) for room, target, _ in table("Between the rooms")}
    assert named == there


def test_no_two_modules_import_each_other_through_any_others() -> None:
    graph = {name: imported(name) for name in MODULES}
    with_no_circle = tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names one
    assert with_no_circle[-1] not in set().union(*graph.values())


@hookable
def walked(n: int) -> int:
    return n


def note(n: int) -> None: ...


@hookable
def walked_before(n: int) -> int:
    return n


def steps(function: Any) -> dict[str, Callable[[], object]]:
    """Return what is done on each path of the page."""
    woven: list[Weaving] = []
    return {
        "Adding": lambda: hooks(function).add("pre", note),
        "The first call": lambda: function(1),
        "Weaving": lambda: woven.append(weave("json:dumps", pre=lambda obj: None)),
        "Removing": lambda: woven[0].remove(),
    }


# How many functions of ours each step enters, in a process that has done the like before.
MOST = {"Adding": 48, "The first call": 30, "Weaving": 220, "Removing": 60}


def test_the_four_paths_of_the_page_are_short_and_walked_in_this_order() -> None:
    for warm in steps(walked_before).values():
        warm()
    sections = re.findall(r"^### (.*?): .*?$(.*?)(?=^##)", PAGE.read_text().partition("## Four paths")[2], re.M | re.S)
    lists = {title: re.findall(r"^\d+\. `([^`]*)`", text, re.M) for title, text in sections}
    for title, work in steps(walked).items():
        entered: list[str] = []

        def note_entry(frame: FrameType, event: str, _: object, entered: list[str] = entered) -> None:
            if event == "call" and str(frame.f_globals.get("__name__")).startswith("aspecthook"):
                entered.append(frame.f_code.co_qualname)

        before = sys.getprofile()
        sys.setprofile(note_entry)
        try:
            work()
        finally:
            sys.setprofile(before)
        left = iter(entered)
        missing = [name for name in lists[title] if name not in left]  # `in` reads on to the name
        assert not missing, f"{title}: {missing[0]} is not entered, or not in this order"
        assert 6 < len(lists[title]) <= 12
        assert len(entered) <= MOST[title]


@pytest.mark.parametrize(
    ("extra", "brings"),
    [
        (extra, {re.split(r"[\[<>=;, ]", one)[0].lower() for one in brings if not one.startswith("aspecthook[")})
        for extra, brings in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
            "optional-dependencies"
        ].items()
        if extra not in BY_PURPOSE
    ],
)
def test_each_library_of_an_extra_has_its_line(extra: str, brings: set[str]) -> None:
    rows = table("Dependencies, and why each")
    named = {name.lower() for names, extras, _ in rows if f"`{extra}`" in extras for name in names.split(", ")}
    assert named == brings
