"""What the documents show is run: each page's code, top to bottom, in one namespace; and every docstring example."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import aspecthook

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path) -> list[tuple[str, int, str]]:
    """Return the code blocks of a page: language, line, text."""
    found: list[tuple[str, int, str]] = []
    language, start, lines = "", 0, list[str]()
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if lines or language:
                found.append((language, start, "\n".join(lines) + "\n"))
                language, lines = "", []
            elif line != "```":
                language, start = line[3:], number
            continue
        if language:
            lines.append(line)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path) -> None:
    if page.stem == "pytorch":
        pytest.importorskip("torch")
    module = ModuleType("shop")
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for language, line, text in blocks(page):
        if language == "python":
            code = compile("\n" * line + text, str(page), "exec")
            exec(code, vars(module))
        elif language == "pycon":
            test = doctest.DocTestParser().get_doctest(text, vars(module), f"{page.name}:{line}", str(page), line)
            failed, _ = runner.run(test, clear_globs=False)
            assert not failed


MODULES = [
    "aspecthook",  # the errors say that they are of this module
    *(info.name for info in pkgutil.walk_packages(aspecthook.__path__, "aspecthook.") if "__main__" not in info.name),
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_run(name: str) -> None:
    if "torch" in name:
        pytest.importorskip("torch")
    module = importlib.import_module(name)
    space = {**vars(module), **{word: getattr(aspecthook, word) for word in aspecthook.__all__}}
    failed, _ = doctest.testmod(module, extraglobs=space, optionflags=doctest.ELLIPSIS)
    assert not failed


def test_every_public_name_has_an_example() -> None:
    bare = [
        word
        for word in aspecthook.__all__
        if ">>>" not in (getattr(aspecthook, word).__doc__ or "") and not word.endswith(("Error", "Warning"))
    ]
    assert bare == []
