"""The UCI handwritten digits: 1,797 real images of 8×8 pixels, which come with the package.

Source, licence (CC BY 4.0) and citation are in ``data/digits.txt``, beside the data.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError

from ._loading import permutation

Images: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]


def load_digits(split: Literal["train", "test"] = "train", seed: int = 0) -> tuple[Images, Labels]:
    """Return the images and labels of one part of the digits.

    The test part has a fifth (rounded down) of the images of each digit, 355 in all, and the training part the other
    1,442. The split depends only on the seed. Each writer is in both parts.

    Args:
        split: ``"train"`` or ``"test"``.
        seed: Determines the split.

    Returns:
        Images, of shape (n, 8, 8), from 0 (white) to 1 (black); and the digits, of shape (n,).

    Example:
        >>> images, labels = load_digits("test")
        >>> images.shape, images.dtype, labels[:5]
        ((355, 8, 8), dtype('float32'), array([...]))
    """
    if split not in ("train", "test"):
        raise TrainingError(f"load_digits({brief(split)}): give 'train' or 'test'")
    rows = _rows()
    labels = rows[:, -1]
    chosen = np.zeros(len(labels), bool)
    for digit in range(10):
        places = np.flatnonzero(labels == digit)
        chosen[places[permutation(len(places), seed, digit)[: len(places) // 5]]] = True
    if split == "train":
        chosen = ~chosen
    return (rows[chosen, :-1] / np.float32(16)).astype(np.float32).reshape(-1, 8, 8), labels[chosen]


@cache
def _rows() -> NDArray[np.int64]:
    """Return the rows of the file: 64 pixels and a digit."""
    packed = (files("aspecthook.training") / "data" / "digits.csv.gz").read_bytes()
    rows: NDArray[Any] = np.loadtxt(gzip.decompress(packed).decode().splitlines(), np.int64, delimiter=",")
    return rows
