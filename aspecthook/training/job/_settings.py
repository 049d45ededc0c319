"""Settings of a job: the defaults, overridden by a file, overridden by the command line.

Unknown sections and keys are refused before anything is written: here, or by whatever is built from a section.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from aspecthook._errors import ConfigError, brief, described
from aspecthook.training.registry._configs import load_config
from aspecthook.training.registry._registry import check_keys

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
Settings: TypeAlias = dict[str, Any]  # Any: a `Value`; each is checked by whatever is built from it

# Sections that are hooks: `lr = false` leaves the hook out.
HOOKS = {
    "lr": "LrUpdaterHook",
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
    """Return the settings of a run: the defaults, changed by a TOML file or a ``config.json``, and by single keys.

    A change is ``"section.key=value"``, with the value as in TOML; any other value is a string. A file that is not
    trusted came with a folder, which is its ``work_dir``. It may say only what is known to be harmless, see `_TYPES`.
    """
    settings: Settings = tomllib.loads(default_text())
    if path is not None:
        try:
            config: Settings = load_config(path)
        except OSError as error:
            raise ConfigError(
                f"the config {path} cannot be read: {error.strerror}; give a TOML file, or the config.json of a run"
            ) from error
        settings = _changed(settings, config, str(path))
        if not trusted:
            _check_received(config, path)
            settings["run"]["work_dir"] = str(Path(path).parent)
    for change in changes:
        settings = _changed(settings, _parsed(change), f"--set {change.partition('=')[0]}")
    return settings


def _parsed(change: str) -> Settings:
    """Return the config that a change means, ``"section.key=value"``."""
    key, equals, text = change.partition("=")
    for value in (text, json.dumps(text.strip(), ensure_ascii=False)) if equals else ():
        try:
            return tomllib.loads(f"{key} = {value}")
        except ValueError:  # not TOML; as a string in quotes it is
            continue
    raise ConfigError(f"--set {brief(change)}: give section.key=value, such as lr.policy=cosine")


def _changed(settings: Settings, config: Settings, who: str) -> Settings:
    """Return the settings, overridden by a config; of most sections, whatever is built from them checks the keys."""
    check_keys(_SECTIONS, config, f"{who}: the config")
    return settings | {name: _section(name, settings.get(name) or {}, config[name], who) for name in config}


def _section(name: str, old: Settings, new: Value, who: str) -> Value:
    """Return a section with the keys of both; `who` begins the messages."""
    if name == "hooks":
        if isinstance(new, list) and all(isinstance(row, (dict, str)) for row in new):
            return new
        raise ConfigError(f"{who}: hooks is {described(new)}; give [[hooks]] tables, each with its type")
    if isinstance(new, bool) and name in _SWITCHED:
        return new and old
    if not isinstance(new, dict):
        raise ConfigError(f"{who}: [{name}] is {described(new)}; give a table, such as {name}.key = ...")
    if name == "run":
        check_keys(old, new, f"{who}: [run]")
    # Another class may not take the options of the old one. The data are read alike, whatever their type.
    has_other_options = name != "data" and any(new.get(key, old.get(key)) != old.get(key) for key in ("type", "policy"))
    return new if has_other_options else old | new


# What the ``config.json`` of a folder from somebody else may say: a list of what is allowed. The invariant: with these
# types and options, whatever their values, a run imports and calls nothing, starts no program, connects to nothing, and
# writes only to its folder. Anything else is refused, so a new hook or option is refused until somebody has thought
# about it.

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
    policy warmup warmup_iters warmup_ratio step gamma power periods restart_weights min_lr min_lr_ratio
    max_lr min_momentum min_momentum_ratio max_momentum pct_start div_factor final_div_factor
    grad_clip max_norm norm_type cumulative_iters kind loss_scale max_keep save_best rule
    action start warm_up monitor patience min_delta
"""


def _check_received(config: Settings, path: Path | str) -> None:
    """Refuse what a config that came with a folder may not say. Its ``work_dir`` has no effect."""
    for name, section in config.items():
        for place, value in _refused(name, section, name):
            if place != "run['work_dir']":
                raise ConfigError(
                    f"{path}: {place}={brief(value)} is not what a config that came with a folder may say; if you "
                    f"trust it as code, name it: --config {path}"
                )


def _refused(place: str, value: Value, key: str) -> Iterator[tuple[str, Value]]:
    """Yield what is not allowed in the value of a key: its place, as a message shows it, and its value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _OPTIONS.split():
                yield from _refused(f"{place}.{name}", inner, name)
            else:
                yield f"{place}[{brief(name)}]", inner
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _refused(f"{place}[{number}]", inner, key)
    elif isinstance(value, str):
        if key in ("type", "hooks"):
            is_allowed = value in _TYPES.split()
        else:  # a word, such as the name of a policy or a metric, cannot be a path, an address or an import path
            is_allowed = value == "" or value.translate({ord(mark): None for mark in "_- "}).isalnum()
        if not is_allowed:
            yield place, value
