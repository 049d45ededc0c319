"""Settings of a job: the defaults, overridden by a file, overridden by the command line.

Unknown sections and keys are refused before anything is written: here, or by the registry that builds from a section.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, cast

from aspecthook._core.law.callables import Parameter
from aspecthook._errors import ConfigError, brief, described
from aspecthook.training.backends._state import is_any
from aspecthook.training.registry._configs import check_depth, load_toml, read_config, shown_path
from aspecthook.training.registry._registry import check_arguments

from ._received import check_received

# Any: the values that TOML has.
Settings: TypeAlias = dict[str, Any]

# Sections whose keys and types are those of the defaults. The others take what the class takes that they build.
_FIXED = ("run", "data")
# Sections that are hooks: `lr = false` leaves the hook out.
HOOKS = ("lr", "momentum", "clip", "checkpoint", "log", "timer", "guard", "progress", "plot", "report")
_SECTIONS = ("run", "data", "model", "optimizer", *HOOKS, "hooks")

# The key that chooses what a section builds. When it changes, only these other keys of the section are kept.
_KINDS = {
    "lr": ("policy", ("warmup", "warmup_iters", "warmup_ratio", "warmup_by_epoch")),
    "optimizer": ("type", ("lr",)),
    "model": ("type", ()),
}
_KIND_NAMES: dict[type[object], str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
}


def default_text() -> str:
    """Return the text of the defaults, with its comments."""
    return (files("aspecthook.training.job") / "defaults.toml").read_text("utf-8")


def load_settings(path: Path | str | None = None, changes: Iterable[str] = (), *, trusted: bool = True) -> Settings:
    """Return the settings of a run.

    Args:
        path: A TOML file, or the ``config.json`` of an earlier run.
        changes: Each ``"section.key=value"``, with the value as in TOML; any other value is a string.
        trusted: Whether the file may run code. If not, it may say only what is known to be harmless (see `_received`),
            and the ``work_dir`` is the folder that it is in. The changes are trusted anyway.

    Raises:
        ConfigError: A section or key is unknown, or a value has the wrong type; or a file that is not trusted says more
            than it may.
    """
    settings: Settings = tomllib.loads(default_text())
    if path is not None:
        found = _read(Path(path))
        if not trusted:
            check_received(found, path)
            found = {**found, "run": {**found.get("run", {}), "work_dir": str(Path(path).parent)}}
        settings = _with_changes(settings, found, str(path))
    for change in changes:
        settings = _with_changes(settings, _parse_change(change), f"--set {change.partition('=')[0]}")
    return settings


def _read(path: Path) -> Settings:
    shown = shown_path(path)
    try:
        if path.suffix != ".json":
            return load_toml(path)
        found = json.loads(read_config(path))
        check_depth(found)
    except OSError as error:
        raise ConfigError(
            f"the config {shown} cannot be read: {error.strerror}; give a TOML file, or the config.json of a run"
        ) from error
    except RecursionError:
        raise ConfigError(f"{shown} is not a config: its values are nested too deeply; correct it") from None
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{shown} is not JSON: {error}; give a TOML file, or the config.json of a run") from None
    if not isinstance(found, dict):
        raise ConfigError(
            f"{shown} is not a config: it holds {described(found)}; give a file with sections such as [run]"
        )
    return cast("Settings", found)


def _parse_change(change: str) -> Settings:
    key, equals, text = change.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise ConfigError(f"--set {brief(change)}: give section.key=value, such as lr.policy=cosine")
    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
        check_depth(value)
    except RecursionError:
        raise ConfigError(f"--set {brief(key)}: its value is nested too deeply; correct it") from None
    except ValueError:
        value = text.strip()
    for name in reversed(names):
        value = {name: value}
    return cast("Settings", value)


def _with_changes(settings: Settings, changes: Mapping[str, Any], who: str) -> Settings:
    """Return the settings with changes, which are checked."""
    check_arguments(_keys(_SECTIONS), dict(changes), f"{who}: the config")
    for name, given in changes.items():
        settings = {**settings, name: _section(name, settings.get(name) or {}, given, who)}
    return settings


def _section(name: str, old: Settings, given: Any, who: str) -> Any:
    if name == "hooks":
        if is_any(given, list) and all(is_any(one, dict, str) for one in given):
            return given
        raise ConfigError(f"{who}: hooks is {described(given)}; give [[hooks]] tables, each with its type")
    if isinstance(given, bool) and name in HOOKS:
        return given and old
    if not isinstance(given, dict):
        raise ConfigError(f"{who}: [{name}] is {described(given)}; give a table, such as {name}.key = ...")
    section = cast("Settings", given)
    if name in _FIXED:
        _check(f"{who}: [{name}]", section, tomllib.loads(default_text())[name])
    # A section of another type keeps of the old one only what both types know; a section without types keeps all.
    kind, shared = _KINDS.get(name, ("type", (*old,)))
    if kind in section and section[kind] != old.get(kind):
        old = {key: value for key, value in old.items() if key in shared}
    return {**old, **section}


def _check(what: str, section: Settings, defaults: Settings) -> None:
    """Refuse unknown keys, and values of other types than the defaults."""
    check_arguments(_keys(defaults), section, what)
    for key, value in section.items():
        kind = cast("type[object]", type(defaults[key]))
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ConfigError(f"{what}: {key} is {brief(value)}; give {_KIND_NAMES[kind]}, such as {defaults[key]!r}")
        if isinstance(value, str) and "\0" in value:
            raise ConfigError(f"{what}: {key} has a NUL character, which names and paths cannot have; remove it")


def _keys(names: Iterable[str]) -> list[Parameter]:
    return [Parameter(name, "keyword", has_default=True) for name in names]
