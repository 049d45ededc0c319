"""The parts of models, and the check of the arrays that are loaded into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from aspecthook.training._errors import TrainingError

Method = TypeVar("Method", bound=Callable[..., Any])

OFFERS: Final = "offers_arrays_themselves"


def offers_arrays(state_dict: Method) -> Method:
    """Mark a `state_dict` that takes ``copy=False``; the method is marked, since a subclass may have another one."""
    setattr(state_dict, OFFERS, True)
    return state_dict


def is_any(value: Any, *kinds: type) -> bool:
    """Whether a value is an instance of a type; for a type checker the value stays Any, and is not narrowed."""
    return isinstance(value, kinds)


def modules_of(model: Any, kind: type) -> dict[str, Any]:
    """Return the model, if it is of a kind, or those of its attributes that are, each by the prefix of its names."""
    if isinstance(model, kind):
        return {"": model}
    held: dict[str, Any] = getattr(model, "__dict__", {})
    return {f"{name}.": value for name, value in held.items() if isinstance(value, kind)}


def check_arrays(
    what: str, expected: Mapping[str, Sequence[int]], given: Mapping[str, Any], *, partly: bool = False
) -> None:
    """Raise, with a list of them all, if arrays are missing (unless `partly`), unexpected or of another shape."""
    missing = [] if partly else [name for name in expected if name not in given]
    unexpected = [name for name in given if name not in expected]
    shapes = [
        f"{name} is {_shape(given[name].shape)}, and {_shape(shape)} here"
        for name, shape in expected.items()
        if name in given and tuple(given[name].shape) != tuple(shape)
    ]
    rows = [("missing", missing), ("unexpected", unexpected), ("of another shape", shapes)]
    wrong = [f"{title}: {', '.join(names)}" for title, names in rows if names]
    if wrong:
        raise TrainingError(
            f"these are not the tensors of {what}; {'; '.join(wrong)}. Build the model as it was when they were saved, "
            "or load another file; nothing was changed"
        )


def check_kinds(what: str, expected: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise if arrays have another kind of numbers than tensors: floats may be narrower or wider, but not ints."""
    wrong = [
        f"{name} has {given[name].dtype}, and {tensor.dtype} here"
        for name, tensor in expected.items()
        if hasattr(tensor, "dtype") and _kind(tensor.dtype) != _kind(given[name].dtype)
    ]
    if wrong:
        raise TrainingError(
            f"these are not the tensors of {what}; of another type: {', '.join(wrong)}. Load a file that has them as "
            "the model does; nothing was changed"
        )


def _kind(dtype: Any) -> str:
    """Return the kind of a type of NumPy or PyTorch, such as ``"float"`` for ``torch.bfloat16``."""
    name = str(dtype)
    return next((kind for kind in ("float", "complex", "bool", "int") if kind in name), name)


def _shape(shape: Sequence[int]) -> str:
    return "×".join(str(size) for size in shape) or "a single number"


def map_leaves(function: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] = lambda _: False) -> Any:
    """Return a copy of nested mappings, lists and tuples, with the function applied to everything else in them.

    It is applied to those that are leaves, too, and not to what is in them.
    """
    if is_leaf(tree):
        return function(tree)
    if is_any(tree, Mapping):
        return {key: map_leaves(function, value, is_leaf) for key, value in tree.items()}
    if is_any(tree, list, tuple):
        return remade(tree, [map_leaves(function, value, is_leaf) for value in tree])
    return function(tree)


def remade(row: Any, values: Sequence[Any]) -> Any:
    """Return a list or a tuple of the type of another one, which may be a named tuple."""
    return type(row)(*values) if hasattr(row, "_fields") else type(row)(values)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch, which need not be imported."""
    return hasattr(value, "detach") and hasattr(value, "cpu")
