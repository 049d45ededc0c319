"""The file of `aspecthook run`: what to weave on which targets, as TOML. It is checked before the program starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast

from aspecthook._core.law.kinds import KINDS
from aspecthook._core.law.options import OPTIONS
from aspecthook._errors import AspecthookError, ConfigError, add_note, described, nearest
from aspecthook.plugins._entry_points import entry_points_of
from aspecthook.training.registry._configs import listed, load_toml, string, strings
from aspecthook.training.registry._import_paths import import_path
from aspecthook.weave import Weaving, weave
from aspecthook.weave._aspects import marked
from aspecthook.weave._pointcut import Pointcut

from ._names import of_main

GROUP = "aspecthook.aspects"  # of entry points, which name more aspects
_OPTIONS = tuple(one for one in OPTIONS if one != "weak")
_KEYS = ("target", "aspect", "arguments", *KINDS, *_OPTIONS)


class Entry(NamedTuple):
    """One table ``[[weave]]``."""

    who: str  # for messages
    target: str
    aspect: str | None
    arguments: dict[str, Any]
    hooks: dict[str, str]  # by kind
    options: dict[str, Any]


class Config(NamedTuple):
    """A file, read and checked as far as it can be without importing anything."""

    entries: tuple[Entry, ...]
    redact: tuple[str, ...]


def read_config(path: str) -> Config:
    """Return what a file says.

    Raises:
        ConfigError: It is not such a file; the message says where and what to do.
        OSError: It cannot be read.
    """
    document = load_toml(path)
    _check_keys(document, ("weave", "redact"), path)
    rows: Any = document.get("weave", [])
    if isinstance(rows, dict):
        raise ConfigError(f"{path}: [weave] is one table; write [[weave]], in double brackets, for each target")
    if not isinstance(rows, list) or not rows:
        raise ConfigError(f'{path}: nothing is to be woven; add a table [[weave]] with target = "module:name"')
    redact = tuple(strings(document["redact"], f"{path}: redact has the name")) if "redact" in document else ()
    entries = [_entry(row, f"{path}: [[weave]] number {number}") for number, row in enumerate(cast("Any", rows), 1)]
    return Config(tuple(entries), redact)


def _entry(row: Any, who: str) -> Entry:
    if not isinstance(row, dict):
        raise ConfigError(f"{who} is {described(row)}; write a table, [[weave]]")
    table = cast("dict[str, Any]", row)
    _check_keys(table, _KEYS, who)
    if "target" not in table:
        raise ConfigError(f'{who} has no target; name one: target = "module:name"')
    target = string(table["target"], f"{who}: target is")
    try:
        Pointcut(target)
    except AspecthookError as error:
        raise ConfigError(f"{who}: {error}") from None
    hooks: dict[str, str] = {kind: string(table[kind], f"{who}: {kind} is") for kind in KINDS if kind in table}
    aspect = string(table["aspect"], f"{who}: aspect is") if "aspect" in table else None
    if aspect is None and not hooks:
        raise ConfigError(f'{who} names nothing to weave; add aspect = "retry", or a hook: pre = "module:function"')
    arguments = table.get("arguments", {})
    if not isinstance(arguments, dict):
        raise ConfigError(f"{who}: arguments is {described(arguments)}; write a table: arguments = {{ name = value }}")
    if arguments and aspect is None:
        raise ConfigError(f"{who}: arguments are those of an aspect, and there is none; hooks take none")
    options = {key: table[key] for key in _OPTIONS if key in table}
    return Entry(who, target, aspect, cast("dict[str, Any]", arguments), hooks, options)


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], who: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{who} has {key!r}{nearest(key, [*known]) or f'; it may have {listed(known)}'}")


def apply(config: Config) -> list[Weaving]:
    """Weave what a file names: all of it, or nothing.

    Raises:
        ConfigError: Something that it names is not there, or cannot be woven so.
    """
    woven: list[Weaving] = []
    try:
        for entry in config.entries:
            woven.append(_weave(entry, config.redact))  # noqa: PERF401  # what is woven must be known if one fails
    except BaseException:
        for one in woven:
            one.remove()
        raise
    return woven


def _weave(entry: Entry, redact: tuple[str, ...]) -> Weaving:
    options = {key: _value(value, entry.who) for key, value in entry.options.items()}
    hooks: dict[str, Any] = {kind: import_path(path, entry.who) for kind, path in entry.hooks.items()}
    aspect = _aspect(entry, redact) if entry.aspect is not None else None
    try:
        return weave(of_main(entry.target), aspect=aspect, **hooks, **options)
    except AspecthookError as error:
        raise ConfigError(f"{entry.who}: {error}") from error


def _aspect(entry: Entry, redact: tuple[str, ...]) -> object:
    """Return the aspect that an entry names: made by its class or function, or the very object."""
    made = _named(entry.aspect or "", entry.who)
    if not isinstance(made, type) and (marked(made) or not callable(made)):
        if entry.arguments:
            raise ConfigError(f"{entry.who}: {entry.aspect!r} is an object and takes no arguments; name its class")
        return made
    arguments = {key: _value(value, entry.who) for key, value in entry.arguments.items()}
    known = _parameters(made)
    takes_any = not known or any(one.kind is one.VAR_KEYWORD for one in known.values())
    odd = None if takes_any else next((key for key in arguments if key not in known), None)
    if odd is not None:
        raise ConfigError(
            f"{entry.who}: {entry.aspect!r} takes no {odd!r}; what it takes: {listed(known)}{nearest(odd, [*known])}"
        )
    if redact and "redact" not in arguments and "redact" in known:
        arguments["redact"] = redact
    try:
        aspect: Any = made(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{entry.who}: {entry.aspect!r} does not take these arguments: {error}") from error
    except ImportError as error:  # the aspect says what to install
        raise ConfigError(f"{entry.who}: {error}") from error
    if not marked(aspect):
        raise ConfigError(
            f"{entry.who}: {entry.aspect!r} makes {described(aspect)}, which is no aspect; it needs methods marked "
            f"with pre, post and so on"
        )
    return aspect


def _parameters(made: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(made).parameters
    except ValueError:
        return {}


# Any: an aspect may be made by anything.
def _named(name: str, who: str) -> Any:
    if ":" in name:
        return import_path(name, who)
    ready = ready_made()
    if name in ready:
        return getattr(import_module("aspecthook.aspects"), name)
    points = {point.name: point for point in entry_points_of(GROUP)}
    if name not in points:
        known = [*ready, *points]
        hint = nearest(name, known) or f"; there are {listed(known)}"
        raise ConfigError(f"{who}: there is no aspect {name!r}{hint}; for one of your own write 'module:name'")
    try:
        return points[name].load()
    except Exception as error:
        add_note(error, f"{who}: while loading the {points[name]}")
        raise


def ready_made() -> list[str]:
    """Return the names of the aspects that come with the package."""
    names: list[str] = import_module("aspecthook.aspects").__all__
    return [name for name in names if name.islower()]  # the functions; classes are what they return and raise


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
