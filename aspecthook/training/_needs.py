"""What the package must have installed for training, and what to say where it is missing."""

from __future__ import annotations

from importlib.util import find_spec

_TRAIN = ("numpy", "autograd", "safetensors", "rich", "matplotlib", "jinja2")


def needed() -> None:
    """Refuse to go on where the extra `train` is not installed.

    Raises:
        ModuleNotFoundError: Something of it is missing; the message says how to install it.
    """
    for name in _TRAIN:
        if find_spec(name) is None:
            raise ModuleNotFoundError(
                f"aspecthook.training needs {name}, which is not installed: pip install 'aspecthook[train]'", name=name
            )
