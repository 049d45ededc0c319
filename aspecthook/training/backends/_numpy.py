"""The back end of models of `aspecthook.training.numpy`, and of all others that are not PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, final

import numpy as np

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

from ._protocol import Amp, Array, Arrays
from ._random import rng_states, seed_all, set_rng_states
from ._state import check_arrays, load_optimizer_state, optimizer_state


@final
class NumpyBackend:
    """See `Backend`. The parts of a model without a ``state_dict`` are those of its attributes that have one."""

    __slots__ = ()
    name = "numpy"

    def place(self, model: Any, device: str | None = None) -> None:
        if device not in (None, "cpu"):
            raise TrainingError(
                f"device={brief(device)}: {type(model).__name__} is a NumPy model, which runs on the CPU"
            )

    def to_device(self, batch: Any, model: Any) -> Any:  # noqa: ARG002
        return batch

    def mover(self, model: Any) -> Callable[[Any], Any]:  # noqa: ARG002
        return lambda batch: batch

    def parameters(self, model: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for prefix, part in _parts(model).items():
            if hasattr(part, "named_parameters"):
                found.update((prefix + name, parameter) for name, parameter in part.named_parameters())
        return found

    def state(self, model: Any) -> Arrays:
        parts = _parts(model).items()
        return {prefix + name: np.array(value) for prefix, part in parts for name, value in part.state_dict().items()}

    def load_state(self, model: Any, arrays: Mapping[str, Array]) -> None:
        shapes = {name: value.shape for name, value in self.state(model).items()}
        check_arrays(type(model).__name__, shapes, arrays)
        for prefix, part in _parts(model).items():
            part.load_state_dict({name: arrays[prefix + name] for name in part.state_dict()})

    def gradients(self, model: Any) -> dict[str, Array | None]:
        return {name: None if p.grad is None else np.array(p.grad) for name, p in self.parameters(model).items()}

    def load_gradients(self, model: Any, arrays: Mapping[str, Array | None]) -> None:
        for name, parameter in self.parameters(model).items():
            array = arrays.get(name)
            parameter.grad = None if array is None else np.array(array)

    @np.errstate(all="ignore")  # as in PyTorch, a NaN norm is returned without a warning
    def clip_gradients(self, model: Any, max_norm: float, norm_type: float = 2.0) -> float:
        held = [parameter for parameter in self.parameters(model).values() if parameter.grad is not None]
        if not held:
            return 0.0
        norms = [np.linalg.norm(parameter.grad.ravel(), norm_type) for parameter in held]
        norm = float(np.linalg.norm(norms, norm_type))
        # As torch.nn.utils.clip_grad_norm_ has it; np.minimum gives NaN where the norm is NaN.
        factor = float(np.minimum(max_norm / (norm + 1e-6), 1.0))
        for parameter in held:
            parameter.grad = parameter.grad * factor
        return norm

    def mix(self, model: Any, arrays: Arrays, weight: float) -> None:
        values = self._held(model, arrays)
        for name, array in arrays.items():
            value = values[name].data
            whole = not np.issubdtype(array.dtype, np.inexact)
            array[...] = value if whole else (1 - weight) * array + weight * value

    def swap(self, model: Any, arrays: Arrays) -> None:
        values = self._held(model, arrays)
        before = {name: values[name].data for name in arrays}  # all of them first: one parameter may have two names
        for name, array in arrays.items():
            values[name].data = array.astype(before[name].dtype)
        for name, array in arrays.items():
            array[...] = before[name]

    def item(self, value: Any) -> float:
        return float(value.item() if hasattr(value, "item") else value)

    def is_nan(self, value: Any) -> bool:
        return bool(np.isnan(value.item() if hasattr(value, "backward") else value).any())

    def no_grad(self) -> AbstractContextManager[Any]:
        from .net._values import no_grad

        return no_grad()

    def amp(self, kind: bool | str = True, model: Any = None) -> Amp:  # noqa: ARG002
        """Refuse: NumPy has no mixed precision."""
        raise TrainingError(
            f"amp={brief(kind)}: mixed precision is PyTorch's, and this is a NumPy model; leave amp out"
        )

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        return optimizer_state(optimizer, copy)

    def load_optimizer_state(self, optimizer: Any, state: Mapping[str, Any]) -> None:
        load_optimizer_state(optimizer, state, copy)

    def seed(self, seed: int) -> None:
        seed_all(seed)

    def rng_state(self) -> dict[str, Any]:
        return rng_states()

    def set_rng_state(self, state: Mapping[str, Any]) -> None:
        set_rng_states(state)

    def _held(self, model: Any, arrays: Arrays) -> dict[str, Any]:
        """Return the parameters and buffers themselves, by name; the arrays must fit them."""
        values = self.parameters(model)
        for prefix, part in _parts(model).items():
            if hasattr(part, "named_buffers"):
                for rows in (part.named_parameters, part.named_buffers):
                    values.update((prefix + name, value) for name, value in rows(remove_duplicate=False))
        for name, array in arrays.items():
            arrays[name] = np.asarray(array)  # NumPy computes scalars from arrays without axes
        check_arrays(
            type(model).__name__, {name: value.data.shape for name, value in values.items()}, arrays, partly=True
        )
        return values


def _parts(model: Any) -> dict[str, Any]:
    """Return the parts of a model that have a state, by the prefix of their names."""
    if _stateful(model):
        return {"": model}
    held: dict[str, Any] = getattr(model, "__dict__", {})
    # An optimizer has a state too, but no named parameters.
    return {f"{k}.": part for k, part in held.items() if _stateful(part) and hasattr(part, "named_parameters")}


def _stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
