"""What modules take and give: tensors, and tuples, lists and dicts of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

from aspecthook._core.law.callables import type_of

# Any, here and in the files beside this one: so they have the same types whether or not PyTorch is installed.
torch: Any = import_module("torch")


def is_module(value: object) -> bool:
    """Say whether this is a module."""
    return isinstance(value, torch.nn.Module)


def mapped(value: Any, function: Callable[[Any], Any], kind: Any = torch.Tensor) -> Any:
    """Give a value with a function called on each tensor in it, or on each thing of another kind."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, (tuple, list)):
        row = [mapped(one, function, kind) for one in cast("Iterable[Any]", value)]
        made: Any = type(cast("object", value))
        return made(*row) if hasattr(made, "_fields") else made(row)
    if issubclass(type_of(value), Mapping):
        return {key: mapped(one, function, kind) for key, one in value.items()}
    return value


def tensors(value: Any) -> list[Any]:
    """Give the tensors in a value."""
    found: list[Any] = []
    mapped(value, found.append)
    return found


def copied(tensor: Any) -> Any:
    """Give a copy outside of the graph; the next layer may change the tensor in place."""
    return tensor.detach().clone()


@contextmanager
def evaluating(model: Any) -> Generator[None]:
    """Compute without gradients and as in evaluation; each module is then in the mode in which it was."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def run(model: Any, batches: Any) -> None:
    """Call a model with the inputs of batches: what they are, or the first of what they have."""
    with evaluating(model):
        for batch in batches:
            model(batch[0] if isinstance(batch, (tuple, list)) else batch)
