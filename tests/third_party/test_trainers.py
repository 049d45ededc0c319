"""Trainers of others, woven from outside: the examples run, and say that the hooks have changed what they should."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FACTS = {
    "lightning": ["steps: 16, skipped: batches [2, 2]; fit of Classifier ended", "taken off: removed"],
}


@pytest.mark.torch
@pytest.mark.parametrize("name", FACTS)
def test_a_running_trainer_is_woven_without_its_callbacks(name: str, tmp_path: Path) -> None:
    for module in ("torch", name):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / f"weave_{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stderr
    for fact in ["without hooks True, with hooks False", "the code is that it was? True", *FACTS[name]]:
        assert fact in done.stdout
