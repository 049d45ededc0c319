"""Loaders that resume in the middle of an epoch, and a small set of images.

`_position` says where a loader is; `_loading` (NumPy) and `_torch_loading` (PyTorch) read batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import NamesTheLibrary, load_lazily
from aspecthook.training.loop._checks import check_loader

with NamesTheLibrary(__name__):
    from ._digits import load_digits
    from ._loading import ArrayDataset, DataLoader, Dataset, Sampler, collated

if TYPE_CHECKING:
    from ._torch_loading import Resumable

__all__ = [
    "ArrayDataset",
    "DataLoader",
    "Dataset",
    "Resumable",
    "Sampler",
    "check_loader",
    "collated",
    "load_digits",
]

load_lazily(__name__, {"_torch_loading": "Resumable"})  # it needs PyTorch
