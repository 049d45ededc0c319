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
from aspecthook.training.session import SessionRunArgs, SessionRunHook

GOLDEN = Path(__file__).with_name("all_systems.txt")
pytestmark = pytest.mark.torch


def run() -> str:
    torch = pytest.importorskip("torch")
    trail: list[str] = []

    class Mm(Hook):
        priority = "HIGH"

        def before_run(self) -> None:
            trail.append("mm       before_run")

        def before_train_epoch(self, epoch: int) -> None:
            trail.append(f"mm         before_train_epoch {epoch}")

        def before_train_iter(self, iter: int) -> None:
            trail.append(f"mm           before_train_iter {iter}")

        def after_forward(self, result: Any) -> None:
            trail.append("mm             after_forward")

        def before_optimizer_step(self, step: int) -> None:
            trail.append(f"mm             before_optimizer_step {step}")

        def after_train_iter(self, iter: int) -> None:
            trail.append(f"mm           after_train_iter {iter}")

        def after_train_epoch(self, epoch: int) -> None:
            trail.append(f"mm         after_train_epoch {epoch}")

        def after_run(self) -> None:
            trail.append("mm       after_run")

    class Keras(Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            trail.append("keras    on_train_begin")

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            trail.append(f"keras      on_epoch_begin {epoch}")

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            trail.append(f"keras        on_train_batch_begin {batch}")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            trail.append(f"keras        on_train_batch_end {batch} {sorted(logs)}")

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            trail.append(f"keras      on_epoch_end {epoch} {sorted(logs)}")

        def on_train_end(self, logs: Any = None) -> None:
            trail.append("keras    on_train_end")

    class Session(SessionRunHook):
        def begin(self) -> None:
            trail.append("session  begin")

        def after_create_session(self, session: Any, coord: Any) -> None:
            trail.append("session  after_create_session")

        def before_run(self, run_context: Any) -> SessionRunArgs:
            trail.append("session      before_run")
            return SessionRunArgs(["global_step", "output:0"])

        def after_run(self, run_context: Any, run_values: Any) -> None:
            step, output = run_values.results
            trail.append(f"session      after_run {step} {output.shape}")

        def end(self, session: Any) -> None:
            trail.append("session  end")

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(2)]
    runner = Runner(model, optimizer=optimizer, loss=torch.nn.functional.mse_loss, max_epochs=2)
    for hook in (Keras(), Session(), Mm()):
        runner.register_hook(hook)
    printed = io.StringIO()
    with weave(model, "2", post=lambda name: trail.append(f"pytorch        forward of {name}")):
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
