"""The file of `aspecthook run`: what to weave on which targets, as TOML, before the program starts; all or nothing."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, cast

from aspecthook._core.law.kinds import KINDS
from aspecthook._errors import AspecthookError, ConfigError, described, nearest
from aspecthook.training.registry._configs import import_path, listed, load_config, string
from aspecthook.weave import Weaving, weave
from aspecthook.weave._aspects import marked

from ._names import of_main


def apply(path: str) -> list[Weaving]:
    """Weave what a file names. Modules that it names are looked for beside it, too.

    Raises:
        ConfigError: It is not such a file, or something that it names is not there or cannot be woven so.
        OSError: It cannot be read.
    """
    before = sys.path.copy()
    woven: list[Weaving] = []
    sys.path.append(os.path.dirname(path))
    try:
        for number, table in enumerate(_tables(path), 1):
            woven.append(_weave(table, f"{path}: [[weave]] number {number}"))  # what is woven is known if one fails
    except BaseException:
        for one in woven:
            one.remove()
        raise
    finally:
        sys.path[:] = before
    return woven


def _tables(path: str) -> list[object]:
    """Return the tables ``[[weave]]`` of a file."""
    document = load_config(path)
    for key in sorted(document.keys() - {"weave"}):
        raise ConfigError(f"{path} has {key!r}{nearest(key, ['weave']) or '; it may have tables [[weave]]'}")
    rows: Any = document.get("weave", [])
    if not isinstance(rows, list) or not rows:
        raise ConfigError(f'{path} has no table [[weave]]; add one, in double brackets, with target = "module:name"')
    return cast("list[object]", rows)


def _weave(row: object, who: str) -> Weaving:
    """Weave what one table names. What `weave` itself refuses, such as an option that there is not, is left to it."""
    if not isinstance(row, dict):
        raise ConfigError(f"{who} is {described(row)}; write a table, [[weave]]")
    table = cast("dict[str, Any]", row).copy()
    if "target" not in table:
        raise ConfigError(f'{who} has no target; name one: target = "module:name"')
    target = string(table.pop("target"), f"{who}: target is")
    arguments = table.pop("arguments", {})
    if not isinstance(arguments, dict):
        raise ConfigError(f"{who}: arguments is {described(arguments)}; write a table: arguments = {{ name = value }}")
    aspect = None
    if "aspect" in table:
        name = string(table.pop("aspect"), f"{who}: aspect is")
        aspect = _aspect(name, cast("dict[str, Any]", arguments), who)
    elif arguments:
        raise ConfigError(f"{who}: arguments are those of an aspect, and there is none; hooks take none")
    hooks = {key: import_path(string(table.pop(key), f"{who}: {key} is"), who) for key in KINDS if key in table}
    options: Any = {key: _value(value, who) for key, value in table.items()}
    try:
        return weave(of_main(target), aspect=aspect, **hooks, **options)
    except AspecthookError as error:
        raise ConfigError(f"{who}: {error}") from error


def _aspect(name: str, given: dict[str, Any], who: str) -> object:
    """Return the aspect of such a name: made by its class or function, or the very object."""
    made = _named(name, who)
    if not isinstance(made, type) and (marked(made) or not callable(made)):
        if given:
            raise ConfigError(f"{who}: {name!r} is an object and takes no arguments; name its class")
        return made
    arguments = {key: _value(value, who) for key, value in given.items()}
    try:
        return cast("object", made(**arguments))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{who}: {name!r} does not take these arguments: {error}") from error


# Any: an aspect may be made by anything.
def _named(name: str, who: str) -> Any:
    if ":" in name:
        return import_path(name, who)
    aspects = import_module("aspecthook.aspects")
    ready = [one for one in aspects.__all__ if one.islower()]  # the functions; classes are what they return and raise
    if name not in ready:
        hint = nearest(name, ready) or f"; there are {listed(ready)}"
        raise ConfigError(f"{who}: there is no aspect {name!r}{hint}; for one of your own write 'module:name'")
    return getattr(aspects, name)


def _value(value: Any, who: str) -> Any:
    """Return a value of the file; ``{ import = "module:name" }`` stands for what is named."""
    if isinstance(value, list):
        return [_value(one, who) for one in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    table = cast("dict[str, Any]", value)
    if table.keys() == {"import"}:
        return import_path(string(table["import"], f"{who}: import has"), who)
    return {key: _value(one, who) for key, one in table.items()}
