"""One run with hooks of every system on it: what comes when, as a golden file, and the order as `explain` has it."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

from aspecthook import explain, weave
from aspecthook.training import Hook, Runner
from aspecthook.training.keras import Callback
from aspecthook.training.keras._callback import EVENTS
from tests.training.kit import registered
from tests.training.session.kit import Trail

GOLDEN = Path(__file__).with_name("all_systems.txt")
pytestmark = pytest.mark.torch


def run() -> str:
    torch = pytest.importorskip("torch")
    trail: list[str] = []

    def noting(line: str) -> Any:
        return lambda self, *given, **named: trail.append(line)

    mm = ["before_run", "before_train_epoch", "before_train_iter", "after_forward", "before_optimizer_step"]
    mm += ["after_train_iter", "after_train_epoch", "after_run"]
    keras = [name for name in EVENTS if "test" not in name and "predict" not in name]
    made = [
        type("Keras", (Callback,), {name: noting(f"keras.{name}") for name in keras})(),
        Trail("session", trail, ["global_step", "output:0"]),
        type("Mm", (Hook,), {"priority": "HIGH", **{name: noting(f"mm.{name}") for name in mm}})(),
    ]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(2)]
    runner = Runner(model, optimizer=optimizer, loss=torch.nn.functional.mse_loss, max_epochs=2)
    registered(runner, made)
    printed = io.StringIO()
    with weave(model, "2", post=lambda name: trail.append(f"pytorch.forward of {name}")):
        runner.fit(data, data[:1])
        with contextlib.redirect_stdout(printed):
            explain(runner.train_iter)
    assert "forward" not in vars(model[2])
    # Without the rows of the table and the places in files, which change with any line above them.
    code = "".join(line for line in printed.getvalue().splitlines(keepends=True) if not line.startswith("#  "))
    source = re.sub(r", \w+\.py:\d+", "", code)
    return "\n".join([*trail, "", source])


def test_hooks_of_all_systems_share_one_run_in_one_order() -> None:
    found = run()
    if os.environ.get("UPDATE_SNAPSHOTS"):
        GOLDEN.write_text(found, "utf-8")
    assert found == GOLDEN.read_text("utf-8")
