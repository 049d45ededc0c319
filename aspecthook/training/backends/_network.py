"""Parameters, losses, modules and optimizers of NumPy, as PyTorch has them; HIPS autograd computes the gradients.

Autograd differentiates functions. Here, as in PyTorch, the computation is recorded while it runs: a parameter enters it
as one of autograd's boxes, whose node has no parents, and everything computed from a box is a box too. The backward
pass is autograd's; it ends by calling the node of the parameter with the gradient, which is added to ``grad``.

As in PyTorch, infinities and NaN cause no warnings anywhere; NanGuardHook looks for them. Unlike there, nothing is
registered: a module finds its parameters and submodules in its attributes, in the order in which they were set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import finite_number

from ._backend import generator, with_gradients
from ._state import check_arrays, is_any

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = Any  # an array, or one of autograd's boxes, which has no types

# Any: autograd has no types.
_core: Any = import_module("autograd.core")
_tracer: Any = import_module("autograd.tracer")
# NumPy's functions, which autograd can differentiate.
anp: Any = import_module("autograd.numpy")

# Autograd combines boxes of the same depth, and deeper ones first. Its own gradients have the depths 0, 1, …, and -1
# means no box. With a depth between, our boxes are outside all of its own, as a gradient penalty needs.
_DEPTH = -0.5


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
        data: The array. It is replaced, never changed in place, so that earlier losses and states keep their values.
        grad: The sum of the gradients since `zero_grad`, or None.

    Example:
        >>> import numpy as np
        >>> weight = Parameter(np.array([3.0, -1.0]))
        >>> penalty = Loss((weight.value**2).sum())
        >>> penalty.backward()
        >>> weight.grad
        array([ 6., -2.])
    """

    __slots__ = ("__weakref__", "data", "grad")

    def __init__(self, data: object) -> None:
        self.data: Array = np.array(data)
        self.grad: Array | None = None

    @property
    def value(self) -> Value:
        """The value to compute with: one of autograd's boxes, which works like an array, or the plain array."""
        if not with_gradients.get():
            return self.data
        root = _core.VJPNode.new_root()
        root.vjp = self._add
        return _tracer.new_box(self.data, _DEPTH, root)

    def _add(self, gradient: Array) -> tuple[()]:
        """Add a gradient; autograd calls this where other nodes pass it to their parents."""
        self.grad = np.array(gradient if self.grad is None else self.grad + gradient, self.data.dtype)
        return ()


@final
class Loss(NDArrayOperatorsMixin):
    """A single number that was computed from parameters, and can compute their gradients.

    It can be added, subtracted, multiplied and divided with numbers, other losses and autograd's values.

    Args:
        value: The result of functions of ``autograd.numpy`` on the values of parameters, or a plain number.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Linear, mse
        >>> layer = Linear(1, 1)
        >>> loss = mse(layer(np.ones((4, 1))), np.zeros((4, 1)))
        >>> (loss / 2 + 0.1).backward()
        >>> bool(np.isclose(layer.bias.grad, layer.weight.data + layer.bias.data).all())
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

    __float__ = item

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
    are_classes = targets.dtype.kind in "iu"
    fits = len(shape) == 2 and targets.shape == (shape[:1] if are_classes else shape)
    if not fits or (are_classes and targets.size and not 0 <= targets.min() <= targets.max() < shape[1]):
        raise TrainingError(
            f"cross_entropy was given outputs of shape {shape} and {targets.dtype} targets of shape {targets.shape}; "
            "give (batch, classes), and class numbers (batch,) from 0 up, or probabilities (batch, classes)"
        )
    shifted = outputs - detach(outputs).max(1, keepdims=True)  # does not change the loss, and exp cannot overflow
    logs = shifted - anp.log(anp.exp(shifted).sum(axis=1, keepdims=True))
    picked = logs[np.arange(shape[0]), targets] if are_classes else (logs * targets.astype(logs.dtype)).sum(axis=1)
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
        >>> list(Twice().state_dict())
        ['layer.weight', 'layer.bias']
    """

    training: bool = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Return the output of inputs. Call the module itself rather than this method."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward; write one")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):
            return self.forward(*inputs, **options)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield the module itself, with an empty name, and all submodules below it, each by all its names."""
        yield prefix, self
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield from value.named_modules(f"{prefix}.{name}" if prefix else name)

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
        """Restore what `state_dict` returned; raise, and change nothing, if names or shapes differ."""
        arrays = {name: np.asarray(value) for name, value in state.items()}
        check_arrays(type(self).__name__, self.state_dict(), arrays)
        for name, parameter in self.named_parameters(remove_duplicate=False):
            parameter.data = arrays[name].astype(parameter.data.dtype)

    def train(self, mode: bool = True) -> Self:  # positional, as PyTorch has it
        """Set the training mode of the module and all submodules, and return the module."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Turn the training mode off, and return the module."""
        return self.train(False)


