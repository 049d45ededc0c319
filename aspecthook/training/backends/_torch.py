"""The back end of PyTorch modules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from itertools import chain
from typing import Any, final

import numpy as np

from aspecthook.training._errors import TrainingError

from ._protocol import Amp, Array, Arrays
from ._random import rng_states, seed_all, set_rng_states
from ._state import check_arrays, is_any, load_optimizer_state, modules_of, optimizer_state

# Imported so, this file has the same types whether or not PyTorch is installed.
torch: Any = import_module("torch")


@final
class TorchBackend:
    """See `Backend`. Models wrapped by DistributedDataParallel or torch.compile keep their own names."""

    __slots__ = ()
    name = "torch"

    def place(self, model: Any, device: str | None = None) -> None:
        """Move a model that is on the CPU to the device; to the GPU of this process, if there is one, unless given."""
        if _device(model).type != "cpu":
            return
        if device is None and torch.cuda.is_available():
            device = f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"
        if device is not None:
            for part in _parts(model).values():
                part.to(device)

    def to_device(self, batch: Any, model: Any) -> Any:
        """Return the batch with tensors instead of arrays, where the parameters of the model are."""
        return _moved(batch, _device(model))

    def mover(self, model: Any) -> Callable[[Any], Any]:
        device = _device(model)
        return lambda batch: _moved(batch, device)

    def parameters(self, model: Any) -> dict[str, Any]:
        parts = _parts(model).items()
        return {prefix + name: parameter for prefix, part in parts for name, parameter in part.named_parameters()}

    def state(self, model: Any) -> Arrays:
        """Return the parameters and the buffers; bfloat16, which NumPy lacks, as float32, which is exact."""
        return {name: _array(tensor) for name, tensor in _state(model).items()}

    def load_state(self, model: Any, arrays: Mapping[str, Array]) -> None:
        check_arrays(type(model).__name__, {name: tensor.shape for name, tensor in _state(model).items()}, arrays)
        for prefix, part in _parts(model).items():
            part.load_state_dict({name: torch.tensor(arrays[prefix + name]) for name in part.state_dict()})

    def gradients(self, model: Any) -> dict[str, Array | None]:
        return {name: None if p.grad is None else _array(p.grad) for name, p in self.parameters(model).items()}

    def load_gradients(self, model: Any, arrays: Mapping[str, Array | None]) -> None:
        for name, parameter in self.parameters(model).items():
            array = arrays.get(name)
            parameter.grad = None if array is None else torch.tensor(array).to(parameter)

    def clip_gradients(self, model: Any, max_norm: float, norm_type: float = 2.0) -> float:
        return float(torch.nn.utils.clip_grad_norm_(_parameters(model), max_norm, norm_type))

    def mix(self, model: Any, arrays: Arrays, weight: float) -> None:
        """Move the arrays towards the model, in place; they may be tensors too, on the device of the model."""
        with torch.no_grad():
            for array, value in self._pairs(model, arrays):
                if array.is_floating_point() or array.is_complex():
                    array.mul_(1 - weight).add_(value.to(array.device, array.dtype), alpha=weight)
                else:
                    array.copy_(value)

    def swap(self, model: Any, arrays: Arrays) -> None:
        """Exchange the arrays with the model's values of these names, in place; they may be tensors too."""
        with torch.no_grad():
            pairs = self._pairs(model, arrays)
            before = [value.clone() for _, value in pairs]  # all of them first: one tensor may have two names
            for array, value in pairs:
                value.copy_(array)
            for (array, _), value in zip(pairs, before, strict=True):
                array.copy_(value)

    def item(self, value: Any) -> float:
        return float(value.item() if hasattr(value, "item") else value)

    def is_nan(self, value: Any) -> bool:
        return bool(torch.isnan(torch.as_tensor(value)).any())

    def no_grad(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = torch.no_grad()
        return context

    def amp(self, kind: bool | str = True, model: Any = None) -> Amp:
        """Return mixed precision: ``"fp16"``, ``"bf16"``, or with True fp16 on a GPU and bf16 elsewhere."""
        if model is not None:
            return TorchAmp(kind, _device(model).type)
        return TorchAmp(kind, "cuda" if torch.cuda.is_available() else "cpu")

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        return optimizer_state(optimizer, lambda leaf: _array(leaf) if isinstance(leaf, torch.Tensor) else leaf)

    def load_optimizer_state(self, optimizer: Any, state: Mapping[str, Any]) -> None:
        load_optimizer_state(optimizer, state, lambda leaf: torch.tensor(leaf) if is_any(leaf, np.ndarray) else leaf)

    def seed(self, seed: int) -> None:
        seed_all(seed)
        torch.manual_seed(seed)  # those of all devices

    def rng_state(self) -> dict[str, Any]:
        cuda: list[Any] = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return {**rng_states(), "torch": _array(torch.get_rng_state()), "cuda": [_array(state) for state in cuda]}

    def set_rng_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `rng_state` returned; of the devices, those that are here."""
        set_rng_states(state)
        torch.set_rng_state(torch.tensor(state["torch"]))
        here: int = torch.cuda.device_count() if torch.cuda.is_available() else 0
        for place, array in enumerate(state["cuda"][:here]):
            torch.cuda.set_rng_state(torch.tensor(array), place)

    def _pairs(self, model: Any, arrays: Arrays) -> list[tuple[Any, Any]]:
        """Return tensors that share the memory of the arrays, each with the tensor of the model of the same name."""
        held: dict[str, Any] = {}
        for prefix, part in _parts(model).items():
            for rows in (part.named_parameters, part.named_buffers):
                held.update((prefix + name, tensor) for name, tensor in rows(remove_duplicate=False))
        check_arrays(type(model).__name__, {name: t.shape for name, t in held.items()}, arrays, partly=True)
        for name, array in arrays.items():
            if not is_any(array, torch.Tensor):
                arrays[name] = np.asarray(array)  # NumPy computes scalars from arrays without axes
        return [(torch.as_tensor(array), held[name]) for name, array in arrays.items()]


@final
class TorchAmp:
    """See `Amp`.

    Args:
        kind: ``"fp16"`` (or True on a GPU), which scales losses; ``"bf16"`` (or True on the CPU), which does not.
        device: The type of the device.
    """

    __slots__ = ("_device", "_dtype", "_scaler", "_unscaled")

    def __init__(self, kind: bool | str, device: str) -> None:
        self._device = device
        if kind is True:
            kind = "fp16" if device == "cuda" else "bf16"
        kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
        if kind not in kinds:
            raise TrainingError(f"amp={kind!r}: give True, 'fp16' or 'bf16'")
        self._dtype: Any = kinds[kind]
        self._scaler: Any = torch.amp.GradScaler(device, enabled=kind == "fp16")
        # The ids of the optimizers whose gradients are unscaled, and which have not stepped since.
        self._unscaled: set[int] = set()

    def autocast(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = torch.autocast(self._device, dtype=self._dtype)
        return context

    def scale(self, loss: Any) -> Any:
        if self._unscaled:  # a hook has skipped a step, which the scaler would take for a mistake
            self._update()
        return self._scaler.scale(loss)

    def unscale(self, optimizer: Any) -> None:
        if id(optimizer) not in self._unscaled:
            self._scaler.unscale_(optimizer)
            self._unscaled.add(id(optimizer))

    def step(self, optimizer: Any) -> None:
        self._scaler.step(optimizer)
        self._update()

    def _update(self) -> None:
        self._scaler.update()
        self._unscaled.clear()

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._scaler.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state and self._scaler.is_enabled():
            self._scaler.load_state_dict(dict(state))


def _parts(model: Any) -> dict[str, Any]:
    """Return the modules that a model is or has, unwrapped, by the prefix of their names."""
    return {prefix: _bare(module) for prefix, module in modules_of(model, torch.nn.Module).items()}


def _bare(module: Any) -> Any:
    while True:
        if isinstance(module, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            module = module.module
        elif hasattr(module, "_orig_mod"):  # torch.compile's
            module = module._orig_mod
        else:
            return module


def _state(model: Any) -> dict[str, Any]:
    """Return the tensors of the state of a model themselves."""
    found: dict[str, Any] = {}
    for prefix, part in _parts(model).items():
        for name, value in part.state_dict().items():
            if not isinstance(value, torch.Tensor):
                raise TrainingError(
                    f"{prefix}{name} in the state of {type(model).__name__} is of type {type(value).__name__}, and a "
                    "checkpoint keeps only tensors of a model; make it a buffer"
                )
            found[prefix + name] = value
    return found


def _parameters(model: Any) -> Iterator[Any]:
    return (parameter for part in _parts(model).values() for parameter in part.parameters())


def _device(model: Any) -> Any:
    for part in _parts(model).values():
        for tensor in chain(part.parameters(), part.buffers()):
            return tensor.device
    return torch.device("cpu")


def _array(tensor: Any) -> Array:
    """Copy a tensor."""
    tensor = tensor.detach()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    return np.array(tensor.resolve_conj().cpu().numpy())


def _moved(batch: Any, device: Any) -> Any:
    if is_any(batch, torch.Tensor) and batch.device == device:
        return batch
    if type(batch) in (tuple, list):  # most batches are
        return type(batch)([_moved(value, device) for value in batch])
    if is_any(batch, np.ndarray):
        if batch.dtype.kind not in "biufc":
            return batch  # PyTorch has no tensors of strings and objects
        batch = torch.from_numpy(batch if batch.flags.writeable else batch.copy())
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=device.type == "cuda")
    if is_any(batch, Mapping):
        return {key: _moved(value, device) for key, value in batch.items()}
    if is_any(batch, tuple, list):
        moved = [_moved(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch
