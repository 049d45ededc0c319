"""Building the data, the model and the optimizer of a job from its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from aspecthook._errors import ConfigError, brief
from aspecthook.training import numpy as ours
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any
from aspecthook.training.data._digits import load_digits
from aspecthook.training.data._loading import permutation
from aspecthook.training.registry._registry import Registry

Images: TypeAlias = NDArray[Any]
Labels: TypeAlias = NDArray[Any]
Part: TypeAlias = tuple[Images, Labels]

DATA = Registry("data", imports=True)
DATA.register(load_digits, name="digits")


class Classifier:
    """A network that scores classes, with its training step and its validation step.

    Args:
        net: A module for NumPy or PyTorch, from images of shape (n, height, width) and values from 0 to 1, to scores of
            shape (n, classes).
        loss: A function of scores and labels.
    """

    def __init__(self, net: Any, loss: Callable[[Any, Any], Any]) -> None:
        self.net, self.loss = net, loss
        self.train, self.eval = net.train, net.eval  # the runner switches between the two modes

    def __call__(self, images: Any) -> Any:
        return self.net(images)

    # Any: batches and outputs belong to either library.
    def train_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return the loss of a batch."""
        images, labels = batch
        scores = self.net(images)
        loss = self.loss(scores, labels)
        return {"loss": loss, "log_vars": {"loss": loss.item()}, "num_samples": len(labels), "scores": scores}

    def val_step(self, batch: Any, optimizer: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return the loss and the accuracy of a batch."""
        images, labels = batch
        scores = self.net(images)
        right = (scores.argmax(axis=1) == labels).sum().item() / len(labels)
        numbers = {"loss": self.loss(scores, labels).item(), "accuracy": right}
        return {"log_vars": numbers, "num_samples": len(labels), "scores": scores}


def load_data(settings: dict[str, Any], seed: int) -> tuple[Part, Part | None, Part]:
    """Return the data to train on, to validate on (None if nothing is held out) and to test on."""
    held_out = float(settings["held_out"])
    if not 0 <= held_out < 1:
        raise ConfigError(f"[data]: held_out={held_out:g}; give a fraction of at least 0 and less than 1")
    (images, labels), test = (
        cast("Part", DATA.build_from_config({"type": settings["type"], "split": part})) for part in ("train", "test")
    )
    if not held_out:
        return (images, labels), None, test
    out = np.zeros(len(labels), bool)
    for label in np.unique(labels):  # the same fraction of each class
        places = np.flatnonzero(labels == label)
        out[places[permutation(len(places), seed, int(label))[: round(len(places) * held_out)]]] = True
    return (images[~out], labels[~out]), (images[out], labels[out]), test


def build_model(settings: dict[str, Any], backend: str, shape: Sequence[int], classes: int) -> Classifier:
    """Build the model for images of shape (height, width)."""
    if settings.get("type") == "cnn" and backend == "numpy":
        raise ConfigError("[model]: the type 'cnn' needs PyTorch; use --backend torch, or --set model.type=mlp")
    registry = Registry(f"models of {backend}", imports=True)
    layers: Any = ours
    loss = ours.cross_entropy
    if backend == "torch":
        torch = load_torch()
        layers, loss = torch.nn, torch.nn.functional.cross_entropy
        registry.register(partial(_cnn, layers, shape, classes), name="cnn")
    registry.register(partial(_mlp, layers, int(np.prod(shape)), classes), name="mlp")
    return Classifier(_built(registry, settings, "model"), loss)


# Any: the layers of either library, which have the same names.
def _mlp(nn: Any, size: int, classes: int, hidden: Iterable[int] = (256, 128), dropout: float = 0.3) -> Any:
    """Return fully connected layers."""
    layers: list[Any] = [nn.Flatten()]
    for width in _sizes("hidden", hidden, "[256, 128]"):
        layers += [nn.Linear(size, width), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        size = width
    return nn.Sequential(*layers, nn.Linear(size, classes))


def _cnn(nn: Any, shape: Sequence[int], classes: int, channels: Iterable[int] = (32, 64), dropout: float = 0.3) -> Any:
    """Return 3×3 convolutions, each followed by a pooling that halves the image, and a linear layer."""
    height, width = shape
    layers: list[Any] = [nn.Unflatten(1, (1, height))]
    depth = 1
    for more in _sizes("channels", channels, "[32, 64]"):
        layers += [nn.Conv2d(depth, more, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        depth, height, width = more, height // 2, width // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(dropout), nn.Linear(depth * height * width, classes))


def _sizes(name: str, given: Any, example: str) -> list[int]:
    sizes: list[Any] = [*given] if is_any(given, list, tuple) else [None]
    if not all(type(size) is int and size > 0 for size in sizes):
        raise ConfigError(
            f"[model]: {name} is {brief(given)}; give a list of whole numbers from 1 up, such as {example}"
        )
    return sizes


def _built(registry: Registry, config: dict[str, Any], section: str) -> Any:
    """Build from a section; what a library says about a value that it does not take becomes one line."""
    try:
        return registry.build_from_config(config)
    except ConfigError:
        raise
    except (TypeError, ValueError, TrainingError, MemoryError, RuntimeError) as error:  # PyTorch's for no memory
        raise ConfigError(f"[{section}]: {error}; correct the value") from error


def build_optimizer(settings: dict[str, Any], backend: str, parameters: Any) -> Any:
    """Build the optimizer for the parameters of a model."""
    registry = Registry(f"optimizers of {backend}", imports=True)
    home: Any = ours if backend == "numpy" else load_torch().optim
    for name in ("SGD", "Adam", "AdamW"):
        registry.register(getattr(home, name), name=name)
    return _built(registry, {**settings, "params": parameters}, "optimizer")


def load_torch() -> Any:
    """Import PyTorch, or raise an error that says how to install it."""
    try:
        return cast("Any", import_module("torch"))
    except ImportError as error:
        raise TrainingError(
            f"the backend 'torch' needs PyTorch, which cannot be imported ({error}); install it: pip install torch"
        ) from error
