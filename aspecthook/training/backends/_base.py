"""What a runner and its hooks need of a numerical library: the class `Backend`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aspecthook.training._errors import TrainingError

from ._random import rng_states, seed_all, set_rng_states
from ._state import OFFERS, check_arrays, check_kinds, is_any, map_leaves

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, NDArray[Any]]

# Any, in what follows: models, losses, optimizers and batches are those of any library, and
# so is mixed precision, which only PyTorch has: see `TorchAmp`.


class Backend(ABC):
    """The library that a model is made with, as a runner and its hooks use it.

    Arrays are copies, and have the names that the library gives to the parameters and buffers of a model. With
    ``copy=False`` they may share the memory of the model, to be read at once. A subclass says what the parts of a model
    and the tensors of the library are; what follows from that is written here.
    """

    __slots__ = ()

    name: ClassVar[str]
    tensor: ClassVar[type]

    # Models

    @abstractmethod
    def parts(self, model: Any) -> dict[str, Any]:
        """Return the parts of a model that have a state, by the prefix of their names; a whole model has none."""

    @abstractmethod
    def place(self, model: Any, device: str | None = None) -> None:
        """Move a model that is on the CPU to the device; to a GPU, if there is one, unless a device is given."""

    def parameters(self, model: Any) -> dict[str, Any]:
        """Return the parameters themselves, by name."""
        found: dict[str, Any] = {}
        for prefix, part in self.parts(model).items():
            if hasattr(part, "named_parameters"):
                found.update((prefix + name, parameter) for name, parameter in part.named_parameters())
        return found

    def state(self, model: Any, *, copy: bool = True) -> Arrays:
        """Return the parameters and the buffers."""
        return {name: self.to_array(tensor, copy=copy) for name, tensor in self.tensors(model).items()}

    def load_state(self, model: Any, arrays: Mapping[str, Array]) -> None:
        """Restore what `state` returned; raise, and change nothing, if names, shapes or kinds of numbers differ."""
        tensors = self.tensors(model)
        check_arrays(type(model).__name__, {name: np.shape(tensor) for name, tensor in tensors.items()}, arrays)
        check_kinds(type(model).__name__, tensors, arrays)
        for prefix, part in self.parts(model).items():
            part.load_state_dict(
                {name: self.to_tensor(arrays[prefix + name], value) for name, value in part.state_dict().items()}
            )

    def tensors(self, model: Any) -> dict[str, Any]:
        """Return the parameters and the buffers themselves, as a state dict has them."""
        parts = self.parts(model).items()
        return {prefix + name: value for prefix, part in parts for name, value in _state_dict(part).items()}

    def named_tensors(self, model: Any, arrays: Arrays) -> dict[str, Any]:
        """Return the parameters and the buffers themselves, by each of their names; the arrays must fit them."""
        found = self.parameters(model)
        for prefix, part in self.parts(model).items():
            if hasattr(part, "named_buffers"):
                for rows in (part.named_parameters, part.named_buffers):
                    found.update((prefix + name, value) for name, value in rows(remove_duplicate=False))
        for name, array in arrays.items():
            if not isinstance(array, self.tensor):
                arrays[name] = np.asarray(array)  # NumPy computes scalars from arrays without axes
        shapes = {name: value.data.shape for name, value in found.items()}
        check_arrays(type(model).__name__, shapes, arrays, partly=True)
        return found

    @abstractmethod
    def mix(self, model: Any, arrays: Arrays, weight: float) -> None:
        """Move the arrays towards the model, in place: ``(1 - weight) * array + weight * value``.

        Arrays of other types than floating-point numbers are copied.
        """

    @abstractmethod
    def swap(self, model: Any, arrays: Arrays) -> None:
        """Exchange the arrays with the model's values of these names, in place."""

    # Gradients

    def gradients(self, model: Any, *, copy: bool = True) -> dict[str, Array | None]:
        """Return the gradients; None for a parameter without one."""
        parameters = self.parameters(model).items()
        return {
            name: None if value.grad is None else self.to_array(value.grad, copy=copy) for name, value in parameters
        }

    def load_gradients(self, model: Any, arrays: Mapping[str, Array | None]) -> None:
        """Restore what `gradients` returned."""
        for name, parameter in self.parameters(model).items():
            array = arrays.get(name)
            parameter.grad = None if array is None else self.to_tensor(array, parameter)

    @abstractmethod
    def clip_gradients(self, model: Any, max_norm: float, norm_type: float = 2.0) -> float:
        """Scale all gradients down so that their norm as one vector is at most `max_norm`; return the norm before.

        With mixed precision, call ``unscale`` of it first.
        """

    @abstractmethod
    def no_grad(self) -> AbstractContextManager[Any]:
        """Compute without gradients inside ``with``."""

    @abstractmethod
    def amp(self, kind: bool | str = True, model: Any = None) -> Any:
        """Return mixed precision for the model's device: ``"fp16"``, ``"bf16"``, or with True what suits it."""

    # Values

    @abstractmethod
    def to_array(self, tensor: Any, *, copy: bool = True) -> Array:
        """Return a copy of a tensor as an array."""

    @abstractmethod
    def to_tensor(self, array: Array, like: Any = None) -> Any:
        """Return a copy of an array as a tensor, of the type and on the device of another one if that is given."""

    @abstractmethod
    def mover(self, model: Any) -> Callable[[Any], Any]:
        """Return a function that returns batches as the model takes them: tensors, where its parameters are."""

    def to_device(self, batch: Any, model: Any) -> Any:
        """Return one batch as the model takes it."""
        return self.mover(model)(batch)

    def item(self, value: Any) -> float:
        """Return a loss or another single value as a number."""
        return float(value.item() if hasattr(value, "item") else value)

    # Optimizers

    def optimizer_state(self, optimizer: Any, *, copy: bool = True) -> dict[str, Any]:
        """Return the type of an optimizer and a copy of its state, as `kept` does; {} if it has no state."""
        if not hasattr(optimizer, "state_dict"):
            return {}
        state = map_leaves(
            lambda leaf: self.to_array(leaf, copy=copy) if isinstance(leaf, self.tensor) else leaf,
            _state_dict(optimizer),
        )
        return {"type": type(optimizer).__name__, "state": state}

    def load_optimizer_state(self, optimizer: Any, state: Mapping[str, Any]) -> None:
        """Restore what `optimizer_state` returned, for the same type of optimizer with the same groups."""
        if not state:
            return
        here, kept = type(optimizer).__name__, state["state"]
        if state["type"] != here:
            raise TrainingError(
                f"this is the state of the optimizer {state['type']}, and the run's is {here}; give the runner the "
                "same optimizer, or load only the model"
            )
        theirs, ours = (
            [len(group["params"]) for group in groups] for groups in (kept["param_groups"], optimizer.param_groups)
        )
        if theirs != ours:
            raise TrainingError(
                f"this is the state of an optimizer for groups of {theirs} parameters, and the run's has {ours}; give "
                "it the same parameters in the same groups, or load only the model"
            )
        tensors = map_leaves(lambda leaf: self.to_tensor(leaf) if is_any(leaf, np.ndarray) else leaf, kept)
        optimizer.load_state_dict(tensors)

    # Random number generators

    def seed(self, seed: int) -> None:
        """Seed every generator that `rng_state` knows."""
        seed_all(seed)

    def rng_state(self) -> dict[str, Any]:
        """Return the states of all generators, as a tree of numbers, strings, lists, dicts and arrays.

        They are Python's ``random``, NumPy's global one, that of this library, and for PyTorch those of all devices.
        """
        return rng_states()

    def set_rng_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `rng_state` returned."""
        set_rng_states(state)


def _state_dict(part: Any) -> dict[str, Any]:
    """Return the state dict of a module or an optimizer, with the arrays themselves if it offers them."""
    found: dict[str, Any] = part.state_dict(copy=False) if hasattr(part.state_dict, OFFERS) else part.state_dict()
    return found
