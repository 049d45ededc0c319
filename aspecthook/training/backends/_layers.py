"""Modules of the NumPy back end, with PyTorch's methods.

Nothing is registered: a module finds its parameters and submodules in its attributes, in the order in which they were
set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self, final

import numpy as np

from aspecthook.training._errors import TrainingError

from ._autograd import Array, Parameter, Value, anp, detach
from ._backend import generator
from ._state import check_arrays


class Module:
    """The base class of layers and models; a subclass writes ``forward``.

    Attributes:
        training: Whether the module is in training mode, on which dropout depends.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Linear, ReLU
        >>> class Twice(Module):
        ...     def __init__(self):
        ...         self.layer = Linear(8, 8)
        ...         self.relu = ReLU()
        ...
        ...     def forward(self, x):
        ...         return self.relu(self.layer(self.relu(self.layer(x))))
        >>> [name for name, _ in Twice().named_parameters()]
        ['layer.weight', 'layer.bias']
        >>> Twice()(np.zeros((2, 8))).shape
        (2, 8)
    """

    training: bool = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Return the output of inputs. Call the module itself rather than this method."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward; write one")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):
            return self.forward(*inputs, **options)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the submodules by name."""
        return ((name, value) for name, value in vars(self).items() if isinstance(value, Module))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield the module itself, with an empty name, and all submodules below it, each by all its names."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self, *, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters; a shared one by its first name, or by each of its names."""
        seen: set[Parameter] = set()
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Parameter) and not (remove_duplicate and value in seen):
                    seen.add(value)
                    yield f"{prefix}.{name}" if prefix else name, value

    def parameters(self) -> Iterator[Parameter]:
        """Return all parameters, for an optimizer."""
        return (parameter for _, parameter in self.named_parameters())

    def state_dict(self) -> dict[str, Array]:
        """Return the arrays of all parameters by name; training replaces them in the model, and never changes them."""
        return {name: parameter.data for name, parameter in self.named_parameters(remove_duplicate=False)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            TrainingError: Names or shapes differ; the message lists them all, and nothing is changed.

        Example:
            >>> from aspecthook.training.numpy import Linear
            >>> Linear(4, 2).load_state_dict(Linear(4, 3).state_dict())
            Traceback (most recent call last):
            ...
            aspecthook.training.TrainingError: these are not the tensors of Linear; of another shape: weight is 3×4, ...
        """
        parameters = dict(self.named_parameters(remove_duplicate=False))
        arrays = {name: np.asarray(value) for name, value in state.items()}
        check_arrays(type(self).__name__, parameters, arrays)
        for name, parameter in parameters.items():
            parameter.data = arrays[name].astype(parameter.dtype)

    def train(self, mode: bool = True) -> Self:  # positional, as PyTorch has it
        """Set the training mode of the module and all submodules, and return the module."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Turn the training mode off, and return the module."""
        return self.train(False)

    def __repr__(self) -> str:
        parts = (f"{name}={child!r}" for name, child in self.named_children())
        return f"{type(self).__name__}({', '.join(parts)})"


@final
class Linear(Module):
    """``x @ weight.T + bias``. New weights are drawn uniformly from ±1/√in_features, as in PyTorch.

    Args:
        in_features: The last size of the inputs.
        out_features: The last size of the outputs.
        bias: Add a bias.

    Example:
        >>> import numpy as np
        >>> Linear(64, 10)(np.zeros((32, 64))).shape
        (32, 10)
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True) -> None:
        bound = 1 / np.sqrt(max(in_features, 1))
        self.weight: Parameter = _uniform(bound, out_features, in_features)
        self.bias: Parameter | None = _uniform(bound, out_features) if bias else None

    def forward(self, x: Value) -> Any:
        """Return the output of inputs of shape (…, in_features)."""
        size = self.weight.shape[1]
        if np.shape(x)[-1:] != (size,):
            raise TrainingError(f"{self} takes inputs of shape (…, {size}), but was given {np.shape(x)}")
        product = anp.matmul(x, self.weight.value.T)
        return product if self.bias is None else product + self.bias.value

    def __repr__(self) -> str:
        return f"Linear({self.weight.shape[1]}, {self.weight.shape[0]}{'' if self.bias else ', bias=False'})"


def _uniform(bound: float, *shape: int) -> Parameter:
    return Parameter(generator.uniform(-bound, bound, shape).astype(np.float32))


@final
class ReLU(Module):
    """``max(x, 0)``; its derivative at 0 is 0, as PyTorch's is.

    Example:
        >>> import numpy as np
        >>> ReLU()(np.array([-1.0, 2.0]))
        array([0., 2.])
    """

    def forward(self, x: Value) -> Any:
        """Return the output of inputs of any shape."""
        return anp.where(detach(x) <= 0, 0.0, x)  # with `x > 0`, NaN would become 0


@final
class Flatten(Module):
    """Flatten all axes but the first into one.

    Example:
        >>> import numpy as np
        >>> Flatten()(np.zeros((32, 8, 8))).shape
        (32, 64)
    """

    def forward(self, x: Value) -> Any:
        """Return the output of inputs of shape (batch, …)."""
        shape = np.shape(x)
        return anp.reshape(x, (shape[0], int(np.prod(shape[1:]))))


@final
class Dropout(Module):
    """In training, set a share p of the inputs to 0 and divide the others by 1 − p.

    The inputs are drawn with the generator that `manual_seed` seeds, whose state is in checkpoints.

    Raises:
        TrainingError: The share p is not from 0 to 1.

    Example:
        >>> import numpy as np
        >>> sorted(set(Dropout(0.5)(np.ones(100)).tolist()))
        [0.0, 2.0]
        >>> sorted(set(Dropout(0.5).eval()(np.ones(100)).tolist()))
        [1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise TrainingError(f"Dropout({p!r}): give the share to drop, from 0 to 1")
        self.p = p

    def forward(self, x: Value) -> Any:
        """Return the output of inputs of any shape."""
        if not self.training or self.p == 0:
            return x
        mask = (generator.random(np.shape(x)) >= self.p).astype(detach(x).dtype)
        return x * (mask / mask.dtype.type(1 - self.p) if self.p < 1 else mask)


class Sequential(Module):
    """Modules that are called one after another.

    Example:
        >>> model = Sequential(Flatten(), Linear(64, 32), ReLU(), Linear(32, 10))
        >>> [name for name, _ in model.named_parameters()]
        ['1.weight', '1.bias', '3.weight', '3.bias']
        >>> model[3]
        Linear(32, 10)
    """

    def __init__(self, *modules: Module) -> None:
        self.modules = modules

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules by their positions."""
        return ((str(place), module) for place, module in enumerate(self.modules))

    def forward(self, x: Value) -> Any:
        """Return the output of the last module."""
        for module in self.modules:
            x = module(x)
        return x

    def __getitem__(self, place: int) -> Module:
        return self.modules[place]
