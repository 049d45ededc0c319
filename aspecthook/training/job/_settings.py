"""Settings of a job: the defaults, overridden by a file, overridden by the command line.

Unknown sections and keys are refused before anything is written: here, or by the registry that builds from a section.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, cast, final

from aspecthook._core.law.callables import Parameter
from aspecthook._errors import ConfigError, brief, described
from aspecthook.training.registry._configs import check_depth, load_toml, read_config, shown_path
from aspecthook.training.registry._registry import check_arguments

from ._received import checked

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
    "data": ("type", ("batch_size", "held_out")),
}


@final
class HookTable(dict[str, Any]):
    """A table of ``[[hooks]]``, with its place for messages: the hook is built when the file is long forgotten."""

    def __init__(self, config: Settings | str, place: str) -> None:
        super().__init__({"type": config} if isinstance(config, str) else config)
        self.place = place


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

    Example:
        >>> settings = load_settings(changes=["lr.policy=step", "lr.step=[20, 30]", "run.max_epochs=40"])
        >>> settings["lr"]
        {'policy': 'step', 'step': [20, 30]}
        >>> load_settings(changes=["run.max_epoch=40"])
        Traceback (most recent call last):
          ...
        aspecthook.ConfigError: --set run.max_epoch: [run] takes no 'max_epoch'; ...; did you mean 'max_epochs'?
    """
    settings: Settings = tomllib.loads(default_text())
    if path is not None:
        found = _read(Path(path))
        settings = _with_changes(settings, found if trusted else _data_only(found, Path(path)), str(path))
    for change in changes:
        settings = _with_changes(settings, _parse_change(change), f"--set {change.partition('=')[0]}")
    return settings


def _read(path: Path) -> Settings:
    shown = shown_path(path)
    try:
        if path.suffix != ".json":
            return load_toml(path)
        raw = read_config(path)
    except OSError as error:
        raise ConfigError(
            f"the config {shown} cannot be read: {error.strerror}; give a TOML file, or the config.json of a run"
        ) from error
    try:
        found = json.loads(raw)
        check_depth(found)
    except RecursionError:
        raise ConfigError(f"{shown} is not a config: its values are nested too deeply; correct it") from None
    except ValueError as error:
        raise ConfigError(f"{shown} is not JSON: {error}; give a TOML file, or the config.json of a run") from None
    if not isinstance(found, dict):
        raise ConfigError(
            f"{shown} is not a config: it holds {described(found)}; give a file with sections such as [run]"
        )
    return cast("Settings", found)


def _data_only(found: Settings, path: Path) -> Settings:
    """Return a config that came with a folder, for a run in that folder; refuse it if it says more than it may."""
    checked(found, path)
    return {**found, "run": {**found.get("run", {}), "work_dir": str(path.parent)}}


def _has_nul(value: Any) -> bool:
    """Whether a string in a config has a NUL character, keys included."""
    given: Any = value
    if isinstance(value, dict):
        return any(_has_nul(one) for pair in given.items() for one in pair)
    return any(map(_has_nul, given)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


def _parse_change(change: str) -> Settings:
    key, equals, text = change.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise ConfigError(f"--set {brief(change)}: give section.key=value, such as lr.policy=cosine")
    try:
        value = _value(text)
        for name in reversed(names):
            value = {name: value}
        check_depth(value)
    except RecursionError:
        raise ConfigError(f"--set {brief(key)}: its value is nested too deeply; correct it") from None
    return cast("Settings", value)


def _value(text: str) -> object:
    try:
        return cast("object", tomllib.loads(f"value = {text}")["value"])
    except ValueError:
        return text.strip()


def _with_changes(settings: Settings, changes: Mapping[str, Any], who: str) -> Settings:
    """Return the settings with changes, which are checked."""
    check_arguments(_keys(_SECTIONS), dict(changes), f"{who}: the config")
    for section, given in changes.items():
        if _has_nul(given):
            raise ConfigError(
                f"{who}: [{section}] has a string with a NUL character, which names and paths cannot have; remove it"
            )
        settings = {**settings, section: _section(section, settings.get(section), given, who)}
    return settings


def _section(name: str, old: Any, given: Any, who: str) -> Any:
    if name == "hooks":
        return _hook_list(given, who)
    if given is False and name in HOOKS:
        return False
    if given is True and name in HOOKS:
        return old or {}
    if not isinstance(given, dict):
        raise ConfigError(f"{who}: [{name}] is {described(given)}; give a table, such as {name}.key = ...")
    section = cast("Settings", given)
    if name in _FIXED:
        _check(f"{who}: [{name}]", section, tomllib.loads(default_text())[name])
    return {**_inherited(name, old or {}, section), **section}


def _check(what: str, section: Settings, defaults: Settings) -> None:
    """Refuse unknown keys, and values of other types than the defaults."""
    check_arguments(_keys(defaults), section, what)
    for key, value in section.items():
        kind = cast("type[object]", type(defaults[key]))
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ConfigError(f"{what}: {key} is {brief(value)}; give {_KIND_NAMES[kind]}, such as {defaults[key]!r}")


def _keys(names: Iterable[str]) -> list[Parameter]:
    return [Parameter(name, "keyword", has_default=True) for name in names]


_KIND_NAMES: dict[type[object], str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
}


def _inherited(name: str, old: Settings, given: Settings) -> Settings:
    """Return the keys that a section keeps: all, or if it builds something else now, those that suit any type."""
    kind, shared = _KINDS.get(name, ("type", ()))
    if kind not in given or given[kind] == old.get(kind):
        return old
    return {key: value for key, value in old.items() if key in shared}


def _hook_list(given: Any, who: str) -> list[HookTable]:
    rows = cast("list[object]", given)
    if isinstance(given, list) and all(isinstance(one, (dict, str)) for one in rows):
        return [
            HookTable(cast("Settings | str", one), f"{who}, entry {number} of [[hooks]]")
            for number, one in enumerate(rows, 1)
        ]
    raise ConfigError(f"{who}: hooks is {described(rows)}; give [[hooks]] tables, each with its type")


def with_policy_defaults(settings: Settings) -> Settings:
    """Return the settings with values for the options that the LR policy requires and the settings leave out."""
    lr = settings.get("lr")
    if not lr or "policy" not in lr:
        return settings
    epochs, rate = int(settings["run"]["max_epochs"]), settings["optimizer"].get("lr", 1e-3)
    if isinstance(rate, bool) or not isinstance(rate, (int, float)):
        raise ConfigError(f"[optimizer]: lr is {brief(rate)}; give a number, such as 0.001")
    needs = _policy_defaults(epochs, rate)
    policy = "".join(filter(str.isalpha, str(lr["policy"]))).lower()
    given = {key: value for key, value in needs.get(policy, {}).items() if key not in lr}
    if "min_lr_ratio" in lr:
        given.pop("min_lr", None)
    return {**settings, "lr": {**lr, **given}}


def _policy_defaults(epochs: int, lr: float) -> dict[str, Settings]:
    down: Settings = {"min_lr": 0.0}
    halves = [half for half in (epochs - epochs // 2, epochs // 2) if half]
    return {
        "step": {"step": sorted({max(1, epochs * 3 // 5), max(1, epochs * 17 // 20)})},
        "exp": {"gamma": 0.95},
        "inv": {"gamma": 0.1},
        "cosine": down,
        "cosineannealing": down,
        "linear": down,
        "linearannealing": down,
        "flatcosine": down,
        "flatcosineannealing": down,
        "cosinerestart": {**down, "by_epoch": True, "periods": halves, "restart_weights": [1.0] * len(halves)},
        "onecycle": {"max_lr": lr},
    }
