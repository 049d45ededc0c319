"""What both back ends do with the state of models and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aspecthook.training._errors import TrainingError


def is_any(value: Any, *kinds: type) -> bool:
    """Whether a value is an instance of a type; a type checker goes on treating the value as Any."""
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
    """Refuse arrays that do not fit a model.

    Args:
        what: The model, for the message.
        expected: The shapes, by name.
        given: The arrays, by name.
        partly: Arrays may be missing.

    Raises:
        TrainingError: Some are missing, unexpected or of another shape; the message lists them all.
    """
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


def _shape(shape: Sequence[int]) -> str:
    return "×".join(str(size) for size in shape) or "a single number"


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a copy of a tree of dicts, lists and tuples, with the function applied to everything else in it."""
    if is_any(tree, Mapping):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if is_any(tree, list, tuple):
        leaves = [map_leaves(function, value) for value in tree]
        return leaves if is_any(tree, list) else tuple(leaves)
    return function(tree)


def optimizer_state(optimizer: Any, to_array: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the type of an optimizer, and its state with `to_array` applied to the leaves; {} if it has no state."""
    if not hasattr(optimizer, "state_dict"):
        return {}
    return {"type": type(optimizer).__name__, "state": map_leaves(to_array, optimizer.state_dict())}


def load_optimizer_state(optimizer: Any, kept: Mapping[str, Any], to_tensor: Callable[[Any], Any]) -> None:
    """Restore what `optimizer_state` returned, with `to_tensor` applied to the leaves.

    Raises:
        TrainingError: It is the state of another type of optimizer, or of one for other parameters.
    """
    if not kept:
        return
    here = type(optimizer).__name__
    if kept["type"] != here:
        raise TrainingError(
            f"this is the state of the optimizer {kept['type']}, and the run's is {here}; give the runner the same "
            "optimizer, or load only the model"
        )
    theirs, ours = (
        [len(group["params"]) for group in groups] for groups in (kept["state"]["param_groups"], optimizer.param_groups)
    )
    if theirs != ours:
        raise TrainingError(
            f"this is the state of an optimizer for groups of {theirs} parameters, and the run's has {ours}; give it "
            "the same parameters in the same groups, or load only the model"
        )
    optimizer.load_state_dict(map_leaves(to_tensor, kept["state"]))
