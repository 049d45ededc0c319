"""Settings of a job: the defaults, overridden by a file, overridden by the command line.

Unknown sections and keys are refused before anything is written: here, or by what is built from a section.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, cast

from aspecthook._core.law.callables import Parameter
from aspecthook._errors import ConfigError, brief, described
from aspecthook.training.backends._state import is_any
from aspecthook.training.registry._configs import check_depth, load_config
from aspecthook.training.registry._registry import check_arguments

# Any: the values that TOML has.
Value: TypeAlias = Any
Settings: TypeAlias = dict[str, Value]

# Sections that are hooks: `lr = false` leaves the hook out.
HOOKS = {
    "lr": "LrUpdaterHook",
    "momentum": "MomentumUpdaterHook",
    "checkpoint": "CheckpointHook",
    "timer": "IterTimerHook",
    "guard": "NanGuardHook",
    "progress": "ProgressHook",
    "plot": "PlotHook",
    "report": "ReportHook",
}
_SWITCHED = (*HOOKS, "clip", "log")  # the sections that may be false
_SECTIONS = ("run", "data", "model", "optimizer", *_SWITCHED, "hooks")


def default_text() -> str:
    """Return the text of the defaults, with its comments."""
    return (files("aspecthook.training.job") / "defaults.toml").read_text("utf-8")


def load_settings(path: Path | str | None = None, changes: Iterable[str] = (), *, trusted: bool = True) -> Settings:
    """Return the settings of a run.

    Args:
        path: A TOML file, or the ``config.json`` of an earlier run.
        changes: Each ``"section.key=value"``, with the value as in TOML; any other value is a string.
        trusted: Whether the file may run code. If not, it may say only what is known to be harmless (see `_refused`),
            and the ``work_dir`` is the folder that it is in. The changes are trusted anyway.

    Raises:
        ConfigError: A section is unknown or of the wrong type; or a file that is not trusted says more than it may.
    """
    settings: Settings = tomllib.loads(default_text())
    if path is not None:
        try:
            found = load_config(path)
        except OSError as error:
            raise ConfigError(
                f"the config {path} cannot be read: {error.strerror}; give a TOML file, or the config.json of a run"
            ) from error
        if not trusted:
            found = _received(found, Path(path))
        settings = _with_changes(settings, found, str(path))
    for change in changes:
        settings = _with_changes(settings, _parse_change(change), f"--set {change.partition('=')[0]}")
    return settings


def _parse_change(change: str) -> Settings:
    key, equals, text = change.partition("=")
    for value in (text, json.dumps(text.strip(), ensure_ascii=False)) if equals else ():
        try:
            with suppress(ValueError):
                found = tomllib.loads(f"{key} = {value}")
                check_depth(found)
                return found
        except RecursionError:
            raise ConfigError(f"--set {brief(key)}: its value is nested too deeply; correct it") from None
    raise ConfigError(f"--set {brief(change)}: give section.key=value, such as lr.policy=cosine")


def _with_changes(settings: Settings, changes: Mapping[str, Value], who: str) -> Settings:
    """Return the settings with changes, whose sections are checked; what is built from one checks its keys."""
    _check_keys(f"{who}: the config", changes, _SECTIONS)
    return {**settings, **{name: _section(name, settings.get(name) or {}, changes[name], who) for name in changes}}


def _section(name: str, old: Settings, given: Value, who: str) -> Value:
    if name == "hooks":
        if is_any(given, list) and all(is_any(row, dict, str) for row in given):
            return given
        raise ConfigError(f"{who}: hooks is {described(given)}; give [[hooks]] tables, each with its type")
    if isinstance(given, bool) and name in _SWITCHED:
        return given and old
    if not is_any(given, dict):
        raise ConfigError(f"{who}: [{name}] is {described(given)}; give a table, such as {name}.key = ...")
    section = cast("Settings", given)
    if name == "run":
        _check_keys(f"{who}: [run]", section, old)
        for key, value in section.items():
            if type(value) is not type(old[key]):
                raise ConfigError(f"{who}: [run]: {key} is {brief(value)}; give a value such as {old[key]!r}")
    kind = "policy" if name == "lr" else "type"
    # Of what the old class takes, a new one may know nothing; the data are read alike, whatever they are.
    is_other = name != "data" and section.get(kind, old.get(kind)) != old.get(kind)
    return section if is_other else {**old, **section}


def _check_keys(what: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    check_arguments([Parameter(name, "keyword", has_default=True) for name in known], dict(given), what)


# What the ``config.json`` of a folder that was received may say: one list, of what is allowed. The invariant: with
# these types and these options, whatever their values, a run imports and calls nothing, starts no program, connects to
# nothing, and writes only to its folder. What is not in the list is refused, so that a hook or an option that is new is
# refused until somebody has thought about it.

_TYPES = """
    digits mlp SGD AdamW LrUpdaterHook MomentumUpdaterHook OptimizerHook AmpOptimizerHook CheckpointHook
    TextLoggerHook JsonLoggerHook CsvLoggerHook TensorboardLoggerHook IterTimerHook NanGuardHook ProgressHook PlotHook
    ReportHook EMAHook EarlyStoppingHook
"""
# Of sections, of schedules and of hooks: no option that names a file, a folder, an address or a function, and none that
# takes memory without a bound. (`_train` limits the sizes of layers.)
_OPTIONS = """
    type hooks priority interval by_epoch
    backend max_epochs seed accumulate amp batch_size held_out hidden dropout lr momentum weight_decay betas eps
    policy warmup warmup_iters warmup_ratio warmup_by_epoch step gamma power periods restart_weights min_lr min_lr_ratio
    max_lr min_momentum min_momentum_ratio max_momentum pct_start div_factor final_div_factor
    grad_clip max_norm norm_type cumulative_iters kind loss_scale max_keep save_best rule
    action start warm_up monitor patience min_delta
"""


def _received(config: Settings, path: Path) -> Settings:
    """Return a config, with the folder that its file is in; raise a `ConfigError` if it says more than is allowed."""
    run: Value = config.get("run", {})
    if not is_any(run, dict):
        return config  # which is refused as no table
    config = {**config, "run": {key: value for key, value in run.items() if key != "work_dir"}}
    for name, section in config.items():
        for place, value in _refused(name, section, name):
            raise ConfigError(
                f"{path}: {place}={brief(value)} is not what a config that came with a folder may say; if you trust it "
                f"as code, name it: --config {path}"
            )
    return {**config, "run": {**config["run"], "work_dir": str(path.parent)}}


def _refused(place: str, value: Value, key: str) -> Iterator[tuple[str, Value]]:
    """Yield the places and values that are not allowed in the value of a key."""
    if is_any(value, dict):
        for name, one in value.items():
            if name in _OPTIONS.split():
                yield from _refused(f"{place}.{name}", one, name)
            else:
                yield f"{place}[{brief(name)}]", one
    elif is_any(value, list):
        for number, one in enumerate(value):
            yield from _refused(f"{place}[{number}]", one, key)
    elif isinstance(value, str):
        # A word, as the name of a policy or a metric, can be no path, address or import path.
        is_word = value == "" or value.translate({ord(mark): None for mark in "_- "}).isalnum()
        if value not in _TYPES.split() if key in ("type", "hooks") else not is_word:
            yield place, value
