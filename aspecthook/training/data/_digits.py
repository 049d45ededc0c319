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
    """Give the images and labels of one part of the digits.

    The split is stratified and always the same: of each digit, a fifth (rounded down) of its images, drawn by the seed,
    is the test part, and the others are the training part, which makes 355 and 1,442 images. Both parts keep the order
    of the file. Images of one writer are in both parts: a model is tested on new images, not on new writers.

    Args:
        split: ``"train"`` or ``"test"``.
        seed: Draws another split.

    Returns:
        Images, of shape (n, 8, 8), from 0 (white) to 1 (black); and the digits, of shape (n,).

    Raises:
        TrainingError: There is no such part.

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
    """Give the file: 64 pixels and a digit a line."""
    packed = (files("aspecthook.training") / "data" / "digits.csv.gz").read_bytes()
    rows: NDArray[Any] = np.loadtxt(gzip.decompress(packed).decode().splitlines(), np.int64, delimiter=",")
    return rows
