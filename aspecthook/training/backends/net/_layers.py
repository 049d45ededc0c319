"""The layers of the NumPy back end; their parameters have PyTorch's names, and their outputs are PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
from numpy.typing import DTypeLike

from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._random import generator

from ._module import Module
from ._values import Array, Buffer, Parameter, anp, detach


@final
class Linear(Module):
    """``x @ weight.T + bias``. New weights are drawn uniformly from ±1/√in_features, as in PyTorch.

    Args:
        in_features: The last size of the inputs.
        out_features: The last size of the outputs.
        bias: Add a bias.
        dtype: The type of the weights.

    Example:
        >>> import numpy as np
        >>> Linear(64, 10)(np.zeros((32, 64))).shape
        (32, 10)
    """

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = True, dtype: DTypeLike = np.float32
    ) -> None:
        bound = 1 / np.sqrt(max(in_features, 1))
        self.weight: Parameter = Parameter(_uniform(bound, (out_features, in_features), dtype))
        self.bias: Parameter | None = Parameter(_uniform(bound, (out_features,), dtype)) if bias else None

    def forward(self, x: Any) -> Any:
        """Return the output of inputs of shape (…, in_features)."""
        size = self.weight.shape[1]
        if np.shape(x)[-1:] != (size,):
            raise TrainingError(f"{self} takes inputs of shape (…, {size}), but was given {np.shape(x)}")
        product = anp.matmul(x, self.weight.value.T)
        return product if self.bias is None else product + self.bias.value

    def __repr__(self) -> str:
        return f"Linear({self.weight.shape[1]}, {self.weight.shape[0]}{'' if self.bias else ', bias=False'})"


def _uniform(bound: float, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    return generator.uniform(-bound, bound, shape).astype(dtype)


@final
class ReLU(Module):
    """``max(x, 0)``; its derivative at 0 is 0, as PyTorch's is.

    Example:
        >>> import numpy as np
        >>> ReLU()(np.array([-1.0, 2.0]))
        array([0., 2.])
    """

    def forward(self, x: Any) -> Any:
        """Return the output of inputs of any shape."""
        return anp.where(detach(x) <= 0, 0.0, x)  # with `x > 0`, NaN would become 0


@final
class Tanh(Module):
    """The hyperbolic tangent.

    Example:
        >>> import numpy as np
        >>> Tanh()(np.array([0.0, np.inf]))
        array([0., 1.])
    """

    def forward(self, x: Any) -> Any:
        """Return the output of inputs of any shape."""
        return anp.tanh(x)


@final
class Flatten(Module):
    """Flatten all axes but the first into one.

    Example:
        >>> import numpy as np
        >>> Flatten()(np.zeros((32, 8, 8))).shape
        (32, 64)
    """

    def forward(self, x: Any) -> Any:
        """Return the output of inputs of shape (batch, …)."""
        shape = np.shape(x)
        return anp.reshape(x, (shape[0], int(np.prod(shape[1:]))))


@final
class Dropout(Module):
    """In training, set a share p of the inputs to 0 and divide the others by 1 − p.

    The inputs are drawn with the generator that `manual_seed` seeds, whose state is in checkpoints.

    Args:
        p: The share, from 0 to 1.

    Raises:
        TrainingError: It is out of this range.

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

    def forward(self, x: Any) -> Any:
        """Return the output of inputs of any shape."""
        if not self.training or self.p == 0:
            return x
        mask = (generator.random(np.shape(x)) >= self.p).astype(detach(x).dtype)
        return x * (mask / mask.dtype.type(1 - self.p) if self.p < 1 else mask)

    def __repr__(self) -> str:
        return f"Dropout({self.p})"


@final
class BatchNorm1d(Module):
    """Shift and scale each feature to mean 0 and variance 1: of the batch in training, of all batches otherwise.

    Args:
        num_features: The size of the second axis of the inputs.
        eps: Added to the variance.
        momentum: The weight of a batch in the running mean and variance.
        dtype: The type of the weights.

    Example:
        >>> import numpy as np
        >>> BatchNorm1d(1)(np.array([[1.0], [3.0]])).round(3).ravel()
        array([-1.,  1.])
    """

    def __init__(
        self, num_features: int, *, eps: float = 1e-5, momentum: float = 0.1, dtype: DTypeLike = np.float32
    ) -> None:
        self.eps: float = eps
        self.momentum: float = momentum
        self.weight: Parameter = Parameter(np.ones(num_features, dtype))
        self.bias: Parameter = Parameter(np.zeros(num_features, dtype))
        self.running_mean: Buffer = Buffer(np.zeros(num_features, dtype))
        self.running_var: Buffer = Buffer(np.ones(num_features, dtype))
        self.num_batches_tracked: Buffer = Buffer(np.array(0, np.int64))

    def forward(self, x: Any) -> Any:
        """Return the output of inputs of shape (batch, features) or (batch, features, length)."""
        shape, size = np.shape(x), self.weight.size
        if len(shape) not in (2, 3) or shape[1] != size:
            raise TrainingError(f"{self} takes (batch, {size}) or (batch, {size}, length), but was given {shape}")
        axes, along = ((0,), (1, size)) if len(shape) == 2 else ((0, 2), (1, size, 1))
        if self.training:
            mean = anp.mean(x, axis=axes, keepdims=True)
            centred = x - mean
            variance = anp.mean(centred**2, axis=axes, keepdims=True)
            self._track(detach(mean).reshape(size), detach(variance).reshape(size), detach(x).size // size)
        else:
            centred = x - self.running_mean.data.reshape(along)
            variance = self.running_var.data.reshape(along)
        scale = anp.reshape(self.weight.value, along) / anp.sqrt(variance + self.eps)
        return centred * scale + anp.reshape(self.bias.value, along)

    def _track(self, mean: Array, variance: Array, count: int) -> None:
        if count < 2:
            raise TrainingError(f"{self} cannot train on one value per feature; use larger batches, or drop_last=True")
        unbiased = variance * (count / (count - 1))
        for buffer, value in ((self.running_mean, mean), (self.running_var, unbiased)):
            mixed = (1 - self.momentum) * buffer.data + self.momentum * value
            buffer.data = mixed.astype(buffer.data.dtype)
        self.num_batches_tracked.data = self.num_batches_tracked.data + 1

    def __repr__(self) -> str:
        return f"BatchNorm1d({self.weight.size})"


class Sequential(Module):
    """Modules that are called one after another.

    Example:
        >>> model = Sequential(Flatten(), Linear(64, 32), ReLU(), Linear(32, 10))
        >>> model
        Sequential(Flatten(), Linear(64, 32), ReLU(), Linear(32, 10))
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

    def forward(self, x: Any) -> Any:
        """Return the output of the last module."""
        for module in self.modules:
            x = module(x)
        return x

    def __getitem__(self, place: int) -> Module:
        return self.modules[place]

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.modules))})"
