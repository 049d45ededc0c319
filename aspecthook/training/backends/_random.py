"""The random number generator of `aspecthook.training.numpy`."""

from __future__ import annotations

import numpy as np

# Dropout and new weights draw from it, as PyTorch's draw from its global one.
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
