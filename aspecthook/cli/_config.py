"""The file of `aspecthook run`: what to weave on which targets, as TOML. It is checked before the program starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.options import OPTIONS
from aspecthook._errors import AspecthookError, ConfigError, described, nearest
from aspecthook.training.registry._configs import import_path, listed, load_config, string
from aspecthook.weave import Weaving, weave
from aspecthook.weave._aspects import marked

from ._names import of_main

_KEYS = ("target", "aspect", "arguments", *KINDS, *OPTIONS)


class Entry(NamedTuple):
    """One table ``[[weave]]``; ``who`` begins messages about it."""

    who: str
    table: dict[str, Any]


def read_config(path: str) -> list[Entry]:
    """Return what a file says, checked as far as it can be without importing anything.

    Raises:
        ConfigError: It is not such a file; the message says where and what to do.
        OSError: It cannot be read.
    """
    document = load_config(path)
    _check_keys(document, ("weave",), path)
    rows: Any = document.get("weave", [])
    if isinstance(rows, dict):
        raise ConfigError(f"{path}: [weave] is one table; write [[weave]], in double brackets, for each target")
    if not isinstance(rows, list) or not rows:
        raise ConfigError(f'{path}: nothing is to be woven; add a table [[weave]] with target = "module:name"')
    return [_entry(row, f"{path}: [[weave]] number {number}") for number, row in enumerate(cast("Any", rows), 1)]


def _entry(row: Any, who: str) -> Entry:
    if not isinstance(row, dict):
        raise ConfigError(f"{who} is {described(row)}; write a table, [[weave]]")
    table = cast("dict[str, Any]", row)
    _check_keys(table, _KEYS, who)
    if "target" not in table:
        raise ConfigError(f'{who} has no target; name one: target = "module:name"')
    for key in ("target", "aspect", *KINDS):
        if key in table:
            string(table[key], f"{who}: {key} is")
    arguments = table.get("arguments", {})
    if not isinstance(arguments, dict):
        raise ConfigError(f"{who}: arguments is {described(arguments)}; write a table: arguments = {{ name = value }}")
    if "aspect" not in table:
        if arguments:
            raise ConfigError(f"{who}: arguments are those of an aspect, and there is none; hooks take none")
        if not table.keys() & set(KINDS):
            raise ConfigError(f'{who} names nothing to weave; add aspect = "retry", or a hook: pre = "module:function"')
    return Entry(who, table)


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], who: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{who} has {key!r}{nearest(key, [*known]) or f'; it may have {listed(known)}'}")


def apply(path: str) -> list[Weaving]:
    """Weave what a file names, all of it or nothing. Modules that it names are looked for beside it, too.

    Raises:
        ConfigError: Something that it names is not there, or cannot be woven so.
    """
    folder = os.path.dirname(path)
    added = folder not in sys.path
    woven: list[Weaving] = []
    if added:
        sys.path.append(folder)
    try:
        for entry in read_config(path):
            woven.append(_weave(entry))  # noqa: PERF401  # what is woven must be known if one fails
    except BaseException:
        for one in woven:
            one.remove()
        raise
    finally:
        if added:
            sys.path.remove(folder)
    return woven


def _weave(entry: Entry) -> Weaving:
    who, table = entry
    options = {key: _value(table[key], who) for key in OPTIONS if key in table}
    hooks: dict[str, Any] = {kind: import_path(table[kind], who) for kind in KINDS if kind in table}
    aspect = _aspect(table["aspect"], table.get("arguments", {}), who) if "aspect" in table else None
    try:
        return weave(of_main(table["target"]), aspect=aspect, **hooks, **options)
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
        aspect: Any = made(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{who}: {name!r} does not take these arguments: {error}") from error
    except ImportError as error:  # the aspect says what to install
        raise ConfigError(f"{who}: {error}") from error
    if not marked(aspect):
        raise ConfigError(
            f"{who}: {name!r} makes {described(aspect)}, which is no aspect; it needs methods marked "
            f"with pre, post and so on"
        )
    return aspect


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
