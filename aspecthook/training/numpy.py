"""Small neural networks on NumPy, for training without PyTorch; the names are PyTorch's.

HIPS autograd computes the gradients; write your own losses and layers with the functions of ``autograd.numpy``. For the
same weights and batches the results are PyTorch's.

Example:
    >>> import numpy as np
    >>> from aspecthook.training.numpy import SGD, Linear, ReLU, Sequential, cross_entropy, manual_seed
    >>> manual_seed(0)
    >>> model = Sequential(Linear(2, 16), ReLU(), Linear(16, 2))
    >>> optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    >>> inputs = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    >>> targets = np.array([0, 1, 1, 0])
    >>> for step in range(200):
    ...     optimizer.zero_grad()
    ...     loss = cross_entropy(model(inputs), targets)
    ...     loss.backward()
    ...     optimizer.step()
    >>> loss.item() < 0.1
    True
"""

from __future__ import annotations

from aspecthook._lazy import NamesTheLibrary

with NamesTheLibrary(__name__):
    from .backends._backend import manual_seed, no_grad
    from .backends._network import (
        SGD,
        Dropout,
        Linear,
        Loss,
        Module,
        Parameter,
        ReLU,
        Sequential,
        cross_entropy,
        detach,
        mse,
    )

__all__ = [
    "SGD",
    "Dropout",
    "Linear",
    "Loss",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "cross_entropy",
    "detach",
    "manual_seed",
    "mse",
    "no_grad",
]
