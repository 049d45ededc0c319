"""What the ``config.json`` of a folder that was received may say: one list, of what is allowed.

The invariant: with these types and these options, whatever their values, a run imports and calls nothing, starts no
program, connects to nothing, and writes only to its folder. What is not in the list is refused, so that an option that
is added to a hook is refused until somebody has thought about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aspecthook._errors import ConfigError, brief
from aspecthook.training.backends._state import is_any
from aspecthook.training.registry._configs import shown_path

_SGD = "lr momentum weight_decay dampening nesterov maximize"
_ADAM = "lr betas eps weight_decay amsgrad maximize"
_POLICY = (
    "policy by_epoch warmup warmup_iters warmup_ratio warmup_by_epoch step gamma power start_percent periods "
    "restart_weights target_ratio cyclic_times step_ratio_up anneal_strategy div_factor final_div_factor pct_start "
    "three_phase total_steps"
)
_OPTIMIZER = "grad_clip cumulative_iters detect_anomalous_params"
_LOGGER = "interval by_epoch ignore_last"
_STOP = "monitor patience min_delta mode baseline verbose"

# The parts of a job, each by its section: the types that it may be, and the options that each may have.
_PARTS = {
    "data": {"digits": "batch_size held_out"},
    "model": {"mlp": "hidden dropout", "cnn": "channels dropout"},
    "optimizer": {"AdamW": _ADAM, "Adam": _ADAM, "SGD": _SGD},
}
_HOOKS = {
    "LrUpdaterHook": f"{_POLICY} min_lr min_lr_ratio max_lr",
    "MomentumUpdaterHook": f"{_POLICY} min_momentum min_momentum_ratio max_momentum",
    "OptimizerHook": _OPTIMIZER,
    "AmpOptimizerHook": f"{_OPTIMIZER} kind loss_scale",
    "CheckpointHook": "interval by_epoch max_keep save_best rule save_optimizer save_last asynchronous",
    "TextLoggerHook": _LOGGER,
    "JsonLoggerHook": _LOGGER,
    "CsvLoggerHook": _LOGGER,
    "TensorboardLoggerHook": _LOGGER,
    "IterTimerHook": "",
    "NanGuardHook": "action infinite gradients max_skips",
    "ProgressHook": "interval seconds",
    "PlotHook": "interval share",
    "ReportHook": "interval share command",
    "ProfilerHook": "start stop",
    "EMAHook": "kind momentum interval warm_up gamma begin_step begin_epoch update_buffers",
    "EarlyStoppingHook": "monitor patience min_delta rule baseline stopping_threshold check_finite strict",
    "EarlyStopping": f"{_STOP} restore_best_weights start_from_epoch",
    "ReduceLROnPlateau": f"{_STOP} factor cooldown min_lr",
    "TerminateOnNaN": "raise_error",
    "StopAtStepHook": "num_steps last_step",
    "NanTensorHook": "loss_tensor fail_on_nan_loss",
}
# The sections that are a hook, and the hook that each is.
_SECTIONS = {
    "lr": "LrUpdaterHook",
    "momentum": "MomentumUpdaterHook",
    "checkpoint": "CheckpointHook",
    "timer": "IterTimerHook",
    "guard": "NanGuardHook",
    "progress": "ProgressHook",
    "plot": "PlotHook",
    "report": "ReportHook",
}
# The other sections.
_PLAIN = {
    "run": "backend max_epochs seed accumulate amp",
    "clip": "max_norm norm_type",
    "log": f"{_LOGGER} priority",
}
_LONGEST = 1000  # values in one option
_DEEPEST = 3  # `grad_clip` is a table, and the names of metrics may be a list


def checked(config: Mapping[str, Any], path: Any) -> None:
    """Raise a `ConfigError` for a config that says anything but what the list allows; `path` is its file."""
    for place, value in _refused(config):
        raise ConfigError(
            f"{shown_path(path)}: {place}={brief(value)} is not what a config that came with a folder may say; if you "
            "trust it as code, say --trust-config, or give a config of your own with --config"
        )


def _refused(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the places and values that are not allowed."""
    for name, section in config.items():
        if name == "hooks":
            yield from _hooks(name, section)
        elif name not in {**_PARTS, **_SECTIONS, **_PLAIN}:
            yield brief(name), section
        elif is_any(section, bool) and (name in _SECTIONS or name in ("clip", "log")):
            continue  # `lr = false` leaves the hook out
        elif not is_any(section, dict):
            yield name, section
        elif name in _PARTS:
            yield from _built(name, section, _PARTS[name])
        elif name in _SECTIONS:
            yield from _built(name, {"type": _SECTIONS[name], **section}, {_SECTIONS[name]: _HOOKS[_SECTIONS[name]]})
        else:
            # The folder is that of the file, whatever it says; and loggers are hooks.
            own = {key: value for key, value in section.items() if key not in ("work_dir", "hooks")}
            yield from _options(name, own, _PLAIN[name])
            yield from _hooks(f"{name}.hooks", section.get("hooks", []) if name == "log" else [])


def _hooks(place: str, rows: Any) -> Iterator[tuple[str, Any]]:
    for number, row in enumerate(rows) if is_any(rows, list) else [(0, rows)]:
        yield from _built(f"{place}[{number}]", {"type": row} if isinstance(row, str) else row, _HOOKS)


def _built(place: str, table: Any, types: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield what is refused in a table that builds something; without a type it is of the first of the types."""
    if not is_any(table, dict):
        yield place, table
        return
    kind: Any = table.get("type", next(iter(types)))
    if not isinstance(kind, str) or kind not in types:
        yield f"{place}.type", kind
    else:
        yield from _options(place, table, f"type priority {types[kind]}")


def _options(place: str, table: Mapping[Any, Any], names: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if name not in names.split() or not _is_plain(value, 0):
            yield f"{place}.{name}" if is_word(name) else f"{place}[{brief(name)}]", value


def _is_plain(value: Any, depth: int) -> bool:
    """Whether a value is a number, a word, or a small list or table of them."""
    if value is None or is_any(value, bool, int, float):
        return True
    if isinstance(value, str):
        return is_word(value)
    if depth == _DEEPEST or not is_any(value, list, dict) or len(value) > _LONGEST:
        return False
    parts = [*value, *(value.values() if is_any(value, dict) else ())]
    return all(_is_plain(part, depth + 1) for part in parts)


def is_word(text: str) -> bool:
    """Whether a text is a name, as of a policy or a metric: it can be no path, address or import path."""
    return text == "" or text.translate({ord(mark): None for mark in "_- "}).isalnum()
