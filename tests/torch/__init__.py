"""Hooks on modules and tensors of PyTorch; without it, there is nothing to test."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", exc_type=ImportError)
