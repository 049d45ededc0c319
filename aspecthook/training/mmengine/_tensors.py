"""Trees of arrays as trees of PyTorch tensors, and back: mmengine's hooks use tensors, checkpoints hold arrays."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np


# Any: trees of whatever a checkpoint has.
def with_tensors(tree: Any) -> Any:
    """Return the tree with a tensor for each array."""
    given = tree
    if isinstance(tree, Mapping):
        return {name: with_tensors(value) for name, value in given.items()}
    return import_module("torch").tensor(given) if isinstance(tree, np.ndarray) else given


def with_arrays(tree: Any) -> Any:
    """Return the tree with an array for each tensor."""
    given = tree
    if isinstance(tree, Mapping):
        return {str(name): with_arrays(value) for name, value in given.items()}
    return given.detach().cpu().numpy() if hasattr(tree, "detach") else given
