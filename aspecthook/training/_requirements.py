"""The packages that training requires: those of the extra `train`."""

from __future__ import annotations

from importlib.util import find_spec

_TRAIN = ("numpy", "autograd", "safetensors", "rich", "matplotlib", "jinja2")


def check_requirements() -> None:
    """Raise a ModuleNotFoundError that says how to install the extra `train`, unless it is installed."""
    for name in _TRAIN:
        if find_spec(name) is None:
            raise ModuleNotFoundError(
                f"aspecthook.training needs {name}, which is not installed: pip install 'aspecthook[train]'", name=name
            )
