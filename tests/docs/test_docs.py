"""What the documents show is run: the code of each page, as a program of its own; and every docstring example."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import aspecthook

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page: Path) -> None:
    # In a process of its own: a weaving that README leaves on was met by the tests that ran later.
    if page.stem in ("pytorch", "many-processes"):
        pytest.importorskip("torch")
    if page.stem == "tracing":
        pytest.importorskip("opentelemetry.sdk")
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.page", page], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


MODULES = [
    "aspecthook",  # the errors say that they are of this module
    *(info.name for info in pkgutil.walk_packages(aspecthook.__path__, "aspecthook.") if "__main__" not in info.name),
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_run(name: str) -> None:
    if "torch" in name:
        pytest.importorskip("torch")
    if name.endswith(".otel"):
        pytest.importorskip("opentelemetry.sdk")
    module = importlib.import_module(name)
    for word in getattr(module, "__all__", ()):
        try:
            getattr(module, word)  # or what is loaded lazily, and says that it is of this module, would be left out
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
    space = {**vars(module), **{word: getattr(aspecthook, word) for word in aspecthook.__all__}}
    failed, _ = doctest.testmod(module, extraglobs=space, optionflags=doctest.ELLIPSIS)
    assert not failed
