"""What type checkers say of the code of a page, at their strictest, as users of the package have it.

A line of it is marked ``# error`` if both report it, and ``# error for mypy`` or ``# error for pyright`` if one does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .page import blocks
from .test_docs import ROOT

pytest.importorskip("numpy")

PAGES = ["README.md", "docs/typing.md"]


def module_of(page: str, folder: Path) -> Path:
    """Write all Python of a page into a module, in a project of a user who sees the package as it is here."""
    module = folder / "shop.py"
    module.write_text("\n\n".join(text for language, _, text in blocks(ROOT / page) if language == "python"))
    settings = {"include": [module.name], "typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return module


def marked(module: Path, checker: str) -> dict[int, str]:
    """Return the lines that are marked for a type checker."""
    lines = enumerate(module.read_text().splitlines(), 1)
    return {number: line for number, line in lines if re.search(rf"# error(?: for {checker})?$", line)}


def report(module: Path, *command: str) -> str:
    env = {**os.environ, "MYPYPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=module.parent, env=env, capture_output=True, text=True, check=False
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_mypy_reports_what_is_marked(page: str, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    module = module_of(page, tmp_path)
    text = report(module, "mypy", "--strict", module.name)
    found = {int(number) for number in re.findall(r"^shop\.py:(\d+): error: ", text, re.MULTILINE)}
    assert "checked 1 source file" in text or "no issues found in 1 source file" in text
    assert found == marked(module, "mypy").keys(), text


@pytest.mark.parametrize("page", PAGES)
def test_pyright_reports_what_is_marked(page: str, tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    module = module_of(page, tmp_path)
    text = report(module, "pyright", "--pythonpath", sys.executable, "--outputjson")
    found = {one["range"]["start"]["line"] + 1 for one in json.loads(text)["generalDiagnostics"]}
    assert json.loads(text)["summary"]["filesAnalyzed"] == 1
    assert found == marked(module, "pyright").keys(), text
