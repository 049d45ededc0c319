"""Import paths in configs: ``package.module:Class``, and which of them a registry may import."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

from aspecthook._errors import ConfigError, add_note, brief, nearest

from ._configs import listed, strings

# What a registry may import: everything, nothing, or what is in some packages.
Imports: TypeAlias = bool | tuple[str, ...]


def read_imports(value: object, who: str) -> Imports:
    """Return the ``imports`` of a registry, checked."""
    if isinstance(value, bool):
        return value
    return tuple([name.removesuffix(".") for name in strings(value, f"{who}: imports has the package")])


# Any: a path may name any object.
def import_path(path: str, imports: Imports, who: str) -> Any:
    """Return what a path ``package.module:Class`` names, or the module that ``package.module:`` names.

    Where only some packages may be imported, what is named must be defined in one of them too: every module has
    attributes that it has only imported, such as ``os``.
    """
    from importlib import import_module

    module, _, names = path.partition(":")
    parts = names.split(".") if names else []
    if not all(part.isidentifier() for part in (*module.split("."), *parts)):
        raise ConfigError(
            f"{who}: the type {brief(path)} is neither registered nor an import path of the form 'package.module:Class'"
        )
    _check_allowed(module, path, imports, who)
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
    if parts:
        _check_allowed(getattr(found, "__module__", None), path, imports, who)
    return found


def _check_allowed(module: object, path: str, imports: Imports, who: str) -> None:
    if imports is True:
        return
    if imports is False:
        raise ConfigError(
            f"{who}: the type {brief(path)} is an import path, not registered, and this registry imports nothing; "
            "register it, or allow it: Registry(..., imports=('package',)), or imports=True if you trust its configs "
            "as code"
        )
    if not isinstance(module, str) or not any(f"{module}.".startswith(f"{name}.") for name in imports):
        raise ConfigError(
            f"{who}: the type {brief(path)} is defined in {brief(module)}, and only what is defined in "
            f"{listed(imports)} may be imported; register it, or add its package to imports"
        )


def _siblings(missing: str) -> list[str]:
    """Return the names of the modules beside one that does not exist."""
    from pkgutil import iter_modules

    parent, dot, _ = missing.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", ()) if parent else None
    found = [f"{parent}{dot}{info.name}" for info in iter_modules(path)]
    # Some have no file of their own, as `sys` and `collections.abc`.
    return [*found, *[name for name in tuple(sys.modules) if name.rpartition(".")[0] == parent]]
