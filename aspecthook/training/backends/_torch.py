"""The back end of PyTorch modules."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from itertools import chain
from typing import Any, final

import numpy as np

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

from ._backend import Array, Arrays, Backend, Batch, Tensor, is_array
from ._state import map_leaves

# Any: imported like this, the file type-checks the same whether or not PyTorch is installed.
torch: Any = import_module("torch")


@final
class TorchBackend(Backend):
    """See `Backend`. Models wrapped by DistributedDataParallel or torch.compile keep their own names."""

    __slots__ = ()
    name = "torch"
    tensor = torch.Tensor

    def parts(self, model: object) -> dict[str, Any]:
        """Return the module that a model is, or those in its attributes, without the wrappers around them."""
        return {prefix: _bare(module) for prefix, module in super().parts(model).items()}

    def place(self, model: object, device: str | None = None) -> None:
        """Move a model that is on the CPU to the device; by default to the GPU of this process, if there is one."""
        if device is None and torch.cuda.is_available():
            device = f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"
        if device is None or self._device(model).type != "cpu":
            return
        for part in self.parts(model).values():
            part.to(device)

    # The averages and arrays may be tensors on the device of the model, which `as_tensor` returns as they are. For an
    # array it returns a tensor that shares the memory of the array.

    def mix(self, model: object, averages: Arrays, weight: float) -> None:
        with torch.no_grad():
            for array, parameter in self._pairs(model, averages):
                average = torch.as_tensor(array)
                average.mul_(1 - weight).add_(parameter.to(average.device, average.dtype), alpha=weight)

    def swap(self, model: object, arrays: Arrays) -> None:
        with torch.no_grad():
            for array, parameter in self._pairs(model, arrays):
                before = parameter.clone()
                parameter.copy_(torch.as_tensor(array))
                torch.as_tensor(array).copy_(before)

    def clip_gradients(self, model: object, max_norm: float, norm_type: float = 2.0) -> float:
        parameters = [parameter for part in self.parts(model).values() for parameter in part.parameters()]
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
        # The norm of a model that is divided among ranks, by `fully_shard`, is a tensor that is divided too.
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)

    no_grad = torch.no_grad  # a class, which is given no `self`

    def amp(self, kind: bool | str, model: object) -> TorchAmp:
        """Return mixed precision: ``"fp16"``, ``"bf16"``, or with True fp16 on a GPU and bf16 elsewhere."""
        return TorchAmp(kind, self._device(model).type)

    def to_array(self, tensor: Tensor) -> Array:
        """Return a copy of a tensor as an array; bfloat16, which NumPy lacks, as float32, which is exact."""
        if not isinstance(tensor, torch.Tensor):
            raise TrainingError(
                f"the state of the model has {brief(tensor)}, and a checkpoint keeps only its tensors; make it a buffer"
            )
        if hasattr(tensor, "full_tensor"):
            raise TrainingError(
                "the model is divided among ranks (fully_shard), and a checkpoint has whole arrays; save it with "
                "torch.distributed.checkpoint in a hook: see FSDP2 on the page on many processes"
            )
        tensor = tensor.detach()
        if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
            tensor = tensor.float()
        array: Array = tensor.cpu().numpy()
        return np.array(array) if tensor.device.type == "cpu" else array  # one from a GPU is a copy already

    def to_tensor(self, array: Array, like: Tensor = None) -> Tensor:
        tensor = torch.tensor(array)
        return tensor if like is None else tensor.to(like)

    def mover(self, model: object) -> Callable[[Batch], Batch]:
        device, tensor = self._device(model), torch.Tensor

        def moved(leaf: Any) -> Any:
            if not is_array(leaf):
                movable = leaf
            elif leaf.dtype.kind in "biufc":
                movable = torch.from_numpy(leaf if leaf.flags.writeable else leaf.copy())
            else:  # PyTorch has no tensors of strings and objects
                return leaf
            return movable.to(device, non_blocking=device.type == "cuda") if hasattr(movable, "to") else movable

        def move(batch: Any) -> Any:
            # For the usual batch, a few tensors on the device, this loop takes a tenth of the time of `map_leaves`.
            if type(batch) in (list, tuple):
                for one in batch:
                    if type(one) is not tensor or one.device != device:
                        break
                else:
                    return batch
            # A batch with a method `to`, such as those of tokenizers, moves itself.
            return map_leaves(moved, batch, lambda value: hasattr(value, "to"))

        return move

    def seed(self, seed: int) -> None:
        super().seed(seed)
        torch.manual_seed(seed)  # those of all devices

    def rng_state(self) -> dict[str, Any]:
        cuda = [self.to_array(state) for state in torch.cuda.get_rng_state_all()]
        return {**super().rng_state(), "torch": self.to_array(torch.get_rng_state()), "cuda": cuda}

    def set_rng_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `rng_state` returned; this machine may have fewer GPUs than the one that saved it."""
        super().set_rng_state(state)
        torch.set_rng_state(torch.tensor(state["torch"]))
        for number, array in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(torch.tensor(array), number)

    def _device(self, model: object) -> Any:
        for part in self.parts(model).values():
            for tensor in chain(part.parameters(), part.buffers()):
                return tensor.device
        return torch.device("cpu")


@final
class TorchAmp(torch.amp.GradScaler):  # type: ignore[misc]  # it has no type where PyTorch is not installed
    """Mixed precision: where to compute in it, and the scaling of losses that half precision needs."""

    def __init__(self, kind: bool | str, device: str) -> None:
        if kind is True:
            kind = "fp16" if device == "cuda" else "bf16"
        torch.amp.GradScaler.__init__(self, device, enabled=kind == "fp16")
        self._context: AbstractContextManager[object] = torch.autocast(
            device, dtype=torch.float16 if kind == "fp16" else torch.bfloat16
        )

    def autocast(self) -> AbstractContextManager[object]:
        """Compute the forward pass in mixed precision in a ``with`` block."""
        return self._context

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:  # PyTorch refuses the empty state of a precision that scales nothing
            torch.amp.GradScaler.load_state_dict(self, dict(state))


def _bare(module: Any) -> Any:
    """Return a module without the wrappers around it."""
    while True:
        if isinstance(module, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            module = module.module
        elif "_orig_mod" in module._modules:  # torch.compile's; hasattr is slow where a module has no such attribute
            module = module._orig_mod
        else:
            return module
