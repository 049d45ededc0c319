"""PyTorch networks for small images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

# Imported this way, the file type-checks the same with and without PyTorch.
nn: Any = import_module("torch.nn")


def mlp(size: int, classes: int, hidden: Iterable[int] = (256, 128), dropout: float = 0.3) -> Any:
    """Return fully connected layers."""
    layers: list[Any] = [nn.Flatten()]
    for width in hidden:
        layers += [nn.Linear(size, width), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        size = width
    return nn.Sequential(*layers, nn.Linear(size, classes))


def cnn(shape: Sequence[int], classes: int, channels: Iterable[int] = (32, 64), dropout: float = 0.3) -> Any:
    """Return 3×3 convolutions, each followed by a pooling that halves the image, and a linear layer."""
    height, width = shape
    layers: list[Any] = [nn.Unflatten(1, (1, height))]
    depth = 1
    for more in channels:
        layers += [nn.Conv2d(depth, more, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        depth, height, width = more, height // 2, width // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(dropout), nn.Linear(depth * height * width, classes))
