"""Activations and gradients of modules, collected for the length of a block."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias, Unpack, cast, final

from aspecthook._core.law.callables import type_of
from aspecthook._core.law.options import Options
from aspecthook._errors import HookTypeError, brief
from aspecthook.weave import Names, weave

from ._carried import Module, Tensor, is_module
from ._model import modules_of, select

torch: Any = import_module("torch")  # Any, so that type checkers see the same whether or not it is installed
Each: TypeAlias = Callable[[Any], Any]


_ROWS: Any = (tuple, list)  # Any: with it, type checkers do not narrow a type to these


# Any: outputs of modules are whatever they return.
def mapped(value: Any, function: Each, kind: type) -> Any:
    """Return a value in which each object of a kind is replaced by what a function returns."""
    made: Any = type_of(value)
    if issubclass(made, kind):
        return function(value)
    if issubclass(made, _ROWS):
        row = [mapped(one, function, kind) for one in value]
        return made(*row) if hasattr(made, "_fields") else made(row)
    if issubclass(made, Mapping):
        return {key: mapped(one, function, kind) for key, one in value.items()}
    return value


def copied(tensor: Tensor) -> Tensor:
    """Return a copy outside of the graph, since the next layer may change the tensor in place."""
    return tensor.detach().clone()


class _Grad:
    """The gradient of one tensor of an output, once it has been computed."""

    def __init__(self, tensor: Tensor, each: Each) -> None:
        self.value: object = None
        self._each = each
        if tensor.requires_grad:
            tensor.register_hook(self._keep)

    def _keep(self, grad: Tensor) -> None:
        self.value = self._each(grad)


@final
class Seen:
    """The outputs of one module, call by call.

    Example:
        >>> import torch
        >>> linear = torch.nn.Linear(2, 3)
        >>> with capture(linear, gradients=True) as seen:
        ...     linear(torch.ones(1, 2)).sum().backward()
        >>> seen[""].output.shape, seen[""].gradient
        (torch.Size([1, 3]), tensor([[1., 1., 1.]]))
    """

    __slots__ = ("grads", "name", "outputs")

    def __init__(self, name: str) -> None:
        self.name: str = name
        # Of each call: the output, and the output with a `_Grad` in the place of each tensor.
        self.outputs: list[Any] = []
        self.grads: list[Any] = []

    @property
    def gradients(self) -> list[Any]:
        """The gradient of each output; None until it has been computed."""
        return [mapped(one, lambda grad: grad.value, _Grad) for one in self.grads]

    @property
    def output(self) -> Any:
        """The output of the last call."""
        return self._last(self.outputs)

    @property
    def gradient(self) -> Any:
        """The gradient of the last output; None until it has been computed."""
        return self._last(self.gradients)

    def _last(self, row: list[Any]) -> Any:
        if not row:
            raise LookupError(f"{self.name or 'the model'} has not been called since the capture began")
        return row[-1]


class _Captured(dict[str, Seen]):
    def __missing__(self, name: str) -> Seen:
        known = ", ".join(map(repr, self)) or "none"
        raise KeyError(f"no module {brief(name)} is captured; those that are: {known}")


@contextmanager
def capture(
    model: Module,
    names: Names | None = None,
    /,
    *,
    gradients: bool = False,
    each: Each = copied,
    **options: Unpack[Options],
) -> Generator[dict[str, Seen]]:
    """Collect the outputs of modules, and their gradients, inside a ``with`` block.

    What was collected is kept after the block, under the name of each module. The gradients of calls inside the block
    are collected even if they are computed after it.

    Args:
        model: A module of PyTorch.
        names: Which of its modules, as in `weave`: a pattern such as ``"*.conv*"``, a class, or several; without, the
            model itself, under the name ``""``.
        gradients: Collect the gradients of the outputs too. Hooks on the output tensors take them, so that modules that
            change their input in place, such as ``ReLU(inplace=True)``, are no obstacle.
        each: A function that gets each tensor and returns what to keep; by default a copy outside the graph.
        options: As in `weave`: ``when``, ``times``, ``every``, ``priority`` and so on. The default priority is LOWEST,
            so that the output is collected after the other hooks have changed it.

    Raises:
        WeaveError: The names select no module, or one that is never called.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        >>> with capture(model, torch.nn.Linear) as seen:
        ...     _ = model(torch.ones(5, 4))
        >>> {name: one.output.shape for name, one in seen.items()}
        {'0': torch.Size([5, 3]), '2': torch.Size([5, 2])}
    """
    if not is_module(model):
        raise HookTypeError(f"capture takes a module of PyTorch, and {brief(model)} is not one")
    if not callable(each):
        raise HookTypeError(f"capture: each={brief(each)} is not callable; give a function of a tensor")

    # The first argument is the module, whatever the parameters of its forward are called.
    def note(call: Any, result: Any) -> None:
        seen = found[known[id(next(iter(call.arguments.values())))]]
        seen.outputs.append(mapped(result, each, torch.Tensor))
        seen.grads.append(mapped(result, lambda tensor: _Grad(tensor, each), torch.Tensor) if gradients else None)

    # A module may have been woven before, under the name that it has in a larger model.
    meant = [("", model, True)] if names is None else select(model, names, list(modules_of(model)), "module")
    known = {id(module): name for name, module, _ in meant}
    found = _Captured()
    given: Options = {"priority": "LOWEST", "name": "capture", **options}
    with weave(model, names, post=note, **given) as weaving:
        for mount in weaving.mounts:
            name = known[id(cast("Any", mount).owner())]
            found[name] = Seen(name)
        yield found
