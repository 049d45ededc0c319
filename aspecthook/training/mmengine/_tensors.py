"""Trees of arrays as trees of PyTorch's tensors, and back: mmengine's hooks know tensors, checkpoints hold arrays."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np


# Any: trees of whatever a checkpoint has.
def with_tensors(tree: Any) -> Any:
    """Give the tree with a tensor for each array."""
    if isinstance(tree, Mapping):
        rows: Mapping[Any, Any] = tree
        return {name: with_tensors(value) for name, value in rows.items()}
    return import_module("torch").tensor(tree) if isinstance(tree, np.ndarray) else tree


def with_arrays(tree: Any) -> Any:
    """Give the tree with an array for each tensor."""
    if isinstance(tree, Mapping):
        rows: Mapping[Any, Any] = tree
        return {str(name): with_arrays(value) for name, value in rows.items()}
    return tree.detach().cpu().numpy() if hasattr(tree, "detach") else tree
