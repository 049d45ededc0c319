"""Loaders that resume in the middle of an epoch, and a small set of images.

For maintainers: `_loading` has the order of an epoch, and reads batches with NumPy; `_torch_loading` reads them with
PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import NamesTheLibrary, load_lazily

with NamesTheLibrary(__name__):
    from ._loading import ArrayDataset, DataLoader, load_digits

if TYPE_CHECKING:
    from ._torch_loading import Resumable

__all__ = [
    "ArrayDataset",
    "DataLoader",
    "Resumable",
    "load_digits",
]

load_lazily(__name__, {"_torch_loading": "Resumable"})  # it needs PyTorch
