"""The files that the type checkers read (`make types`) also run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parent / "typing").glob("[!_]*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_for_type_checkers_run(path: Path) -> None:
    assert runpy.run_path(str(path))["__doc__"]
