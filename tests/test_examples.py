"""The examples run, on their own data, and say what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *args], capture_output=True, text=True, check=False, cwd=EXAMPLES.parent
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tour_reads_repairs_and_rejects_and_leaves_no_trace() -> None:
    out = run(str(EXAMPLES / "tour.py"))
    for fact in ("read: 344", "repaired (sex unknown): 6", "rejected: 14", "plain function again? True"):
        assert fact in out
    assert "def clean(species, sex, flipper, mass, nitrogen, notes):" in out
    assert "# needs_isotopes, tour.py:" in out


def test_the_tour_has_help() -> None:
    assert "--brief" in run(str(EXAMPLES / "tour.py"), "--help")
