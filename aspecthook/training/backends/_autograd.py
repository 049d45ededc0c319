"""Parameters and losses of NumPy, whose gradients HIPS autograd computes.

Autograd differentiates functions. Here, as in PyTorch, the computation is recorded while it runs: a parameter enters it
as one of autograd's boxes, whose node has no parents, and everything computed from a box is a box too. The backward
pass is autograd's; it ends by calling the node of the parameter with the gradient, which is added to ``grad``.

As in PyTorch, infinities and NaN cause no warnings anywhere; NanGuardHook looks for them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TypeAlias, final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from aspecthook.training._errors import TrainingError

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = Any  # an array, or one of autograd's boxes, which has no types
Module: TypeAlias = Any  # autograd has no types

_core: Module = import_module("autograd.core")
_tracer: Module = import_module("autograd.tracer")
# NumPy's functions, which autograd can differentiate.
anp: Module = import_module("autograd.numpy")

# Autograd combines boxes of the same depth, and deeper ones first. Its own gradients have the depths 0, 1, …, and -1
# means no box. With a depth between, our boxes are outside all of its own, as a gradient penalty needs.
_DEPTH = -0.5

_with_gradients: ContextVar[bool] = ContextVar("_with_gradients", default=True)


@contextmanager
def no_grad() -> Generator[None]:
    """Compute without gradients in a ``with`` block: faster, and nothing is kept for a backward pass.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Linear, no_grad
        >>> layer = Linear(2, 1)
        >>> with no_grad():
        ...     output = layer(np.ones((1, 2)))
        >>> type(output).__name__
        'ndarray'
    """
    token = _with_gradients.set(False)
    try:
        yield
    finally:
        _with_gradients.reset(token)


def detach(value: Value) -> Any:
    """Return the array or number in the output of a module, without its gradient; a plain one is returned as it is.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Linear
        >>> output = Linear(2, 3)(np.ones((1, 2)))
        >>> type(output).__name__, type(detach(output)).__name__
        ('ArrayBox', 'ndarray')
    """
    return _tracer.getval(value)


@final
class Parameter:
    """An array that is trained.

    Attributes:
        grad: The sum of the gradients since `zero_grad`, or None.
        requires_grad: Whether it is trained.

    Example:
        >>> import numpy as np
        >>> weight = Parameter(np.array([3.0, -1.0]))
        >>> penalty = Loss((weight.value**2).sum())
        >>> penalty.backward()
        >>> weight.grad
        array([ 6., -2.])
    """

    __slots__ = ("__weakref__", "_data", "grad", "requires_grad")

    def __init__(self, data: object, *, requires_grad: bool = True) -> None:
        self._data: Array = np.array(data)
        self.grad: Array | None = None
        self.requires_grad: bool = requires_grad

    @property
    def data(self) -> Array:
        """The array. It is replaced, never changed in place, so that earlier losses and states keep their values."""
        return self._data

    @data.setter
    def data(self, data: object) -> None:
        self._data = np.asarray(data)  # NumPy computes scalars from arrays without axes

    @property
    def value(self) -> Value:
        """The value to compute with: one of autograd's boxes, which works like an array, or the plain array."""
        if not (self.requires_grad and _with_gradients.get()):
            return self._data
        root = _core.VJPNode.new_root()
        root.vjp = self._add
        return _tracer.new_box(self._data, _DEPTH, root)

    def _add(self, gradient: Array) -> tuple[()]:
        """Add a gradient; autograd calls this where other nodes pass it to their parents."""
        self.grad = np.array(gradient if self.grad is None else self.grad + gradient, self._data.dtype)
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._data.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._data, dtype) if copy else np.asarray(self._data, dtype)

    def __repr__(self) -> str:
        return f"Parameter({self._data!r})"


