"""The examples run, on their own data, and say what they should."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
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


FACTS = {
    "demo": (
        "json.tool:main() raised SystemExit",
        "the line that is refused: // written by hand",
        '"token": "***"',
        "as before: True",
    ),
    "sql_timing": ("ran 342 times", "read as before? True", "that it was? True"),
    "audit": ("The script was stopped", "kept: True", "that it was? True"),
    "retry_and_redact": ("****-9010", "that it was? True"),
    "plugin_order": ("auth", "state.load(name='audit')\n    state.load(name='auth')\n    state.call((0,))"),
}
# Trainers of others, woven without their callbacks.
TRAINERS = {
    "lightning": ("steps: 16, skipped: batches [2, 2]; fit of Classifier ended", "taken off: removed"),
    "ignite": (
        "steps: 11, skipped: iterations [3, 11]",
        "the hook saw: ['ValueError']",
        "the caller saw: a step in the",
    ),
    "transformers": ("steps: 16 of 16; images left out: 12", "pre_1(inputs)  # clean, weave_transformers.py:"),
}


@pytest.mark.parametrize("name", FACTS)
def test_an_example_of_weaving_says_what_it_should(name: str) -> None:
    if name == "retry_and_redact":
        pytest.importorskip("requests")
    out = run(str(EXAMPLES / f"{name}.py"))
    for fact in FACTS[name]:
        assert fact in out


@pytest.mark.torch
@pytest.mark.parametrize("name", TRAINERS)
def test_a_running_trainer_is_woven_without_its_callbacks(name: str) -> None:
    for module in ("torch", name):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    out = run("-W", "ignore", str(EXAMPLES / f"weave_{name}.py"))
    for fact in ("without hooks True, with hooks False", "the code is that it was? True", *TRAINERS[name]):
        assert fact in out
