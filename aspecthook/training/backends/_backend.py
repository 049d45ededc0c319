"""What a runner and its hooks need of a numerical library: the class `Backend`."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

from ._state import check_arrays, map_leaves

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, NDArray[Any]]
Tensor: TypeAlias = Any  # a parameter or a buffer, of NumPy or PyTorch
Batch: TypeAlias = Any  # whatever a loader yields

# Dropout and new weights of `aspecthook.training.numpy` draw from this generator, as PyTorch's draw from a global one.
generator = np.random.Generator(np.random.PCG64())


def manual_seed(seed: int) -> None:
    """Seed the generator of dropout and of new weights.

    Example:
        >>> from aspecthook.training.numpy import Linear, manual_seed
        >>> manual_seed(0)
        >>> first = Linear(2, 2).weight.data
        >>> manual_seed(0)
        >>> bool((Linear(2, 2).weight.data == first).all())
        True
    """
    generator.bit_generator.state = np.random.PCG64(seed).state


# Whether computations with parameters are recorded for a backward pass.
with_gradients: ContextVar[bool] = ContextVar("with_gradients", default=True)


@contextmanager
def no_grad() -> Generator[None]:
    """Do not record the computations of a ``with`` block for a backward pass, which makes them faster.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Linear, no_grad
        >>> with no_grad():
        ...     output = Linear(2, 1)(np.ones((1, 2)))
        >>> type(output).__name__
        'ndarray'
    """
    token = with_gradients.set(False)
    try:
        yield
    finally:
        with_gradients.reset(token)


class Backend:
    """The numerical library of a model: NumPy here, and PyTorch in the subclass `TorchBackend`.

    Arrays that its methods return are copies. Their names are those of the parameters and buffers in the model.
    """

    __slots__ = ()

    name: ClassVar[str] = "numpy"
    tensor: ClassVar[type] = np.ndarray

    # Models

    def parts(self, model: object) -> dict[str, Any]:
        """Return a model that has a state, or the modules in its attributes, by the prefix of their parameters' names.

        The prefix of a whole model is empty; a GAN has the prefixes ``"generator."`` and ``"judge."``, say.
        """
        if not hasattr(model, "named_parameters"):
            attributes: dict[str, Any] = getattr(model, "__dict__", {})
            # An optimizer among the attributes has a state too, but no named parameters.
            found = {f"{name}.": part for name, part in attributes.items() if hasattr(part, "named_parameters")}
            if found or not hasattr(model, "load_state_dict"):
                return found
        return {"": model}

    def place(self, model: object, device: str | None = None) -> None:
        """Move a model that is on the CPU to the device, or to a GPU, if there is one, unless a device is given."""
        if device not in (None, "cpu"):
            raise TrainingError(
                f"device={brief(device)}: {type(model).__name__} is a NumPy model, which runs on the CPU"
            )

    def parameters(self, model: object) -> dict[str, Tensor]:
        """Return the parameters themselves, by name; of the names of a shared one, by the first."""
        parameters: dict[str, Tensor] = {}
        for prefix, part in self.parts(model).items():
            named = part.named_parameters() if hasattr(part, "named_parameters") else ()
            parameters.update((prefix + name, parameter) for name, parameter in named)
        return parameters

    def tensors(self, model: object) -> dict[str, Tensor]:
        """Return the parameters and the buffers themselves, by their names in state dicts."""
        parts = self.parts(model).items()
        return {prefix + name: tensor for prefix, part in parts for name, tensor in part.state_dict().items()}

    def state(self, model: object) -> Arrays:
        """Return copies of the parameters and the buffers."""
        return {name: self.to_array(tensor) for name, tensor in self.tensors(model).items()}

    def load_state(self, model: object, arrays: Mapping[str, Array]) -> None:
        """Restore what `state` returned; raise, and change nothing, if names, shapes or kinds of numbers differ."""
        check_arrays(type(model).__name__, self.tensors(model), arrays)
        for prefix, part in self.parts(model).items():
            tensors = part.state_dict().items()
            part.load_state_dict({name: self.to_tensor(arrays[prefix + name], tensor) for name, tensor in tensors})

    def mix(self, model: object, averages: Arrays, weight: float) -> None:
        """Move averages towards the parameters, in place: ``(1 - weight) * average + weight * parameter``."""
        for average, parameter in self._pairs(model, averages):
            average[...] = (1 - weight) * average + weight * parameter.data

    def swap(self, model: object, arrays: Arrays) -> None:
        """Exchange the values of arrays and of the parameters with their names, in place."""
        for array, parameter in self._pairs(model, arrays):
            before = parameter.data
            parameter.data = array.astype(before.dtype)
            array[...] = before

    def _pairs(self, model: object, arrays: Mapping[str, Array]) -> list[tuple[Array, Tensor]]:
        """Return each array with the parameter of the same name; raise if one has no parameter, or another form."""
        parameters = self.parameters(model)
        tensors = {name: parameters[name].data for name in arrays if name in parameters}
        check_arrays(type(model).__name__, tensors, arrays)
        return [(array, parameters[name]) for name, array in arrays.items()]

    # Gradients

    def gradients(self, model: object) -> Arrays:
        """Return copies of the gradients of the parameters that have one."""
        parameters = self.parameters(model).items()
        return {name: self.to_array(value.grad) for name, value in parameters if value.grad is not None}

    def load_gradients(self, model: object, arrays: Mapping[str, Array]) -> None:
        """Restore what `gradients` returned; parameters without an array have no gradient then."""
        pairs = self._pairs(model, arrays)
        for parameter in self.parameters(model).values():
            parameter.grad = None
        for array, parameter in pairs:
            parameter.grad = self.to_tensor(array, parameter.data)

    @np.errstate(all="ignore")  # as in PyTorch, a NaN norm is returned without a warning
    def clip_gradients(self, model: object, max_norm: float, norm_type: float = 2.0) -> float:
        """Scale all gradients down so that their norm as one vector is at most `max_norm`; return the norm before."""
        parameters = [parameter for parameter in self.parameters(model).values() if parameter.grad is not None]
        if not parameters:
            return 0.0
        norm = float(np.linalg.norm([np.linalg.norm(one.grad.ravel(), norm_type) for one in parameters], norm_type))
        # The formula of torch.nn.utils.clip_grad_norm_; in this order, min returns NaN where the norm is NaN.
        factor = min(max_norm / (norm + 1e-6), 1.0)
        for parameter in parameters:
            parameter.grad = parameter.grad * factor
        return norm

    def no_grad(self) -> AbstractContextManager[object]:
        """Compute without gradients in a ``with`` block."""
        return no_grad()

    # Any: only PyTorch has it, see `TorchAmp`.
    def amp(self, kind: bool | str, model: object) -> Any:  # noqa: ARG002
        """Return mixed precision for the model's device: ``"fp16"``, ``"bf16"``, or True for what suits the device."""
        raise TrainingError(
            f"amp={brief(kind)}: mixed precision is PyTorch's, and this is a NumPy model; leave amp out"
        )

    # Values

    def to_array(self, tensor: Tensor) -> Array:
        """Return a copy of a tensor as an array."""
        return np.array(tensor)

    def to_tensor(self, array: Array, like: Tensor = None) -> Tensor:  # noqa: ARG002
        """Return a copy of an array as a tensor, with the type and the device of the tensor `like`, if given."""
        return np.array(array)

    def mover(self, model: object) -> Callable[[Batch], Batch]:  # noqa: ARG002
        """Return a function that turns a batch into what the model takes: tensors on its device."""
        return lambda batch: batch

    def item(self, value: Any) -> float:
        """Return a loss or another value of one element as a number."""
        return float(value.item() if hasattr(value, "item") else value)

    # Optimizers

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """Return the type of an optimizer and a copy of its state; {} if it has no state."""
        if not hasattr(optimizer, "state_dict"):
            return {}
        state = map_leaves(
            lambda leaf: self.to_array(leaf) if isinstance(leaf, self.tensor) else leaf, optimizer.state_dict()
        )
        return {"type": type(optimizer).__name__, "state": state}

    def load_optimizer_state(self, optimizer: Any, state: Mapping[str, Any]) -> None:
        """Restore what `optimizer_state` returned, for the same type of optimizer with the same groups."""
        if not state:
            return
        theirs = _shown(state["type"], state["state"]["param_groups"])
        ours = _shown(type(optimizer).__name__, optimizer.param_groups)
        if theirs != ours:
            raise TrainingError(
                f"this is the state of the optimizer {theirs}, and the run's is {ours}; give the runner the same one "
                "for the same parameters, or load only the model"
            )
        optimizer.load_state_dict(
            map_leaves(lambda leaf: self.to_tensor(leaf) if is_array(leaf) else leaf, state["state"])
        )

    # Random number generators

    def seed(self, seed: int) -> None:
        """Seed every generator that `rng_state` knows."""
        random.seed(seed)
        np.random.seed(seed % 2**32)
        manual_seed(seed)

    def rng_state(self) -> dict[str, Any]:
        """Return the states of the generators of Python's ``random``, NumPy, this package, and PyTorch on all devices.

        They are a tree of numbers, strings, lists, dicts and arrays, which a checkpoint can hold.
        """
        version, words, gauss = random.getstate()
        _, *numpy = np.random.get_state()
        return {
            "python": [version, np.array(words, np.uint32), gauss],
            "numpy": numpy,
            "own": generator.bit_generator.state,
        }

    def set_rng_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `rng_state` returned."""
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words.tolist()), gauss))
        np.random.set_state(("MT19937", *state["numpy"]))
        generator.bit_generator.state = state["own"]


def is_array(value: object) -> TypeGuard[Array]:
    """Whether a value is an array of NumPy."""
    return isinstance(value, np.ndarray)


def _shown(kind: str, groups: Iterable[Mapping[str, Any]]) -> str:
    return f"{kind} for groups of {[len(group['params']) for group in groups]} parameters"
