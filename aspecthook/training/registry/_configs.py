"""Configs: mappings and TOML files that describe objects to build, and the messages about faulty ones."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

from aspecthook._errors import ConfigError, HookTypeError, add_note, brief, described, nearest, printable

# Files


def load_config(path: str | PathLike[str]) -> dict[str, object]:
    """Return the content of a TOML file, or of a JSON file if the path ends in ``.json``.

    Raises:
        ConfigError: The file is not valid; the message names it and, for TOML, the line.
        OSError: The file cannot be read.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "run.toml")
        ...     _ = path.write_text("seed = 7")
        ...     load_config(path)
        {'seed': 7}
    """
    shown, kind = printable(fspath(path)), "JSON" if fspath(path).endswith(".json") else "TOML"
    wrong = f"{shown} is not valid {kind}"
    try:
        raw = Path(path).read_bytes()
    except ValueError as error:  # a NUL in it, or a lone surrogate
        raise ConfigError(f"{brief(path)} cannot be the path of a file: {error}; correct it") from None
    try:
        text = raw.decode("utf-8-sig")  # some editors put a mark first
        document: object = json.loads(text) if kind == "JSON" else tomllib.loads(text)
        check_depth(document)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{wrong}: line {line} is not UTF-8; save it as UTF-8") from error
    except RecursionError:  # its traceback has a thousand lines of the parser
        raise ConfigError(f"{wrong}: its values are nested too deeply; correct it") from None
    except ValueError as error:
        raise ConfigError(f"{wrong}: {printable(str(error))}; correct it there") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{shown} is not a config: it holds {described(document)}; give a file with sections")
    return cast("dict[str, object]", document)


_DEEPEST = 100


def check_depth(value: object, depth: int = 0) -> None:
    """Raise a `RecursionError` if a document is nested deeper than anybody writes by hand.

    The code that builds from a document, or writes it, is recursive.
    """
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).values())
    for inner in cast("list[object]", value) if isinstance(value, list) else ():
        check_depth(inner, depth + 1)


# Any: a path may name any object.
def import_path(path: str, who: str) -> Any:
    """Return the object that a path ``package.module:Class`` names; messages begin with `who`."""
    module, _, names = path.partition(":")
    parts = names.split(".")
    if not all(part.isidentifier() for part in (*module.split("."), *parts)):
        raise ConfigError(f"{who}: {brief(path)} is not an import path of the form 'package.module:name'")
    try:
        found: object = import_module(module)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{module}.".startswith(f"{missing}."):
            add_note(error, f"{who}: while importing {brief(path)}")
            raise
        raise ConfigError(f"{who}: there is no module {missing!r} for the path {brief(path)}") from error
    for name in parts:
        try:
            found = getattr(found, name)
        except AttributeError as error:
            hint = nearest(name, dir(found))
            raise ConfigError(f"{who}: {brief(found)} has no {name!r} for the path {brief(path)}{hint}") from error
    return found


# The entries of a config


def read_entry(config: object, defaults: Mapping[str, object], who: str) -> dict[str, Any]:
    """Return a config over its defaults, in a new dict that has a ``"type"``."""
    own = {"type": config} if isinstance(config, str) else config
    if not isinstance(own, Mapping):
        raise ConfigError(f"{who}: {described(config)} is not a config; give a mapping with a 'type', or a name alone")
    given: dict[str, Any] = {**defaults, **cast("Mapping[str, Any]", own)}  # Any: each factory takes other values
    if "type" not in given:
        raise ConfigError(f"{who}: the config has no 'type'; what it has: {listed(given)}; say what to build")
    return given


def outline(config: object) -> str:
    """Return a config as messages show it: its type and its keys. The values may be secrets, or large."""
    if not isinstance(config, Mapping):
        return brief(config) if isinstance(config, str) else described(config)
    entries = cast("Mapping[object, object]", config)
    kind = entries.get("type")
    rows = [f"{brief(key, 40)}: {brief(kind) if key == 'type' and isinstance(kind, str) else '...'}" for key in entries]
    return f"{{{', '.join(rows)}}}"


# Shared by both modules


def listed(names: Iterable[str]) -> str:
    """Return names as messages list them."""
    return ", ".join(map(repr, names)) or "nothing"


def string(value: object, what: str) -> str:
    """Return a string, or raise a `HookTypeError` if it is something else, or empty."""
    if not isinstance(value, str) or not value:
        raise HookTypeError(f"{what} {brief(value)}; give a string that is not empty")
    return str.__str__(value)
