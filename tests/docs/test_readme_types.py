"""The code of the README passes both type checkers at their strictest, as users of the package have it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .page import blocks
from .test_docs import ROOT

pytest.importorskip("numpy")


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    """Return a module with all Python of the README, in a project of a user who sees the package as it is here."""
    module = tmp_path / "readme.py"
    module.write_text("\n\n".join(text for language, _, text in blocks(ROOT / "README.md") if language == "python"))
    settings = {"include": [module.name], "typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    return module


def check(readme: Path, *command: str) -> None:
    env = {**os.environ, "MYPYPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=readme.parent, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_passes_mypy_strict(readme: Path) -> None:
    pytest.importorskip("mypy")
    check(readme, "mypy", "--strict", readme.name)


def test_the_readme_passes_pyright_strict(readme: Path) -> None:
    pytest.importorskip("pyright")
    check(readme, "pyright", "--pythonpath", sys.executable)
