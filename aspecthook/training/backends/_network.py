"""Parameters, losses, modules and optimizers of NumPy, as PyTorch has them; HIPS autograd computes the gradients.

Autograd differentiates functions. Here the computation is recorded while it runs, as in PyTorch. A parameter takes part
in it as one of autograd's boxes, whose node has no parents, and the result of a computation with a box is a box too.
The backward pass is autograd's. It ends at the node of the parameter, which adds the gradient to ``grad``.

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
from ._state import check_arrays

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = Any  # an array, or one of autograd's boxes, for which it has no types

# They are imported by name, since autograd has no types.
_core = import_module("autograd.core")
_tracer = import_module("autograd.tracer")
# NumPy's functions, which autograd can differentiate.
anp = import_module("autograd.numpy")

# Of the boxes that meet in a computation, autograd differentiates those of the greatest depth first. Its own functions
# make boxes of the depths 0, 1, … With a lower depth, our boxes contain all of those, so that a loss may contain a
# gradient that was computed with ``autograd.grad``, such as a penalty. A depth of -1 would mean no box.
_DEPTH = -0.5


def detach(value: Value) -> Any:
    """Return the output of a module as a plain array or number, without its gradient.

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
    """An array of trainable parameters.

    Attributes:
        data: The array. To change it, replace it: earlier losses and states share the old array.
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
        """The value to compute with: a box of autograd, which works like an array, or in `no_grad` the array itself."""
        if not with_gradients.get():
            return self.data
        root = _core.VJPNode.new_root()
        root.vjp = self._add
        return _tracer.new_box(self.data, _DEPTH, root)

    def _add(self, gradient: Array) -> tuple[()]:
        """Add a gradient. Autograd calls this for the gradients of the node's parents, of which there are none."""
        self.grad = np.array(gradient if self.grad is None else self.grad + gradient, self.data.dtype)
        return ()


@final
class Loss(NDArrayOperatorsMixin):
    """A single number that was computed from parameters, and can compute their gradients.

    It takes part in arithmetic with numbers, other losses and the values of parameters.

    Args:
        value: The result of functions of ``autograd.numpy`` on the values of parameters, or a plain number.

    Example:
        >>> import numpy as np
        >>> from aspecthook.training.numpy import Parameter
        >>> x = Parameter(np.array(4.0))
        >>> loss = Loss(x.value**2)
        >>> (loss / 2 + 0.1).backward()
        >>> x.grad
        array(4.)
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
            TrainingError: The loss was not computed from parameters.
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
        values = (value.value if hasattr(value, "value") else value for value in inputs)
        result = getattr(anp, ufunc.__name__)(*values)
        return result if result.dtype == bool else Loss(result)  # a comparison returns a bool

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
    shifted = outputs - detach(outputs).max(1, keepdims=True)  # the loss is the same, and `exp` cannot overflow
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
        >>> from aspecthook.training.numpy import Linear
        >>> class Residual(Module):
        ...     def __init__(self):
        ...         self.layer = Linear(8, 8)
        ...
        ...     def forward(self, x):
        ...         return x + self.layer(x)
        >>> list(Residual().state_dict())
        ['layer.weight', 'layer.bias']
    """

    training: bool = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Return the output for the inputs. Call the module itself rather than this method."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward; write one")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):
            return self.forward(*inputs, **options)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield the module itself, whose name is empty, and all modules in it; a shared one by each of its names."""
        yield prefix, self
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield from value.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters, a shared one only once, by its first name."""
        seen: set[Parameter] = set()
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Parameter) and value not in seen:
                    seen.add(value)
                    yield f"{prefix}.{name}" if prefix else name, value

    def parameters(self) -> Iterator[Parameter]:
        """Return all parameters, for an optimizer."""
        return (parameter for _, parameter in self.named_parameters())

    def state_dict(self) -> dict[str, Array]:
        """Return the arrays of all parameters by name, not copies: training replaces arrays and never changes them."""
        return {name: parameter.data for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; raise, and change nothing, if names or shapes differ."""
        arrays = {name: np.asarray(value) for name, value in state.items()}
        check_arrays(type(self).__name__, self.state_dict(), arrays)
        for name, parameter in self.named_parameters():
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
    """A linear layer: ``x @ weight.T + bias``. New weights are drawn uniformly from ±1/√in_features, as in PyTorch.

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
    """The function ``max(x, 0)``; its derivative at 0 is 0, as in PyTorch.

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

    The generator that `manual_seed` seeds draws the inputs; checkpoints contain its state.

    Example:
        >>> import numpy as np
        >>> sorted(set(Dropout(0.5)(np.ones(100)).tolist()))
        [0.0, 2.0]
        >>> sorted(set(Dropout(0.5).eval()(np.ones(100)).tolist()))
        [1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p: float = finite_number("Dropout", "p", p, least=0, below=1)

    def forward(self, x: Value) -> Any:
        """Return the output of inputs of any shape."""
        if not self.training or self.p == 0:
            return x
        mask = (generator.random(np.shape(x)) >= self.p).astype(detach(x).dtype)
        return x * (mask / mask.dtype.type(1 - self.p))


class Sequential(Module):
    """Modules that are called one after another, each with the output of the previous one. Positions are their names.

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


@final
class SGD:
    """Stochastic gradient descent, as ``torch.optim.SGD``.

    Args:
        params: The parameters.
        lr: The learning rate.
        momentum: The factor of the last direction in the new one.

    Attributes:
        param_groups: One dict with the parameters, as ``params``, and the options, which you may change at any time.
        momenta: The last directions of the parameters; None for a parameter that has not been stepped with momentum.

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

    def __init__(self, params: Iterable[Parameter], lr: float = 1e-3, momentum: float = 0.0) -> None:
        options = {"lr": lr, "momentum": momentum}
        parameters: list[object] = list(params)
        are_parameters = all(isinstance(parameter, Parameter) for parameter in parameters)
        if not parameters or not are_parameters or len(set(parameters)) < len(parameters):
            raise TrainingError(
                f"SGD steps parameters, and was given {brief(parameters)}; give model.parameters(), each only once"
            )
        for name, value in options.items():
            finite_number("SGD", name, value, least=0)
        self.param_groups: list[dict[str, Any]] = [{"params": parameters, **options}]
        self.momenta: list[Array | None] = [None] * len(parameters)

    @np.errstate(all="ignore")
    def step(self) -> None:
        """Change every parameter that has a gradient; arrays are replaced, and never changed in place."""
        (group,) = self.param_groups
        # Python's floats: a NumPy scalar would change the type of the parameter.
        lr, momentum = float(group["lr"]), float(group["momentum"])
        for number, parameter in enumerate(group["params"]):
            gradient = parameter.grad
            if gradient is None:
                continue
            if momentum:
                last = self.momenta[number]
                gradient = np.asarray(gradient if last is None else momentum * last + gradient)
                self.momenta[number] = gradient
            # NumPy computes scalars from arrays without axes.
            parameter.data = np.asarray(parameter.data - lr * gradient)

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return the momenta and the options, with numbers instead of the parameters themselves."""
        (group,) = self.param_groups
        return {"momenta": [*self.momenta], "param_groups": [{**group, "params": [*range(len(self.momenta))]}]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, for as many parameters."""
        (group,), (saved,) = self.param_groups, state["param_groups"]
        self.param_groups = [{**saved, "params": group["params"]}]
        self.momenta = [*state["momenta"]]
