"""The example of PyTorch runs, and says what it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)
pytest.importorskip("matplotlib")
pytest.importorskip("autograd")
pytest.importorskip("safetensors")

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_grad_cam_draws_what_the_network_looks_at_and_leaves_no_trace(tmp_path: Path) -> None:
    picture = tmp_path / "cam.png"
    command = [sys.executable, "-W", "error", str(EXAMPLES / "grad_cam.py"), "--epochs", "1", "--out", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXAMPLES.parent)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
    assert "is the network as it was? True" in done.stdout
