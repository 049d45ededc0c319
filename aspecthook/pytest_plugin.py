"""The pytest plugin by its name in the package: ``-p aspecthook.pytest_plugin``, where entry points are not read.

For maintainers: pytest itself loads `_aspecthook_pytest`, which is small, by the entry point.
"""

from __future__ import annotations

from aspecthook._lazy import NamesTheLibrary

with NamesTheLibrary(__name__):
    import pytest

import _aspecthook_pytest as entry

from .testing._leaks import HookLeakWarning

__all__ = ["HookLeakWarning"]


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the entry point, which a run without entry points does not know of."""
    name = "aspecthook" if not pluginmanager.has_plugin("aspecthook") else entry.__name__
    if not pluginmanager.is_registered(entry):
        pluginmanager.register(entry, name)
