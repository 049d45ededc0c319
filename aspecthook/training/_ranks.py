"""How the processes of one distributed run agree.

A hook that stops, skips or raises must do so on all ranks at once: otherwise the others wait forever for the one that
has left. Without `torch.distributed`, or in a single process, each function returns what this process alone would.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, TypeVar

Value = TypeVar("Value")

# The newest operation of `highest`, which is the last one of a run. If nobody kept it, a thread of gloo would drop its
# tensor, and need the GIL for that; if Python ends at that moment, the process aborts (PyTorch's issue 190489). To
# destroy the process group does not end these threads as long as a model uses it.
_newest: list[Any] = []


def rank_and_world_size() -> tuple[int, int]:
    """Return the rank of this process and the number of processes: of its process group, or as torchrun sets them."""
    group = process_group()
    if group is not None:
        return group.get_rank(), group.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


# Any: this file has the same types whether or not PyTorch is installed.
def process_group() -> Any:
    """Return torch.distributed if this process is one of several in a process group, else None."""
    distributed = sys.modules.get("torch.distributed")  # nobody can have joined a group before it is imported
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed if distributed.get_world_size() > 1 else None


def broadcast(value: Value) -> Value:
    """Return the value that rank 0 has."""
    group = process_group()
    if group is None:
        return value
    values = [value]
    group.broadcast_object_list(values, src=0)
    return values[0]


def all_gather(value: Value) -> list[Value]:
    """Return the values of all ranks, in the order of the ranks."""
    group = process_group()
    if group is None:
        return [value]
    values: list[Any] = [None] * group.get_world_size()
    group.all_gather_object(values, value)
    return values


def any_rank(flag: bool) -> bool:
    """Whether the flag is set on any rank."""
    return bool(highest(flag))


def highest(number: int) -> int:
    """Return the highest of the numbers that the ranks have."""
    group = process_group()
    if group is None:
        return number
    torch = import_module("torch")
    # A tensor: this runs in every step, and pickling an object would take longer.
    numbers = torch.tensor([number], dtype=torch.int32, device="cuda" if group.get_backend() == "nccl" else "cpu")
    work = group.all_reduce(numbers, op=group.ReduceOp.MAX, async_op=True)
    work.wait()
    _newest[:] = [work]
    return int(numbers.item())
