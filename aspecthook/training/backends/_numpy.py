"""The back end of models of `aspecthook.training.numpy`, and of whatever else is not PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, final

import numpy as np

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._frozen import (
    Array,
    Arrays,
    frozen_optimizer,
    load_frozen_optimizer,
    rng_states,
    seed_all,
    set_rng_states,
)

from ._backends import Amp, check_arrays


@final
class NumpyBackend:
    """See `Backend`. A model that has no ``state_dict`` of its own is made of those of its attributes that have one."""

    __slots__ = ()
    name = "numpy"

    def place(self, model: Any, device: str | None = None) -> None:
        """Leave the model where it is."""
        if device not in (None, "cpu"):
            raise TrainingError(
                f"device={brief(device)}: {type(model).__name__} is a NumPy model, which runs on the CPU"
            )

    def to_device(self, batch: Any, model: Any) -> Any:  # noqa: ARG002
        """Give the batch as it is."""
        return batch

    def mover(self, model: Any) -> Callable[[Any], Any]:  # noqa: ARG002
        """Give a function that gives a batch as it is."""
        return lambda batch: batch

    def parameters(self, model: Any) -> dict[str, Any]:
        """Give the live parameters."""
        found: dict[str, Any] = {}
        for prefix, part in _parts(model).items():
            if hasattr(part, "named_parameters"):
                found.update((prefix + name, parameter) for name, parameter in part.named_parameters())
        return found

    def state(self, model: Any) -> Arrays:
        """Give the parameters and the buffers."""
        parts = _parts(model).items()
        return {prefix + name: np.array(value) for prefix, part in parts for name, value in part.state_dict().items()}

    def load_state(self, model: Any, arrays: Mapping[str, Array]) -> None:
        """Take back what `state` has given."""
        shapes = {name: value.shape for name, value in self.state(model).items()}
        check_arrays(type(model).__name__, shapes, arrays)
        for prefix, part in _parts(model).items():
            part.load_state_dict({name: arrays[prefix + name] for name in part.state_dict()})

    def gradients(self, model: Any) -> dict[str, Array | None]:
        """Give the gradients; None for a parameter that has none yet."""
        return {name: None if p.grad is None else np.array(p.grad) for name, p in self.parameters(model).items()}

    def load_gradients(self, model: Any, arrays: Mapping[str, Array | None]) -> None:
        """Take back what `gradients` has given."""
        for name, parameter in self.parameters(model).items():
            array = arrays.get(name)
            parameter.grad = None if array is None else np.array(array)

    @np.errstate(all="ignore")  # norms that are no numbers are the answer, as in PyTorch
    def clip_gradients(self, model: Any, max_norm: float, norm_type: float = 2.0) -> float:
        """Scale all gradients down so that their norm as one vector is at most this, and give the norm before."""
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
        """Move the arrays towards the model, in place."""
        values = self._held(model, arrays)
        for name, array in arrays.items():
            value = values[name].data
            whole = not np.issubdtype(array.dtype, np.inexact)
            array[...] = value if whole else (1 - weight) * array + weight * value

    def swap(self, model: Any, arrays: Arrays) -> None:
        """Exchange the arrays with the model's values of these names, in place."""
        values = self._held(model, arrays)
        before = {name: values[name].data for name in arrays}  # all of them first: one parameter may have two names
        for name, array in arrays.items():
            values[name].data = array.astype(before[name].dtype)
        for name, array in arrays.items():
            array[...] = before[name]

    def item(self, value: Any) -> float:
        """Give a loss or another single value as a number."""
        return float(value.item() if hasattr(value, "item") else value)

    def is_nan(self, value: Any) -> bool:
        """Say whether anything in a loss, a number or an array is not a number."""
        return bool(np.isnan(value.item() if hasattr(value, "backward") else value).any())

    def no_grad(self) -> AbstractContextManager[Any]:
        """Compute without gradients inside ``with``."""
        from .net._values import no_grad

        return no_grad()

    def amp(self, kind: bool | str = True, model: Any = None) -> Amp:  # noqa: ARG002
        """Refuse: NumPy has no mixed precision."""
        raise TrainingError(
            f"amp={brief(kind)}: mixed precision is PyTorch's, and this is a NumPy model; leave amp out"
        )

    def optimizer_state(self, optimizer: Any) -> tuple[Arrays, dict[str, Any]]:
        """Give the state of an optimizer: its arrays by name, and the rest, for JSON."""
        return frozen_optimizer(optimizer)

    def load_optimizer_state(self, optimizer: Any, arrays: Mapping[str, Array], rest: Mapping[str, Any]) -> None:
        """Take back what `optimizer_state` has given."""
        load_frozen_optimizer(optimizer, arrays, rest)

    def seed(self, seed: int) -> None:
        """Seed every generator that `rng_state` knows."""
        seed_all(seed)

    def rng_state(self) -> dict[str, Any]:
        """Give the states of all generators."""
        return rng_states()

    def set_rng_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `rng_state` has given."""
        set_rng_states(state)

    def _held(self, model: Any, arrays: Arrays) -> dict[str, Any]:
        """Give the live parameters and buffers that have these names."""
        values = self.parameters(model)
        for prefix, part in _parts(model).items():
            if hasattr(part, "named_buffers"):
                for rows in (part.named_parameters, part.named_buffers):
                    values.update((prefix + name, value) for name, value in rows(remove_duplicate=False))
        for name, array in arrays.items():
            arrays[name] = np.asarray(array)  # without axes, what NumPy computes is no array
        check_arrays(
            type(model).__name__, {name: value.data.shape for name, value in values.items()}, arrays, partly=True
        )
        return values


def _parts(model: Any) -> dict[str, Any]:
    """Give what in a model has a state, by the prefix of its names."""
    if _stateful(model):
        return {"": model}
    held: dict[str, Any] = getattr(model, "__dict__", {})
    # An optimizer has a state too, and is none of the model's.
    return {f"{k}.": part for k, part in held.items() if _stateful(part) and hasattr(part, "named_parameters")}


def _stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
