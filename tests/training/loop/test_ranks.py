"""Several processes that train one model, as torchrun starts them: what they decide, and who writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
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
torch.distributed.barrier()  # see docs/training/many-processes.md
torch.distributed.destroy_process_group()
"""


# Each rank draws its own dropout. The loader takes its rank and the number of ranks from torchrun.
SHARED = """
import json, os, signal, sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from aspecthook import hooks
from aspecthook.training import CheckpointHook, CheckpointLoaderHook, EMAHook, EvalHook, OptimizerHook, Runner
from aspecthook.training.data import ArrayDataset, DataLoader, Resumable

folder, what, epochs = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
rank = int(os.environ.get("RANK", "0"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))
if "RANK" in os.environ:
    model = DistributedDataParallel(model)
torch.manual_seed(rank)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
numbers = torch.arange(32.0)
inputs = torch.stack([numbers, numbers.sin(), numbers.cos(), (numbers * 3).sin()], 1)
inputs[:, 0] /= 32
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
train = Resumable(torch.utils.data.DataLoader(data, batch_size=2, shuffle=True))
val = DataLoader(ArrayDataset(inputs.numpy(), inputs.numpy().sum(1, keepdims=True)), 2)
runner = Runner(model, optimizer=optimizer, loss=nn.functional.mse_loss, max_epochs=epochs, work_dir=folder / "run")
runner.register_hook(CheckpointLoaderHook(folder / "run", missing_ok=True))
runner.register_hook(CheckpointHook(1, by_epoch=False))
count = lambda outputs, batches: {"rows": sum(len(batch[0]) for batch in batches)}
runner.register_hook(EvalHook(val, evaluate=count))
read = []

def note(batch, epoch, iter):
    read.append((epoch, iter, (batch[0][:, 0] * 32).round().int().tolist()))
    (folder / f"read{runner.world_size}.{rank}.json").write_text(json.dumps(read))
    first = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
    if rank == 1 and iter == 5 and first and what.endswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and iter == 5 and what == "stop":
        runner.request_stop()
    if rank == 1 and iter == 5 and what == "term":
        os.kill(os.getpid(), signal.SIGTERM)

hooks(runner.train_iter).pre(note)
try:
    runner.fit(train)
finally:
    state = runner.backend.state(model) if what != "term" else {}
    seen = {"iter": runner.iter, "weights": {name: array.tolist() for name, array in state.items()}}
    (folder / f"rank{rank}.json").write_text(json.dumps({**seen, "logs": runner.logs}))
if "RANK" in os.environ:
    torch.distributed.barrier()
    os._exit(0)  #
"""


def run(
    folder: Path, what: str, script: str = SCRIPT, *, ranks: int = 2, options: tuple[str, ...] = (), epochs: int = 2
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    pytest.importorskip("torch")
    folder.mkdir(exist_ok=True)
    file = folder / "script.py"
    file.write_text(script)
    for old in folder.glob("rank*.json"):
        old.unlink()
    command = [sys.executable]
    if ranks > 1:
        command += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", "0", *options]
        command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command += [str(file), str(folder), what, str(epochs)]
    # After a restart, ranks find the addresses of those before in a shared store (PyTorch's issue 135712).
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
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


def test_a_run_that_torchrun_restarts_ends_as_one_without_a_kill(tmp_path: Path) -> None:
    """It did not: all ranks continued with the random numbers of rank 0."""
    done, undisturbed = run(tmp_path / "whole", "ddp", SHARED)
    assert done.returncode == 0, done.stderr
    assert [rank["iter"] for rank in undisturbed] == [16, 16]
    done, restarted = run(tmp_path / "killed", "ddp-kill", SHARED, options=("--max-restarts", "1"))
    assert done.returncode == 0, done.stderr
    assert "SIGKILL" in done.stderr or "-9" in done.stderr
    assert restarted == undisturbed
    assert undisturbed[0]["weights"] == undisturbed[1]["weights"]
    assert undisturbed[0]["logs"]["val_rows"] == 32


@pytest.mark.parametrize("ranks", [2, 4])
def test_metrics_of_divided_data_are_those_of_one_process(ranks: int, tmp_path: Path) -> None:
    """They were those of the samples of rank 0."""
    done, (last, *_) = run(tmp_path, "ddp", SHARED, ranks=ranks, epochs=1)
    assert done.returncode == 0, done.stderr
    weights = {name: np.asarray(array) for name, array in last["weights"].items()}
    numbers = np.arange(32.0)
    inputs = np.stack([numbers / 32, np.sin(numbers), np.cos(numbers), np.sin(numbers * 3)], 1)
    outputs = np.tanh(inputs @ weights["0.weight"].T + weights["0.bias"]) @ weights["3.weight"].T + weights["3.bias"]
    loss = np.mean((outputs[:, 0] - inputs.sum(1)) ** 2)
    assert last["logs"]["val_loss"] == pytest.approx(loss, rel=1e-5)
    assert last["logs"]["val_rows"] == 32


@pytest.mark.parametrize(("what", "message"), [("stop", ""), ("term", "interrupted after iteration 6; saved ")])
def test_what_ends_one_rank_ends_all_after_the_same_iteration(what: str, message: str, tmp_path: Path) -> None:
    """They waited forever for the one that had left."""
    done, _ = run(tmp_path, what, SHARED)
    assert (done.returncode == 0) == (what == "stop"), done.stderr
    assert message in done.stderr
    assert [json.loads((tmp_path / f"read2.{rank}.json").read_text())[-1][1] for rank in (0, 1)] == [5, 5]
    assert (tmp_path / "run" / "interrupted.ckpt").exists() == (what == "term")
    name = "interrupted.ckpt" if what == "term" else "iter_6.safetensors"
    assert load(tmp_path / "run" / name)["progress"]["iter"] == 6


SHARDED = """
import torch
from torch.distributed.fsdp import fully_shard
from aspecthook.training import CheckpointHook, OptimizerHook, Runner, TrainingError

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(3, 1)
fully_shard(model, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (1,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
runner = Runner(model, optimizer=optimizer, loss=torch.nn.functional.mse_loss, max_epochs=1)
runner.register_hook(OptimizerHook(grad_clip={"max_norm": 1.0}))
data = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(4)]
runner.fit(data)
assert runner.step == 4
try:
    runner.save_checkpoint("run.ckpt")
except TrainingError as error:
    print(error)
torch.distributed.destroy_process_group()
"""


def test_a_divided_model_is_trained_and_its_checkpoint_is_refused_with_what_to_write(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHARDED],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert done.returncode == 0, done.stderr
    assert "save it with torch.distributed.checkpoint in a hook" in done.stdout and not list(tmp_path.iterdir())
