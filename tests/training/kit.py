"""What tests of training share: stubs of a model's parts, small models of both libraries, and runs of them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aspecthook.training import Runner
from aspecthook.training import numpy as nn

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
TORCH = pytest.param("torch", marks=[pytest.mark.torch, needs_torch])
LIBRARIES = ["numpy", TORCH]
both = pytest.mark.parametrize("library", LIBRARIES)


def with_torch(test: Any) -> Any:
    """Mark a test of PyTorch alone."""
    return pytest.mark.torch(needs_torch(test))


class Loss(float):
    """A loss without a model."""

    def backward(self) -> None: ...

    def __truediv__(self, n: float) -> Loss:
        return Loss(float(self) / n)


class Optimizer:
    """One that does nothing."""

    def __init__(self, *groups: dict[str, Any]) -> None:
        self.param_groups = list(groups) or [{"lr": 0.1, "params": []}]

    def step(self) -> None: ...

    def zero_grad(self) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {"state": {}, "param_groups": [dict(group) for group in self.param_groups]}

    def load_state_dict(self, state: Any) -> None:
        self.param_groups = [dict(group) for group in state["param_groups"]]


class Clock:
    """Shows what it was set to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def registered(runner: Runner, hooks: Iterable[Any]) -> Runner:
    for hook in hooks:
        runner.register_hook(hook, name=runner.registered.free_name(hook))
    return runner


def model_of(library: str) -> Any:
    """Make a model with the same linear layers in either library; PyTorch's has running averages besides."""
    nn.manual_seed(0)
    ours = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.25), nn.Linear(4, 2))
    if library == "numpy":
        return ours
    import torch

    parts = [torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.25), torch.nn.Linear(4, 2)]
    theirs = torch.nn.Sequential(*parts)
    theirs.load_state_dict({name: torch.tensor(value) for name, value in ours.state_dict().items()}, strict=False)
    return theirs


def data(size: int, seed: int = 1) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(5, 2)).astype(np.float32)) for _ in range(size)
    ]


def run_of(library: str, model: Any = None, hooks: Iterable[Any] = (), **options: Any) -> Runner:
    """Make a run that depends on everything that a resumed one must have: momentum, dropout, running averages."""
    model = model_of(library) if model is None else model
    loss: Any = nn.mse
    optim: Any = nn
    if library == "torch":
        import torch

        torch.set_num_threads(1)  # the models are small, and the tests run side by side
        loss, optim = torch.nn.functional.mse_loss, torch.optim
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    runner = Runner(model, optimizer=optimizer, loss=loss, **({"max_epochs": 2, "seed": 3} | options))
    return registered(runner, hooks)


def state(runner: Runner) -> dict[str, Any]:
    return runner.backend.state(runner.model)


def same(one: Any, other: Any) -> bool:
    """Whether two trees are the same, bit for bit."""
    return bool(flat(one) == flat(other))


_RANK = """
import json, os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from aspecthook import hooks

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, folder, told = dist.get_rank(), sys.argv[1], {}

def data(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(4, 3, generator=generator), torch.randn(4, 2, generator=generator)) for _ in range(size)]

def weights(runner):
    return [value.tolist() for value in runner.backend.state(runner.model).values()]
%s
json.dump(told, open(f"{folder}/../rank{rank}.json", "w"))
dist.destroy_process_group()
"""


def on_two_ranks(program: str, folder: Path) -> list[Any]:
    """Run a program in two processes of one group, each with data; give what each has put into `told`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "run").mkdir()
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _RANK % program, str(folder / "run")],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        errors = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def flat(tree: Any) -> Any:
    """Return a tree that `==` compares."""
    if isinstance(tree, dict):
        return {key: flat(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [flat(value) for value in tree]
    return (str(tree.dtype), tree.shape, tree.tobytes()) if isinstance(tree, np.ndarray) else repr(tree)
