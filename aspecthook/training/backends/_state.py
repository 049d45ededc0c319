"""The check of arrays that are loaded into tensors, and trees of values such as batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from aspecthook.training._errors import TrainingError


def check_arrays(what: str, tensors: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Raise an error that lists all arrays that are missing, unexpected, or of another shape or kind than the tensors.

    Floats may be narrower or wider than those of the tensor; floats for ints, or ints for floats, are an error.
    """
    pairs = [(name, _form(arrays[name]), _form(tensor)) for name, tensor in tensors.items() if name in arrays]
    problems = {
        "missing": [name for name in tensors if name not in arrays],
        "unexpected": [name for name in arrays if name not in tensors],
        "different": [f"{name} is {theirs}, and {ours} here" for name, theirs, ours in pairs if theirs != ours],
    }
    wrong = [f"{title}: {', '.join(names)}" for title, names in problems.items() if names]
    if wrong:
        raise TrainingError(
            f"these are not the tensors of {what}; {'; '.join(wrong)}. Build the model as it was when they were saved, "
            "or load another file; nothing was changed"
        )


def _form(tensor: Any) -> str:
    """Return the shape and the kind of a tensor of NumPy or PyTorch, such as "4×3 floats" for ``torch.bfloat16``."""
    name, shape = str(getattr(tensor, "dtype", type(tensor).__name__)), getattr(tensor, "shape", ())
    kind = next((kind for kind in ("float", "complex", "bool", "int") if kind in name), name)
    return f"{'×'.join(map(str, shape))} {kind}s" if shape else f"one {kind}"


# Any, below: a tree is made of whatever a batch or a state is made of.


def map_leaves(function: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] = lambda _: False) -> Any:
    """Return a copy of nested mappings, lists and tuples in which `function` has replaced each leaf.

    Every other value is a leaf, and so is a container of which `is_leaf` is true.
    """
    if is_leaf(tree):
        return function(tree)
    if isinstance(tree, Mapping):
        entries = cast("Mapping[object, Any]", tree)
        return {key: map_leaves(function, value, is_leaf) for key, value in entries.items()}
    if isinstance(tree, (list, tuple)):
        values = cast("Sequence[Any]", tree)
        return remade(values, [map_leaves(function, value, is_leaf) for value in values])
    return function(tree)


def remade(row: Any, values: Sequence[Any]) -> Any:
    """Return the values as a list or a tuple of the same type as `row`, which may be a named tuple."""
    return type(row)(*values) if hasattr(row, "_fields") else type(row)(values)


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of PyTorch, which need not be imported."""
    return hasattr(value, "detach") and hasattr(value, "cpu")
