"""The examples run, on their own data, and say what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        (
            "demo",
            (
                "json.tool:main() raised SystemExit",
                "the line that is refused: // written by hand",
                '"token": "***"',
                "as before: True",
            ),
        ),
        ("sql_timing", ("ran 342 times", "read as before? True", "that it was? True")),
        ("audit", ("The script was stopped", "kept: True", "that it was? True")),
        ("retry_and_redact", ("****-9010", "that it was? True")),
        ("plugin_order", ("auth",)),
    ],
)
def test_an_example_of_weaving_says_what_it_should(name: str, facts: tuple[str, ...]) -> None:
    if name == "retry_and_redact":
        pytest.importorskip("requests")
    out = run(str(EXAMPLES / f"{name}.py"))
    for fact in facts:
        assert fact in out
