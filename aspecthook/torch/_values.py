"""The inputs and outputs of modules: tensors, and tuples, lists and dicts of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

from aspecthook._core.law.callables import type_of

# Any, here and in the files beside this one, so that type checkers see the same whether or not PyTorch is installed.
torch: Any = import_module("torch")


def mapped(value: Any, function: Callable[[Any], Any], kind: Any = torch.Tensor) -> Any:
    """Return a value in which each tensor, or each object of another kind, is replaced by what a function returns."""
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
    """Return the tensors in a value."""
    found: list[Any] = []
    mapped(value, found.append)
    return found


def copied(tensor: Any) -> Any:
    """Return a copy outside of the graph, since the next layer may change the tensor in place."""
    return tensor.detach().clone()


@contextmanager
def evaluating(model: Any) -> Generator[None]:
    """Disable gradients and switch to evaluation mode; at the end each module is in its own mode again."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def run(model: Any, batches: Any) -> None:
    """Call a model with the inputs of batches: the batches themselves, or their first entries."""
    with evaluating(model):
        for batch in batches:
            model(batch[0] if isinstance(batch, (tuple, list)) else batch)
