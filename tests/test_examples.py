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
        ("audit", ("The script was stopped", "kept: True", "as before? True")),
        (
            "order_bugs",
            (
                "'no_row_is_empty': it answered False",
                "state.add('pre Cache')\n    state.add('pre Auth')\n    state.call((['ann', 'bob'],))",
                "TrainingRepaired: the law holds",
            ),
        ),
        (
            "plugin_order",
            ("state.load(name='audit')\nstate.load(name='auth')\nstate.call(args=(0,))", "the law holds"),
        ),
    ],
)
def test_an_example_of_weaving_says_what_it_should(name: str, facts: tuple[str, ...]) -> None:
    for needed in ("httpx", "numpy", "starlette") if name == "order_bugs" else ():
        pytest.importorskip(needed)
    out = run(str(EXAMPLES / f"{name}.py"))
    for fact in facts:
        assert fact in out


@pytest.mark.torch
def test_a_running_trainer_is_woven_without_its_callbacks() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("lightning")
    out = run("-W", "ignore", str(EXAMPLES / "weave_lightning.py"))
    for fact in (
        "without hooks True, with hooks False",
        "is its code as before? True",
        "steps: 16, skipped: batches [2, 2]; fit of Classifier ended",
        "after the block: removed",
    ):
        assert fact in out


def test_the_observers_of_temperatures_lose_a_reading_and_stay_alive_only_without_events() -> None:
    by_hand, _, events = run(str(EXAMPLES / "temperature.py")).partition("\n\nWith ")
    assert "the coldest night was 2012/11/10, -0.6 °C" in events
    for out in (by_hand, events):
        assert out.count("the alarm rings") == 1
    assert "is it alive? True" in by_hand and "was notified of 0 later readings; is it alive? False" in events


def test_the_example_of_temperatures_says_in_a_line_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("date,temp_max,temp_min\n2024-01-02,?,1\n", encoding="utf-8")
    command = [sys.executable, str(EXAMPLES / "temperature.py"), str(tmp_path / "bad.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "2024-01-02" in done.stderr and done.stderr.count("\n") == 1
