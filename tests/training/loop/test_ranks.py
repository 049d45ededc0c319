"""Several processes that train one model, as torchrun starts them: what they decide, and who writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aspecthook.training.checkpoint import load

pytestmark = [pytest.mark.torch, pytest.mark.stress]

SCRIPT = """
import json, os, sys
from pathlib import Path
import torch
from torch.nn.parallel import DistributedDataParallel
from aspecthook import hooks
from aspecthook.training import CheckpointHook, EarlyStoppingHook, EvalHook, JsonLoggerHook, NanGuardHook, Runner

folder, what = Path(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
runner = Runner(model, optimizer=optimizer, loss=torch.nn.functional.mse_loss, max_epochs=6, work_dir=folder / "run")
torch.manual_seed(rank)
data = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(3)]
# Each rank would decide otherwise by its own numbers.
scores = iter([[0.1, 0.5, 0.4, 0.3, 0.2, 0.1], [0.9, 0.1, 0.8, 0.9, 0.95, 0.99]][rank])
runner.register_hook(EvalHook(data, evaluate=lambda outputs, batches: {"accuracy": next(scores)}, save_best="accuracy"))
runner.register_hook(EarlyStoppingHook("accuracy", patience=2, min_delta=0.0))
runner.register_hook(NanGuardHook())
runner.register_hook(JsonLoggerHook(interval=1))
runner.register_hook(CheckpointHook(1))
if what == "nan":
    hooks(runner.forward).post(lambda result, iter: result * float("nan") if rank == 1 and iter == 4 else None)
if what == "fail":
    def fail(iter):
        if rank == 1 and iter == 4:
            raise RuntimeError("rank 1 has failed")
    hooks(runner.backward).pre(fail)
try:
    runner.fit(data)
finally:
    weights = [parameter.tolist() for parameter in model.parameters()]
    seen = {"epoch": runner.epoch, "iter": runner.iter, "weights": weights}
    (folder / f"rank{rank}.json").write_text(json.dumps(seen))
torch.distributed.destroy_process_group()
"""


def run(folder: Path, what: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    pytest.importorskip("torch")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(script), str(folder), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    return done, [json.loads(path.read_text()) for path in sorted(folder.glob("rank*.json"))]


def test_all_ranks_stop_where_the_first_says_and_it_alone_writes(tmp_path: Path) -> None:
    done, ranks = run(tmp_path, "train")
    assert done.returncode == 0, done.stderr
    first, second = ranks
    assert first == second and first["epoch"] == 4  # the best in the second epoch, and two that are no better
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    best = [name for name in names if name.startswith("best")]
    assert best == ["best_val_accuracy_epoch_2.safetensors"]
    assert names == sorted([*best, *(f"epoch_{epoch}.safetensors" for epoch in range(1, 5)), "log.jsonl", "run.json"])
    rows = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert len([row for row in rows if json.loads(row)["mode"] == "train"]) == 12
    assert load(tmp_path / "run" / "epoch_4.safetensors")["progress"]["iter"] == 12


@pytest.mark.parametrize(("what", "message"), [("nan", "NanLossError"), ("fail", "rank 1 has failed")])
def test_a_rank_that_fails_ends_all_with_its_error(what: str, message: str, tmp_path: Path) -> None:
    done, _ = run(tmp_path, what)
    assert done.returncode != 0 and message in done.stderr
    assert "epoch_1.safetensors" in {path.name for path in (tmp_path / "run").iterdir()}
