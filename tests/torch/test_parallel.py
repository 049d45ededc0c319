"""Hooks in a model that runs in two processes at once."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

pytestmark = pytest.mark.torch

CODE = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch
from torch import distributed, nn
from aspecthook import WeaveError, weave
from aspecthook.torch import capture
from tests.torch.nets import Net, state, untouched

rank, port = int(sys.argv[1]), sys.argv[2]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
torch.set_num_threads(1)
distributed.init_process_group("gloo", rank=rank, world_size=2)


def made():
    torch.manual_seed(0)
    return Net()


def batch(rank):
    torch.manual_seed(1)
    return torch.randn(3, 4) + rank


def by_hand(rank):
    net = made()
    net.first.register_forward_hook(lambda module, args, out: out * 2)
    net.first.register_full_backward_pre_hook(lambda module, grads: (grads[0].clamp(-0.5, 0.5),))
    net.second.weight.register_hook(lambda grad: grad * 3)
    net(batch(rank).requires_grad_()).sum().backward()
    return [parameter.grad for parameter in net.parameters()]


def woven(model):
    seen = []
    with (
        weave(model, "first", post=lambda result, name: seen.append(name) or result * 2),
        weave(model, "first", backward_pre=lambda grad_output: grad_output[0].clamp(-0.5, 0.5)),
        weave(model, "second.weight", grad=lambda grad: grad * 3),
    ):
        model(batch(rank).requires_grad_()).sum().backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    assert seen == ["first"], seen
    return found


want = [(a + b) / 2 for a, b in zip(by_hand(0), by_hand(1))]
net = made()
before = state(net)
model = nn.parallel.DistributedDataParallel(net)
assert all(torch.allclose(a, b) for a, b in zip(woven(model), want))
compiled = torch.compile(model, backend="aot_eager")
assert all(torch.allclose(a, b) for a, b in zip(woven(compiled), want))
with weave(model, post=lambda result: result * 0):
    assert model(batch(rank)).abs().sum() == 0

# Woven before it is wrapped.
early = made()
weaving = weave(early, "first", post=lambda result: result * 0)
wrapped = nn.parallel.DistributedDataParallel(early)
wrapped(batch(rank)).sum().backward()
assert early.first.weight.grad.abs().sum() == 0 and early.second.bias.grad.abs().sum() > 0
weaving.remove()

with capture(model, "*", gradients=True) as seen:
    model(batch(rank)).sum().backward()
assert seen["second"].gradient.eq(1).all() and list(seen) == ["first", "second"]
assert untouched(net, before)

# Sharded: hooks of modules act.
from torch.distributed.fsdp import fully_shard

sharded = made()
plain = sharded(batch(rank)).detach()
for layer in (sharded.first, sharded.second, sharded):
    fully_shard(layer, mesh=distributed.init_device_mesh("cpu", (2,)))
with weave(sharded, "first", post=lambda result: result * 0, backward=lambda grad_input: grad_input[0] * 5):
    x = batch(rank).requires_grad_()
    out = sharded(x)
    assert torch.allclose(out, sharded.second.bias.full_tensor().expand(3, 3))
    out.sum().backward()
assert torch.allclose(sharded(batch(rank)), plain)
try:
    weave(sharded, "first.weight", grad=print)
    raise AssertionError("the hook was accepted, and PyTorch never calls it")
except WeaveError as error:
    assert "first.weight is divided among ranks (fully_shard), and PyTorch calls no hooks on its" in str(error)
print("done", rank)
distributed.destroy_process_group()
"""


def test_hooks_act_under_ddp_compiled_or_not() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", CODE, str(rank), port], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    ends = [run.communicate(timeout=240) for run in runs]
    for rank, (out, err) in enumerate(ends):
        assert out == f"done {rank}\n", err
