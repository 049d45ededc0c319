"""Import paths in configs: ``package.module:Class``."""

from __future__ import annotations

import sys
from typing import Any

from aspecthook._errors import ConfigError, add_note, brief, nearest


# Any: a path may name any object.
def import_path(path: str, who: str) -> Any:
    """Return what a path ``package.module:Class`` names; `who` begins the messages."""
    from importlib import import_module

    module, _, names = path.partition(":")
    parts = names.split(".") if names else []
    if not parts or not all(part.isidentifier() for part in (*module.split("."), *parts)):
        raise ConfigError(
            f"{who}: the type {brief(path)} is neither registered nor an import path of the form 'package.module:Class'"
        )
    try:
        found: Any = import_module(module)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{module}.".startswith(f"{missing}."):
            add_note(error, f"{who}: while importing {brief(path)}")
            raise
        hint = nearest(missing, _siblings(missing), 0.7)  # of very many names some are always a little alike
        raise ConfigError(f"{who}: there is no module {missing!r} for the type {brief(path)}{hint}") from error
    for name in parts:
        try:
            found = getattr(found, name)
        except AttributeError as error:
            hint = nearest(name, dir(found))
            raise ConfigError(f"{who}: {brief(found)} has no {name!r} for the type {brief(path)}{hint}") from error
    return found


def _siblings(missing: str) -> list[str]:
    """Return the names of the modules beside one that does not exist."""
    from pkgutil import iter_modules

    parent, dot, _ = missing.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", ()) if parent else None
    found = [f"{parent}{dot}{info.name}" for info in iter_modules(path)]
    # Some have no file of their own, as `sys` and `collections.abc`.
    return [*found, *[name for name in tuple(sys.modules) if name.rpartition(".")[0] == parent]]
