"""The inputs and outputs of modules: tensors, and tuples, lists and dicts of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


def copied(tensor: Any) -> Any:
    """Return a copy outside of the graph, since the next layer may change the tensor in place."""
    return tensor.detach().clone()
