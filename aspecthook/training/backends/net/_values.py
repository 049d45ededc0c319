"""Parameters, and losses whose gradients HIPS autograd computes.

Autograd differentiates functions; here the function is written as it runs, as in PyTorch. The value of a parameter
enters a computation in a box of autograd's whose node has no parents; what is computed from it is a box too; and the
backward pass, which is autograd's own, ends by calling that node with the gradient, which the parameter adds to its
``grad``.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from aspecthook.training._errors import TrainingError

Array: TypeAlias = NDArray[Any]


def _autograd(name: str) -> Any:
    """Give a module of autograd, which has no types."""
    try:
        return import_module(f"autograd.{name}")
    except ModuleNotFoundError as error:
        if error.name != "autograd":
            raise
        raise ModuleNotFoundError(
            "aspecthook.training.numpy needs autograd; pip install 'aspecthook[train]'", name="autograd"
        ) from error


_core = _autograd("core")
_tracer = _autograd("tracer")
# NumPy's functions, which can be differentiated.
anp = _autograd("numpy")

# Infinities and NaN go through without warnings, as in PyTorch; there are hooks that look for them.
QUIET: dict[str, Any] = {"all": "ignore"}

# Boxes of one depth are computed with together, and deeper ones first. autograd gives its own gradients the depths 0,
# 1, … and takes -1 for none; between these, ours are around all of its own: around a gradient penalty, say.
_DEPTH = -0.5

_with_gradients: ContextVar[bool] = ContextVar("_with_gradients", default=True)


@contextmanager
def no_grad() -> Generator[None]:
    """Compute without gradients inside ``with``: faster, and nothing is kept for a backward pass.

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


def detach(value: Any) -> Any:
    """Give the array or number that a module has made, without its gradient; a plain one as it is.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Linear
        >>> output = Linear(2, 3)(np.ones((1, 2)))
        >>> type(output).__name__, type(detach(output)).__name__
        ('ArrayBox', 'ndarray')
    """
    return _tracer.getval(value)


class _Held:
    """An array in a place: what has it sees whatever it is replaced with."""

    __slots__ = ("__weakref__", "_data")

    def __init__(self, data: Any) -> None:
        self._data: Array = np.array(data)

    @property
    def data(self) -> Array:
        """The array. What changes it replaces it and leaves the old one as it is, so that a loss stays what it was."""
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        self._data = np.asarray(data)  # without axes, what NumPy computes is no array

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"


@final
class Parameter(_Held):
    """An array that is trained.

    Attributes:
        grad: The gradients added up since `zero_grad`, or None.
        requires_grad: False leaves it as it is.

    Example:
        >>> import numpy as np
        >>> weight = Parameter(np.array([3.0, -1.0]))
        >>> penalty = Loss((weight.value**2).sum())
        >>> penalty.backward()
        >>> weight.grad
        array([ 6., -2.])
    """

    __slots__ = ("grad", "requires_grad")

    def __init__(self, data: Any, *, requires_grad: bool = True) -> None:
        super().__init__(data)
        self.grad: Array | None = None
        self.requires_grad = requires_grad

    @property
    def value(self) -> Any:
        """Its value to compute with: a box of autograd's, which goes wherever an array goes, or the plain array."""
        if not (self.requires_grad and _with_gradients.get()):
            return self._data
        root = _core.VJPNode.new_root()
        root.vjp = self._add
        return _tracer.new_box(self._data, _DEPTH, root)

    def _add(self, gradient: Any) -> tuple[()]:
        """Take a gradient; autograd calls this where it goes on to the parents of other nodes."""
        self.grad = np.array(gradient if self.grad is None else self.grad + gradient, self._data.dtype)
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the array."""
        return self._data.dtype

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return self._data.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._data, dtype) if copy else np.asarray(self._data, dtype)


@final
class Buffer(_Held):
    """An array that belongs to the state of a module and is not trained.

    Example:
        >>> Buffer([1.0]).data
        array([1.])
    """

    __slots__ = ()


@final
class Loss:
    """A single number that knows how it was computed from parameters.

    Numbers, other losses and values of autograd's can be added to it, taken from it, multiplied with it; divided by.

    Args:
        value: What autograd's functions have made of the values of parameters, or a plain number.

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
    __array_ufunc__ = None  # so that a number of NumPy's leaves arithmetic to us

    def __init__(self, value: Any) -> None:
        if np.shape(detach(value)) not in ((), (1,)):
            raise TrainingError(
                f"a loss is a single number, and this has the shape {np.shape(detach(value))}; take its mean or its sum"
            )
        self.value = value

    @np.errstate(**QUIET)
    def backward(self) -> None:
        """Add its gradients to ``grad`` of all parameters that it was computed from.

        Raises:
            TrainingError: It was computed from none.
        """
        if not _tracer.isbox(self.value):
            raise TrainingError(
                "this loss was computed from no parameters, or in no_grad(); compute it from what the model gives, by "
                "functions of autograd.numpy"
            )
        _core.backward_pass(np.ones_like(detach(self.value)), self.value._node)

    def item(self) -> float:
        """Give it as a number."""
        return float(np.asarray(detach(self.value)).item())

    def detach(self) -> Loss:
        """Give it as a loss without gradients: a factor, say."""
        return Loss(detach(self.value))

    @np.errstate(**QUIET)
    def __add__(self, other: Any) -> Loss:
        return Loss(self.value + _value(other))

    __radd__ = __add__

    @np.errstate(**QUIET)
    def __sub__(self, other: Any) -> Loss:
        return Loss(self.value - _value(other))

    @np.errstate(**QUIET)
    def __rsub__(self, other: Any) -> Loss:
        return Loss(_value(other) - self.value)

    @np.errstate(**QUIET)
    def __mul__(self, other: Any) -> Loss:
        return Loss(self.value * _value(other))

    __rmul__ = __mul__

    @np.errstate(**QUIET)
    def __truediv__(self, other: Any) -> Loss:
        return Loss(self.value / _value(other))

    @np.errstate(**QUIET)
    def __rtruediv__(self, other: Any) -> Loss:
        return Loss(_value(other) / self.value)

    @np.errstate(**QUIET)
    def __pow__(self, other: Any) -> Loss:
        return Loss(self.value ** _value(other))

    def __neg__(self) -> Loss:
        return Loss(-self.value)

    def __lt__(self, other: Any) -> bool:
        return self.item() < float(other)

    def __le__(self, other: Any) -> bool:
        return self.item() <= float(other)

    def __gt__(self, other: Any) -> bool:
        return self.item() > float(other)

    def __ge__(self, other: Any) -> bool:
        return self.item() >= float(other)

    def __float__(self) -> float:
        return self.item()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec)

    def __repr__(self) -> str:
        return f"Loss({self.item():.6g})"


def _value(other: Any) -> Any:
    return other.value if isinstance(other, (Loss, Parameter)) else other
