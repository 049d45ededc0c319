"""Programs that the command runs, each in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def python(tmp_path: Path) -> Run:
    """Return a function that runs Python in a folder of its own, as a user would."""

    def run(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *map(str, words)]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(env), capture_output=True, text=True, timeout=120, check=False
        )

    return run


@pytest.fixture
def aspecthook(python: Run) -> Run:
    """Return a function that runs the command there."""
    return partial(python, "-m", "aspecthook")


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **(more or {})}
