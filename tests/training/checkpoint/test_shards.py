"""The checkpoints of sharded models: their folders, and what is refused.

One process with a process group of its own is enough; test_ranks.py has several.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.stress]

SCRIPT = """
import json, shutil, sys
from pathlib import Path
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from aspecthook.training import CheckpointHook, Runner, TrainingError
from aspecthook.training.checkpoint import load, save

home = Path(sys.argv[1])
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
data = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(4)]

def run_of(folder, shard=True, width=3, **options):
    model = nn.Sequential(nn.Linear(width, 1), nn.BatchNorm1d(1))
    if shard:
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return Runner(model, optimizer=optimizer, loss=nn.functional.mse_loss, work_dir=folder, **options)

def folders(folder):
    return sorted(path.name.rpartition(".")[0] for path in folder.glob("*.shards.*"))

def whole(run):
    return {name: array.tolist() for name, array in run.backend.state(run.model).items()}

def refused(call):
    try:
        call()
    except TrainingError as error:
        return str(error)
    raise AssertionError("it was not refused")

seen = {}
first = run_of(home / "run", max_iters=4)
(home / "run").mkdir()
(home / "run" / "iter_3.shards.dead").mkdir()  # of a killed run
first.register_hook(CheckpointHook(1, by_epoch=False, max_keep=2))
first.fit(data)
seen["kept"] = folders(home / "run")
path = home / "run" / "iter_4.safetensors"
raw = load(path)
shards = home / "run" / raw["shards"]["folder"]
seen["in the file"] = [name for name, array in raw["model"].items() if array is not None]
seen["as saved"] = whole(first)
for name, shard in (("sharded", True), ("whole", False)):
    again = run_of(None, shard=shard, max_iters=4)
    again.resume(path)
    seen[name] = whole(again)
    state, before = again.optimizer.state_dict()["state"], first.optimizer.state_dict()["state"]
    for number, values in state.items():
        for key, value in values.items():
            theirs = before[number][key]
            value, theirs = (one.full_tensor() if hasattr(one, "full_tensor") else one for one in (value, theirs))
            assert torch.equal(value, theirs), key

def fails(change):
    shutil.rmtree(home / "damaged", ignore_errors=True)
    shutil.copytree(home / "run", home / "damaged")
    folder = home / "damaged" / shards.name
    change(folder, next(iter(folder.iterdir())))
    run = run_of(None, max_iters=4)
    before = whole(run)
    message = refused(lambda: run.resume(home / "damaged" / path.name))
    assert whole(run) == before
    return message

def flip(folder, file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

def forge(**changes):
    def change(folder, file):
        tree = load(home / "run" / path.name)
        tree["shards"].update(changes)
        if "tensors" in changes:
            row = {"place": ["model", "a"], "shape": [2**20, 2**20], "dtype": changes["tensors"]}
            tree["shards"]["tensors"] = {"a": row}
        save(home / "damaged" / path.name, tree)
    return change

seen["flipped"] = fails(flip)
seen["removed"] = fails(lambda folder, file: file.unlink())
seen["no folder"] = fails(lambda folder, file: shutil.rmtree(folder))
seen["added"] = fails(lambda folder, file: shutil.copy(file, folder / "more.safetensors"))
seen["elsewhere"] = fails(forge(folder="../run/" + shards.name))
seen["huge"] = fails(forge(tensors="float32"))
seen["type"] = fails(forge(tensors="load"))
seen["malformed"] = fails(forge(files=3))
other = run_of(None, width=5, max_iters=4)
seen["other model"] = refused(lambda: other.resume(path))
second = run_of(home / "run", max_iters=1)  # another run in the same folder
second.fit(data)
seen["left"], seen["aside"] = folders(home / "run"), folders(home / "run" / "run.1")
third = run_of(None, max_iters=4)
third.resume(home / "run" / "run.1" / path.name)
seen["moved"] = whole(third)
(home / "seen.json").write_text(json.dumps(seen))
torch.distributed.destroy_process_group()
"""


def test_a_sharded_model_is_saved_in_a_folder_of_safetensors_beside_its_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["kept"] == ["iter_3.shards", "iter_4.shards"]  # neither older ones, nor that of the killed run
    assert sorted(seen["in the file"]) == ["1.num_batches_tracked", "1.running_mean", "1.running_var"]
    assert seen["as saved"] == seen["sharded"] == seen["whole"] == seen["moved"]
    for what in ("flipped", "removed", "no folder", "added"):
        assert ".safetensors" in seen[what] and "missing, damaged, or not of this checkpoint" in seen[what]
    assert "which no run writes" in seen["elsewhere"]
    assert "more than its files have" in seen["huge"]
    assert "could not be loaded" in seen["type"] and "could not be loaded" in seen["malformed"]
    assert "of another shape: 0.weight" in seen["other model"]
    assert (seen["left"], seen["aside"]) == ([], ["iter_3.shards", "iter_4.shards"])
