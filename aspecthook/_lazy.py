"""Public names that are loaded when they are first asked for, so that importing a package stays fast."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ._hints import Any

# Libraries that modules import as they are loaded, and the extras that bring them.
_EXTRAS = {"hypothesis": "testing", "torch": "torch"}


def load_lazily(package: str, homes: Mapping[str, str]) -> None:
    """Give a package whose names are written in other modules a `__getattr__` (PEP 562) that loads them.

    It is not assigned in the package, where a type checker would see it, and take every misspelt name for one that may
    be there.

    Args:
        package: The package's `__name__`.
        homes: For each name the module that has it, relative to the package (``"loop._runner"``).
    """

    def load(name: str) -> Any:  # any public name of the package
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # Imported here, since most programs never need it.
        from importlib import import_module

        try:
            module = import_module(f"{package}.{homes[name]}")
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in _EXTRAS:
                raise
            text = f"{package}.{name} needs {missing}; pip install 'aspecthook[{_EXTRAS[missing]}]'"
            raise ModuleNotFoundError(text, name=error.name) from None
        found = getattr(module, name)
        setattr(sys.modules[package], name, found)  # the next look-up finds it without this function
        return found

    module = sys.modules[package]
    setattr(module, "__getattr__", load)
    setattr(module, "__dir__", lambda: sorted({*vars(module), *homes}))
