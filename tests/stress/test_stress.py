"""Law 5 under load: each case of the modules beside this one, in a process of its own."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .cases import PATIENCE

MODULES = ["threads", "forks", "interrupts", "finalizers"]
if all(map(find_spec, ("numpy", "autograd", "safetensors"))):  # the extra `train`
    MODULES.append("kills")
UNIX = ("forks", "interrupts", "kills")
CASES = [
    pytest.param(
        name,
        case,
        marks=[
            pytest.mark.skipif(name in UNIX and not hasattr(os, "fork"), reason="needs Unix"),
            *([pytest.mark.torch] if case == "torch" else []),
        ],
    )
    for name in MODULES
    for case in importlib.import_module(f"tests.stress.{name}").CASES
]


@pytest.mark.stress
@pytest.mark.parametrize(("module", "case"), CASES)
def test_the_laws_hold_under_load(module: str, case: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", f"tests.stress.{module}", case],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=PATIENCE + 30,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    assert done.stdout.endswith(f"{case} holds\n")
