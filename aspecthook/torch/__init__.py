"""Capture the activations and gradients of PyTorch models, by hooks that leave no trace.

For maintainers: `_model` is what `weave` loads for modules and tensors of PyTorch; it chooses them by their names.
Their mount points (`_own`) are functions that are put into slots: `_forward` has the slot in a module, `_callbacks`
those in PyTorch's dicts of callbacks, and `_carried` what a module carries beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aspecthook._lazy import load_lazily

if TYPE_CHECKING:
    from ._capture import Seen, capture

__all__ = ["Seen", "capture"]

load_lazily(__name__, {"_capture": "Seen capture"})
