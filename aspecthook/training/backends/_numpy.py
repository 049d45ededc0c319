"""The back end of models of `aspecthook.training.numpy`, and of all others that are not PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, final

import numpy as np

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

from ._base import Array, Arrays, Backend


@final
class NumpyBackend(Backend):
    """See `Backend`. The parts of a model without a ``state_dict`` are those of its attributes that have one."""

    __slots__ = ()
    name = "numpy"
    tensor = np.ndarray

    def parts(self, model: Any) -> dict[str, Any]:
        if _is_stateful(model):
            return {"": model}
        held: dict[str, Any] = getattr(model, "__dict__", {})
        # An optimizer has a state too, but no named parameters.
        return {f"{k}.": part for k, part in held.items() if _is_stateful(part) and hasattr(part, "named_parameters")}

    def place(self, model: Any, device: str | None = None) -> None:
        if device not in (None, "cpu"):
            raise TrainingError(
                f"device={brief(device)}: {type(model).__name__} is a NumPy model, which runs on the CPU"
            )

    def mix(self, model: Any, arrays: Arrays, weight: float) -> None:
        values = self.named_tensors(model, arrays)
        for name, array in arrays.items():
            value = values[name].data
            is_float = np.issubdtype(array.dtype, np.inexact)
            array[...] = (1 - weight) * array + weight * value if is_float else value

    def swap(self, model: Any, arrays: Arrays) -> None:
        values = self.named_tensors(model, arrays)
        before = {name: values[name].data for name in arrays}  # all of them first: one parameter may have two names
        for name, array in arrays.items():
            values[name].data = array.astype(before[name].dtype)
        for name, array in arrays.items():
            array[...] = before[name]

    @np.errstate(all="ignore")  # as in PyTorch, a NaN norm is returned without a warning
    def clip_gradients(self, model: Any, max_norm: float, norm_type: float = 2.0) -> float:
        held = [parameter for parameter in self.parameters(model).values() if parameter.grad is not None]
        if not held:
            return 0.0
        norms = [np.linalg.norm(parameter.grad.ravel(), norm_type) for parameter in held]
        norm = float(np.linalg.norm(norms, norm_type))
        # The formula of torch.nn.utils.clip_grad_norm_; np.minimum returns NaN where the norm is NaN.
        factor = float(np.minimum(max_norm / (norm + 1e-6), 1.0))
        for parameter in held:
            parameter.grad = parameter.grad * factor
        return norm

    def no_grad(self) -> AbstractContextManager[Any]:
        from .net._values import no_grad

        return no_grad()

    def amp(self, kind: bool | str = True, model: Any = None) -> Any:  # noqa: ARG002
        """Refuse: NumPy has no mixed precision."""
        raise TrainingError(
            f"amp={brief(kind)}: mixed precision is PyTorch's, and this is a NumPy model; leave amp out"
        )

    def to_array(self, tensor: Any, *, copy: bool = True) -> Array:
        return np.array(tensor) if copy else np.asarray(tensor)

    def to_tensor(self, array: Array, like: Any = None) -> Any:  # noqa: ARG002
        return np.array(array)

    def mover(self, model: Any) -> Callable[[Any], Any]:  # noqa: ARG002
        return lambda batch: batch


def _is_stateful(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