@final
class Loss(NDArrayOperatorsMixin):
    """A single number that was computed from parameters, and can compute their gradients.

    It can be added, subtracted, multiplied and divided with numbers, other losses and autograd's values.

    Args:
        value: The result of functions of ``autograd.numpy`` on the values of parameters, or a plain number.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Linear, mse
        >>> layer = Linear(1, 1, bias=False)
        >>> loss = mse(layer(np.ones((4, 1))), np.zeros((4, 1)))
        >>> (loss / 2 + 0.1).backward()
        >>> bool(np.isclose(layer.weight.grad, layer.weight.data).all())
        True
    """

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        if np.shape(detach(value)) not in ((), (1,)):
            raise TrainingError(
                f"a loss is a single number, but this has the shape {np.shape(detach(value))}; take its mean or its sum"
            )
        self.value: Value = value

    @np.errstate(all="ignore")
    def backward(self) -> None:
        """Add the gradients to ``grad`` of all parameters that the loss was computed from.

        Raises:
            TrainingError: It was not computed from any.
        """
        if not _tracer.isbox(self.value):
            raise TrainingError(
                "this loss does not depend on parameters, or was computed in no_grad(); compute it from the outputs of "
                "the model, with functions of autograd.numpy"
            )
        _core.backward_pass(np.ones_like(detach(self.value)), self.value._node)

    def item(self) -> float:
        """Return the loss as a number."""
        return float(np.asarray(detach(self.value)).item())

    @np.errstate(all="ignore")
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Value) -> Any:
        """Compute with the value, by autograd's function of the same name; NumPy's operators call this."""
        if method != "__call__":
            return NotImplemented
        made = getattr(anp, ufunc.__name__)(*(one.value if hasattr(one, "value") else one for one in inputs))
        return made if made.dtype == bool else Loss(made)

    def __float__(self) -> float:
        return self.item()

    def __repr__(self) -> str:
        return f"Loss({self.item():.6g})"


@np.errstate(all="ignore")
def cross_entropy(outputs: Value, targets: Value) -> Loss:
    """Return the mean cross entropy of the softmax of the outputs, as ``torch.nn.functional.cross_entropy``.

    Args:
        outputs: Logits, of shape (batch, classes).
        targets: Class numbers, integers of shape (batch,); or probabilities, of shape (batch, classes).

    Raises:
        TrainingError: The shapes do not fit, or a target is not a class number.

    Example:
        >>> import numpy as np
        >>> cross_entropy(np.zeros((2, 10)), np.array([3, 7]))
        Loss(2.30259)
    """
    targets, shape = np.asarray(targets), np.shape(outputs)
    whole = np.issubdtype(targets.dtype, np.integer)
    if len(shape) != 2 or targets.shape != (shape[:1] if whole else shape):
        raise TrainingError(
            f"cross_entropy was given outputs of shape {shape} and targets of shape {targets.shape} and type "
            f"{targets.dtype}; give (batch, classes), and integers (batch,) or probabilities (batch, classes)"
        )
    if whole and targets.size and (targets.min() < 0 or targets.max() >= shape[1]):
        raise TrainingError(
            f"cross_entropy was given classes {targets.min()} to {targets.max()}, but outputs for 0 to {shape[1] - 1}"
        )
    shifted = outputs - detach(outputs).max(1, keepdims=True)  # does not change the loss, and exp cannot overflow
    logs = shifted - anp.log(anp.exp(shifted).sum(axis=1, keepdims=True))
    picked = logs[np.arange(shape[0]), targets] if whole else (logs * targets.astype(logs.dtype)).sum(axis=1)
    return Loss((-picked).mean())


@np.errstate(all="ignore")
def mse(outputs: Value, targets: Value) -> Loss:
    """Return the mean squared error, as ``torch.nn.functional.mse_loss``.

    Raises:
        TrainingError: The shapes differ. Broadcasting is refused, since it is hardly ever meant.

    Example:
        >>> import numpy as np
        >>> mse(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
        Loss(2)
    """
    if np.shape(outputs) != np.shape(targets):
        raise TrainingError(
            f"mse was given outputs of shape {np.shape(outputs)} and targets of shape {np.shape(targets)}; reshape one"
        )
    return Loss(((outputs - targets) ** 2).mean())
