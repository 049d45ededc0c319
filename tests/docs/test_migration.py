"""The idioms of `docs/migration` are run: theirs by their library, ours by aspecthook, to the same assertions.

The convention of a page: the title names the library, a `##` heading an idiom, which has two code blocks. The info
string of a block says whose it is (``python wrapt``, ``python aspecthook``), as does the label above it. A block whose
info string names a file (``python shop.py``, ``python pluggy shop_fees.py``) is that file; those of the first page are
there for all. All blocks of one side of a page are one program, in a process of its own, so that whatever they patch
ends with it; where it has test functions, pytest runs it.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "migration"
OURS = "aspecthook"
MODULES = {
    "blinker": "blinker",
    "pluggy": "pluggy",
    "wrapt": "wrapt",
    "mock": "unittest.mock",
    "aspectlib": "aspectlib",
}
# Headings of prose.
PROSE = ("What differs", "What you no longer need to work around")
# Its generators are thrown into in a way that Python 3.12 deprecates.
WARNINGS = {"aspectlib": ["-W", "ignore::DeprecationWarning:aspectlib"]}


@dataclass(frozen=True)
class Block:
    """A fenced block: the first three are its info string, ``label`` is the line of text above it."""

    language: str
    side: str
    file: str
    label: str
    line: int
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True)
class Idiom:
    section: str
    title: str
    blocks: list[Block] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.section}: {self.title}"


def read(page: Path) -> list[Idiom]:
    """Return what is written under each heading of a page; its top is an idiom without a title."""
    first, *lines = page.read_text(encoding="utf-8").splitlines()
    found = [Idiom(first.removeprefix("# Coming from "), "")]
    block: Block | None = None
    label = ""
    for number, line in enumerate(lines, 2):
        if line.startswith("```"):
            if block is None:
                language, *words = line[3:].split()
                side, file = ("".join(word for word in words if ("." in word) is dotted) for dotted in (False, True))
                block = Block(language, side, file, label, number)
                found[-1].blocks.append(block)
            else:
                block = None
        elif block is not None:
            block.lines.append(line)
        elif line.startswith("## "):
            found.append(Idiom(found[-1].section, line[3:]))
        if block is None and line.strip() and not line.startswith("```"):
            label = line
    return found


SHOP = [block for part in read(PAGES / "index.md") for block in part.blocks if block.file]
# VizTracer's page has no idioms to run.
FILES = {page: read(page) for page in sorted(PAGES.glob("*.md")) if page.stem not in ("index", "viztracer")}
PARTS = [part for parts in FILES.values() for part in parts]
IDIOMS = [part for part in PARTS if part.title and part.title not in PROSE]
SECTIONS = {parts[0].section: page for page, parts in FILES.items()}


def program(section: str, side: str) -> str:
    """Put the blocks of one side together, each on the lines it has in the page, so that tracebacks show these."""
    lines: list[str] = []
    for part in PARTS:
        for block in part.blocks:
            if (part.section, block.language, block.side, block.file) == (section, "python", side, ""):
                lines += [""] * (block.line - len(lines))
                lines += block.lines
    return "\n".join(lines) + "\n"


def write_files(section: str, side: str, folder: Path) -> None:
    """Write the files that the pages show, and install the project that one shows."""
    blocks = [block for part in PARTS if part.section == section for block in part.blocks]
    for block in (*SHOP, *blocks):
        if block.side not in ("", side) or not block.file:
            continue
        if block.file == "pyproject.toml":
            install(block.text, folder)
        else:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def install(text: str, folder: Path) -> None:
    """Do what an installer does with a project's entry points."""
    project = tomllib.loads(text)["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    about = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(about, encoding="utf-8")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items())])
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")


def run(section: str, side: str, folder: Path) -> None:
    """Run one side of a section; what fails is shown with the lines of the page."""
    write_files(section, side, folder)
    text = program(section, side)
    script = folder / "migration.py"
    script.write_text(text, encoding="utf-8")
    warnings = ["-W", "error", *WARNINGS.get(side, [])]
    command = [sys.executable, *warnings, str(script)]
    if "def test_" in text:
        quiet = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:aspectlib", "-p", "no:asyncio"]
        command = [
            sys.executable,
            "-m",
            "pytest",
            *warnings,
            *quiet,
            "--hook-leaks=error",
            f"--rootdir={folder}",
            script,
        ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}".replace(str(script), str(SECTIONS[section]))


@pytest.mark.parametrize("section", SECTIONS)
def test_their_side_of_a_page_runs(section: str, tmp_path: Path) -> None:
    pytest.importorskip(MODULES[section])
    if section == "wrapt" and not hasattr(importlib.import_module("wrapt"), "unwrap_object"):
        pytest.skip("this wrapt cannot take a wrapper off")
    run(section, section, tmp_path)


@pytest.mark.parametrize("section", SECTIONS)
def test_our_side_of_a_page_runs(section: str, tmp_path: Path) -> None:
    run(section, OURS, tmp_path)


# The convention


def test_every_library_has_a_page() -> None:
    assert {*MODULES} == {*SECTIONS}
    assert all(page.stem == section.lower() for section, page in SECTIONS.items())


@pytest.mark.parametrize("page", FILES, ids=lambda page: page.stem)
def test_a_page_says_what_differs_after_its_idioms(page: Path) -> None:
    assert tuple(part.title for part in FILES[page])[-2:] == PROSE


@pytest.mark.parametrize("idiom", IDIOMS, ids=str)
def test_an_idiom_is_a_pair_of_blocks_that_are_labelled(idiom: Idiom) -> None:
    pair = [block for block in idiom.blocks if not block.file]
    whose = [("python", idiom.section), ("python", OURS)]
    assert [(block.language, block.side) for block in pair] == whose
    assert [block.label for block in pair] == [f"{idiom.section}:", f"{OURS}:"]


@pytest.mark.parametrize("idiom", IDIOMS, ids=str)
def test_both_sides_of_an_idiom_assert_the_same(idiom: Idiom) -> None:
    theirs, ours = [sorted(asserted(block.text)) for block in idiom.blocks if not block.file]
    assert theirs == ours
    assert theirs


def asserted(text: str) -> Iterator[str]:
    """Return what a block asserts: its `assert` statements, and what it expects to be raised."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert) or (
            isinstance(node, ast.With) and "pytest.raises" in ast.unparse(node.items[0])
        ):
            yield ast.unparse(node)
