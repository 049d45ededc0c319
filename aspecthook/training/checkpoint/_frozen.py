"""State as a tree of plain values and arrays, and back: of optimizers and of random number generators.

JSON knows no tuples and no keys that are not strings, and arrays go to a file of their own; what `frozen` makes of a
tree has neither, and `thawed` makes the same tree of it again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aspecthook._errors import described
from aspecthook.training._errors import TrainingError

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Array]


def frozen(tree: Any, arrays: Arrays, path: str = "", to_array: Callable[[Any], Array | None] | None = None) -> Any:
    """Give a tree for JSON; its arrays go to ``arrays``, each under its path.

    Args:
        tree: Dicts, lists, tuples, numbers, strings, None and arrays.
        arrays: Where the arrays go.
        path: The path of this part of the tree.
        to_array: Makes an array of what is one in another library, and None of all else.

    Raises:
        TrainingError: Something in it is nothing of these.
    """
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if is_any(tree, Mapping):
        return _frozen_mapping(tree, arrays, path, to_array)
    if is_any(tree, list, tuple):
        rows = [frozen(value, arrays, _joined(path, place), to_array) for place, value in enumerate(tree)]
        return rows if is_any(tree, list) else {"$tuple": rows}
    if is_any(tree, np.generic):
        return frozen(tree.item(), arrays, path)
    array: Array | None = tree if is_any(tree, np.ndarray) else to_array(tree) if to_array is not None else None
    if array is None:
        raise TrainingError(
            f"{path} is {described(tree)}, and a checkpoint keeps numbers, strings, lists, dicts and arrays; leave "
            "it out "
            "of the state"
        )
    name = _free(path or "value", arrays)
    arrays[name] = np.array(array)
    return {"$array": name}


def _frozen_mapping(
    tree: Mapping[Any, Any], arrays: Arrays, path: str, to_array: Callable[[Any], Array | None] | None
) -> Any:
    rows = [(key, frozen(value, arrays, _joined(path, key), to_array)) for key, value in tree.items()]
    if all(isinstance(key, str) and not key.startswith("$") for key, _ in rows):
        return dict(rows)
    return {"$items": [[frozen(key, arrays, path, to_array), value] for key, value in rows]}


def is_any(value: Any, *kinds: type) -> bool:
    """Say whether a value is of a kind; a type checker goes on taking it for anything."""
    return isinstance(value, kinds)


def _joined(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def thawed(tree: Any, arrays: Mapping[str, Array], to_tensor: Callable[[Array], Any] = np.array) -> Any:
    """Give back the tree that `frozen` was given; each array is made what it was by ``to_tensor``."""
    if is_any(tree, list):
        return [thawed(value, arrays, to_tensor) for value in tree]
    if not is_any(tree, dict):
        return tree
    if "$array" in tree:
        return to_tensor(arrays[tree["$array"]])
    if "$tuple" in tree:
        return tuple(thawed(value, arrays, to_tensor) for value in tree["$tuple"])
    if "$items" in tree:
        return {thawed(key, arrays): thawed(value, arrays, to_tensor) for key, value in tree["$items"]}
    return {key: thawed(value, arrays, to_tensor) for key, value in tree.items()}


# Optimizers


def frozen_optimizer(
    optimizer: Any, to_array: Callable[[Any], Array | None] | None = None
) -> tuple[Arrays, dict[str, Any]]:
    """Give the state of an optimizer of either library; one without ``state_dict`` has none."""
    if not hasattr(optimizer, "state_dict"):
        return {}, {}
    arrays: Arrays = {}
    rest = frozen(optimizer.state_dict(), arrays, to_array=to_array)
    return arrays, {"type": type(optimizer).__name__, "state": rest}


def load_frozen_optimizer(
    optimizer: Any, arrays: Mapping[str, Array], rest: Mapping[str, Any], to_tensor: Callable[[Array], Any] = np.array
) -> None:
    """Take back what `frozen_optimizer` has given.

    Raises:
        TrainingError: It is that of another kind of optimizer, or of one for other parameters.
    """
    if not rest:
        return
    here = type(optimizer).__name__
    if rest.get("type") != here:
        raise TrainingError(
            f"this is the state of the optimizer {rest.get('type')}, and the run's is {here}; make the run with the "
            "same optimizer, or load the model alone"
        )
    state = thawed(rest["state"], arrays, to_tensor)
    theirs, ours = (
        [len(group["params"]) for group in groups] for groups in (state["param_groups"], optimizer.param_groups)
    )
    if theirs != ours:
        raise TrainingError(
            f"this is the state of an optimizer for groups of {theirs} parameters, and the run's has {ours}; give it "
            "the same parameters in the same groups, or load the model alone"
        )
    optimizer.load_state_dict(state)


# Random numbers


# Dropout and new weights draw from it, as those of PyTorch draw from its global one.
generator = np.random.Generator(np.random.PCG64())


def manual_seed(seed: int) -> None:
    """Seed what dropout and new weights draw from.

    Example:
        >>> from aspecthook.training.numpy import Linear, manual_seed
        >>> manual_seed(0)
        >>> first = Linear(2, 2).weight.data
        >>> manual_seed(0)
        >>> bool((Linear(2, 2).weight.data == first).all())
        True
    """
    generator.bit_generator.state = np.random.PCG64(seed).state


def seed_all(seed: int) -> None:
    """Seed Python's, NumPy's global and our own generator."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    manual_seed(seed)


def rng_states() -> dict[str, Any]:
    """Give the states of Python's, NumPy's global and our own generator."""
    version, words, gauss = random.getstate()
    state: Any = np.random.get_state(legacy=False)
    return {
        "python": {"version": version, "state": np.array(words, np.uint32), "gauss": gauss},
        "numpy": {
            "key": state["state"]["key"].copy(),
            "pos": int(state["state"]["pos"]),
            "has_gauss": int(state["has_gauss"]),
            "gauss": float(state["gauss"]),
        },
        "own": generator.bit_generator.state,
    }


def set_rng_states(state: Mapping[str, Any]) -> None:
    """Take back what `rng_states` has given."""
    python, numpy, own = state["python"], state["numpy"], state["own"]
    random.setstate((python["version"], tuple(int(word) for word in python["state"]), python["gauss"]))
    np.random.set_state(
        ("MT19937", np.asarray(numpy["key"], np.uint32), numpy["pos"], numpy["has_gauss"], numpy["gauss"])
    )
    generator.bit_generator.state = own
