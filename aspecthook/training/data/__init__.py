"""Loaders that resume in the middle of an epoch, and a small set of images.

For maintainers: `_loading` has the order of an epoch, and reads batches with NumPy; `_torch_loading` reads them with
PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._loading import ArrayDataset, DataLoader, load_digits
    from ._torch_loading import Resumable

__all__ = [
    "ArrayDataset",
    "DataLoader",
    "Resumable",
    "load_digits",
]

load_lazily(__name__, {"_loading": "ArrayDataset DataLoader load_digits", "_torch_loading": "Resumable"})
