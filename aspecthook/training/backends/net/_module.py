"""The base class of the modules of the NumPy back end, with PyTorch's methods.

Nothing is registered: a module finds its parameters, buffers and submodules in its attributes, and in the lists, tuples
and dicts there, in the order in which they were set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from reprlib import recursive_repr
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from aspecthook.training.backends._state import check_arrays, offers_arrays

from ._values import QUIET, Array, Buffer, Parameter


class Module:
    """The base class of layers and models; a subclass writes ``forward``.

    Attributes:
        training: Whether the module is in training mode, on which dropout and batch normalisation depend.

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
        with np.errstate(**QUIET):
            return self.forward(*inputs, **options)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the submodules by name."""
        for name, value in _found(vars(self).items()):
            if isinstance(value, Module):
                yield name, value

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Yield the module itself, with an empty name, and all submodules below it, each by its first name."""
        return _once(self._all_modules(""))

    def named_parameters(self, *, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters; a shared one by its first name, or by each of its names."""
        return _once(self._own(Parameter)) if remove_duplicate else self._own(Parameter)

    def named_buffers(self, *, remove_duplicate: bool = True) -> Iterator[tuple[str, Buffer]]:
        """Yield all buffers; a shared one by its first name, or by each of its names."""
        return _once(self._own(Buffer)) if remove_duplicate else self._own(Buffer)

    def parameters(self) -> Iterator[Parameter]:
        """Return all parameters, for an optimizer."""
        return (parameter for _, parameter in self.named_parameters())

    def _all_modules(self, prefix: str, above: tuple[int, ...] = ()) -> Iterator[tuple[str, Module]]:
        if id(self) in above:  # a submodule may refer to its owner
            return
        yield prefix, self
        for name, child in self.named_children():
            yield from child._all_modules(f"{prefix}.{name}" if prefix else name, (*above, id(self)))

    def _own(self, kind: type[Any]) -> Iterator[tuple[str, Any]]:
        for prefix, module in self._all_modules(""):
            for name, value in _found(vars(module).items()):
                if isinstance(value, kind):
                    yield f"{prefix}.{name}" if prefix else name, value

    @offers_arrays
    def state_dict(self, *, copy: bool = True) -> dict[str, Array]:
        """Return all parameters and buffers by name; copies of them, unless told otherwise."""
        return {name: value.data.copy() if copy else value.data for name, value in self._state()}

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
        arrays = {name: np.asarray(value) for name, value in state.items()}
        check_arrays(type(self).__name__, {name: value.data.shape for name, value in self._state()}, arrays)
        for name, value in self._state():
            value.data = arrays[name].astype(value.data.dtype)

    def _state(self) -> Iterator[tuple[str, Parameter | Buffer]]:
        yield from self._own(Parameter)
        yield from self._own(Buffer)

    def astype(self, dtype: DTypeLike) -> Self:
        """Convert the floating-point arrays to another type, and return the module."""
        for _, value in self._state():
            if np.issubdtype(value.data.dtype, np.floating):
                value.data = value.data.astype(dtype)
        return self

    def train(self, mode: bool = True) -> Self:  # positional, as PyTorch has it
        """Set the training mode of the module and all submodules, and return the module."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Turn the training mode off, and return the module."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.parameters():
            parameter.grad = None

    @recursive_repr()  # a submodule may refer to its owner
    def __repr__(self) -> str:
        parts = (f"{name}={child!r}" for name, child in self.named_children())
        return f"{type(self).__name__}({', '.join(parts)})"


def _found(attributes: Iterable[tuple[Any, Any]], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of attributes, and those in the lists, tuples and dicts among them."""
    for name, value in attributes:
        if isinstance(value, Mapping):
            yield from _found(value.items(), f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, (list, tuple)):
            yield from _found(enumerate(value), f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield f"{prefix}{name}", value


def _once(rows: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for name, value in rows:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value
