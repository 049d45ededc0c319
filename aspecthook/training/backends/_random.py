"""The random number generators that a run draws from, on the CPU."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

# The dropout and the new weights of `aspecthook.training.numpy` draw from it, as PyTorch's draw from its global one.
generator = np.random.Generator(np.random.PCG64())


def manual_seed(seed: int) -> None:
    """Seed the generator that dropout and new weights draw from.

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
    """Return the states of Python's, NumPy's global and our own generator."""
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
    """Restore what `rng_states` returned."""
    python, numpy, own = state["python"], state["numpy"], state["own"]
    random.setstate((python["version"], tuple(int(word) for word in python["state"]), python["gauss"]))
    np.random.set_state(
        ("MT19937", np.asarray(numpy["key"], np.uint32), numpy["pos"], numpy["has_gauss"], numpy["gauss"])
    )
    generator.bit_generator.state = own