@final
class Linear(Module):
    """``x @ weight.T + bias``. New weights are drawn uniformly from ±1/√in_features, as in PyTorch.

    Example:
        >>> import numpy as np
        >>> Linear(64, 10)(np.zeros((32, 64))).shape
        (32, 10)
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        bound = 1 / np.sqrt(max(in_features, 1))
        self.weight: Parameter = _uniform(bound, out_features, in_features)
        self.bias: Parameter = _uniform(bound, out_features)

    def forward(self, x: Value) -> Any:
        """Return outputs of shape (…, out_features) for inputs of shape (…, in_features)."""
        return anp.matmul(x, self.weight.value.T) + self.bias.value


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
class Dropout(Module):
    """In training, set a share p of the inputs to 0 and divide the others by 1 − p.

    The inputs are drawn with the generator that `manual_seed` seeds, whose state is in checkpoints.

    Example:
        >>> import numpy as np
        >>> sorted(set(Dropout(0.5)(np.ones(100)).tolist()))
        [0.0, 2.0]
        >>> sorted(set(Dropout(0.5).eval()(np.ones(100)).tolist()))
        [1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p < 1:
            raise TrainingError(f"Dropout({p!r}): give the share to drop, from 0 up and below 1")
        self.p = p

    def forward(self, x: Value) -> Any:
        """Return the output of inputs of any shape."""
        if not self.training or self.p == 0:
            return x
        mask = (generator.random(np.shape(x)) >= self.p).astype(detach(x).dtype)
        return x * (mask / mask.dtype.type(1 - self.p))


class Sequential(Module):
    """Modules that are called one after another; their names are their positions.

    Example:
        >>> list(Sequential(Linear(64, 32), ReLU(), Linear(32, 10)).state_dict())
        ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    def __init__(self, *modules: Module) -> None:
        self.modules = modules
        for place, module in enumerate(modules):
            setattr(self, str(place), module)

    def forward(self, x: Value) -> Any:
        """Return the output of the last module."""
        for module in self.modules:
            x = module(x)
        return x

    def __getitem__(self, place: int) -> Module:
        return self.modules[place]


Params: TypeAlias = Iterable[Parameter] | Iterable[dict[str, Any]]


@final
class SGD:
    """Stochastic gradient descent, as ``torch.optim.SGD``.

    Args:
        params: Parameters, or dicts of groups.
        lr: The learning rate.
        momentum: The factor by which the last direction is kept.
        weight_decay: The multiple of the parameter that is added to its gradient.

    Attributes:
        param_groups: Dicts with ``params`` and the options of the group, such as ``lr``, which may change at any time.
        momenta: The last directions of parameters.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Loss, Parameter
        >>> x = Parameter(np.array(4.0))
        >>> optimizer = SGD([x], lr=0.25)
        >>> Loss(x.value**2).backward()
        >>> optimizer.step()
        >>> x.data
        array(2.)
    """

    # The fourth argument of PyTorch's is its dampening.
    def __init__(self, params: Params, lr: float = 1e-3, momentum: float = 0.0, *, weight_decay: float = 0.0) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        rows: list[Any] = list(params)
        groups = rows if rows and isinstance(rows[0], dict) else [{"params": rows}]
        self.param_groups: list[dict[str, Any]] = [
            {**defaults, **group, "params": list(group["params"])} for group in groups
        ]
        self.momenta: dict[Parameter, Array] = {}
        parameters = self._parameters()
        are_parameters = all(is_any(one, Parameter) for one in parameters)
        if not parameters or not are_parameters or len(set(parameters)) < len(parameters):
            raise TrainingError(
                f"SGD steps parameters, and was given {brief(parameters)}; give model.parameters(), each in one group"
            )
        for group in self.param_groups:
            for name in defaults:
                finite_number("SGD", name, group[name], least=0)

    @np.errstate(all="ignore")
    def step(self) -> None:
        """Change every parameter that has a gradient; arrays are replaced, and never changed in place."""
        for group in self.param_groups:
            # Python's floats: a NumPy scalar would change the type of the parameter.
            lr, momentum, decay = (float(group[name]) for name in ("lr", "momentum", "weight_decay"))
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if decay:
                    gradient = gradient + decay * parameter.data
                if momentum:
                    if parameter in self.momenta:
                        gradient = momentum * self.momenta[parameter] + gradient
                    self.momenta[parameter] = np.asarray(gradient)
                # NumPy computes scalars from arrays without axes.
                parameter.data = np.asarray(parameter.data - lr * gradient)

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self._parameters():
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return the momenta and the groups of the parameters, with numbers instead of the parameters themselves."""
        numbers = {parameter: number for number, parameter in enumerate(self._parameters())}
        groups = [{**group, "params": [numbers[one] for one in group["params"]]} for group in self.param_groups]
        momenta = {number: self.momenta[one] for one, number in numbers.items() if one in self.momenta}
        return {"momenta": momenta, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, for groups of the same sizes."""
        for group, given in zip(self.param_groups, state["param_groups"], strict=True):
            group.update({**given, "params": group["params"]})
        momenta = state["momenta"]
        self.momenta = {one: momenta[n].copy() for n, one in enumerate(self._parameters()) if n in momenta}

    def _parameters(self) -> list[Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]
