"""Configs: mappings and TOML files that say what is to be built, and messages about what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any, cast

from aspecthook._errors import ConfigError, HookTypeError, brief, described, printable

# Files


# Any: only whoever wrote a config knows what its values are.
def load_toml(path: str | PathLike[str]) -> dict[str, Any]:
    """Return what a TOML file says.

    Raises:
        ConfigError: It is not valid TOML; the message names the file and the line.
        OSError: It cannot be read.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "run.toml")
        ...     _ = path.write_text("seed = 7")
        ...     load_toml(path)
        {'seed': 7}
    """
    import tomllib

    raw = read_config(path)
    wrong = f"{shown_path(path)} is not valid TOML"
    try:
        document = tomllib.loads(raw.decode("utf-8-sig"))  # some editors put a mark first
        check_depth(document)
        return document
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{wrong}: line {line} is not UTF-8; save it as UTF-8") from error
    except RecursionError:  # its traceback has a thousand lines of the parser
        raise ConfigError(f"{wrong}: its values are nested too deeply; correct it") from None
    except ValueError as error:
        raise ConfigError(f"{wrong}: {printable(str(error))}; correct it there") from error


# Whatever builds from a document, or writes it, goes through it by recursion.
_DEEPEST = 100


def check_depth(document: object) -> None:
    """Raise a `RecursionError` if a document is nested deeper than anybody writes by hand."""
    # Any: whatever TOML and JSON have.
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in _values_of(one)]
        if not level:
            return
    raise RecursionError


# Any: likewise.
def _values_of(value: Any) -> Iterable[Any]:
    given: Any = value
    return given.values() if isinstance(value, dict) else given if isinstance(value, list) else ()


def shown_path(path: str | PathLike[str]) -> str:
    """Return a path as messages show it."""
    return printable(fspath(path))


def read_config(path: str | PathLike[str]) -> bytes:
    """Return what is in a config file, or raise a `ConfigError` if no file can have such a path."""
    from pathlib import Path

    try:
        return Path(path).read_bytes()
    except ValueError as error:  # a NUL in it, or a lone surrogate
        raise ConfigError(f"{brief(path)} cannot be the path of a file: {error}; correct it") from None


# What a config says


def read_entry(config: Any, defaults: dict[str, Any], who: str) -> dict[str, Any]:
    """Return a config over its defaults, in a new dict that has a ``"type"``."""
    own = {"type": config} if isinstance(config, str) else config
    if not isinstance(own, Mapping):
        raise ConfigError(f"{who}: {described(config)} is not a config; give a mapping with a 'type', or a name alone")
    given: dict[Any, Any] = {**defaults, **own}
    for key in given:
        if not isinstance(key, str):
            raise ConfigError(f"{who}: the config has the key {brief(key)}; keys name arguments and must be strings")
    if "type" not in given:
        raise ConfigError(f"{who}: the config has no 'type'; what it has: {listed(given)}; say what to build")
    return given


_MOST_KEYS = 10


def outline(config: object) -> str:
    """Return a config as messages show it: its type and its keys. The values may be secrets, or large."""
    if not isinstance(config, Mapping):
        return brief(config) if isinstance(config, str) else described(config)
    items = [*cast("Mapping[object, object]", config).items()]
    rows = [
        f"{brief(key, 40)}: {brief(value) if key == 'type' and isinstance(value, str) else _type_name(value)}"
        for key, value in items[:_MOST_KEYS]
    ]
    return f"{{{', '.join([*rows, '...'] if len(items) > _MOST_KEYS else rows)}}}"


def _type_name(value: object) -> str:
    return described(value).partition(" of ")[0]


# What all of the room uses


def listed(names: Iterable[str]) -> str:
    """Return names as messages list them."""
    return ", ".join(map(repr, names)) or "nothing"


def string(value: object, what: str) -> str:
    """Return a string, or raise a `HookTypeError` if it is something else, or empty."""
    if not isinstance(value, str) or not value:
        raise HookTypeError(f"{what} {brief(value)}; give a string that is not empty")
    return str.__str__(value)


def strings(value: Any, what: str) -> list[str]:
    """Return one string or several as a list; each is checked as by `string`, and there must be one."""
    several = [value] if isinstance(value, str) or not isinstance(value, Iterable) else [*cast("Any", value)]
    return [string(one, what) for one in several or [value]]
