"""What the ``config.json`` of a folder that was received may say: one list, of what is allowed.

The invariant: with these types and these options, whatever their values, a run imports and calls nothing, starts no
program, connects to nothing, and writes only to its folder. What is not in the list is refused, so that a hook or an
option that is new is refused until somebody has thought about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aspecthook._errors import ConfigError, brief
from aspecthook.training.backends._state import is_any
from aspecthook.training.registry._configs import shown_path

_TYPES = """
    digits mlp cnn SGD Adam AdamW LrUpdaterHook MomentumUpdaterHook OptimizerHook AmpOptimizerHook CheckpointHook
    TextLoggerHook JsonLoggerHook CsvLoggerHook TensorboardLoggerHook IterTimerHook NanGuardHook ProgressHook PlotHook
    ReportHook EMAHook EarlyStoppingHook EarlyStopping ReduceLROnPlateau TerminateOnNaN StopAtStepHook
    NanTensorHook
"""
# Of sections, of schedules, of what is done with gradients, and of other hooks: no option that names a file, a folder,
# an address or a function, and none that takes memory without a bound.
_OPTIONS = """
    type priority interval by_epoch
    backend max_epochs seed accumulate amp batch_size held_out hidden channels dropout lr momentum weight_decay
    dampening nesterov maximize betas eps amsgrad
    policy warmup warmup_iters warmup_ratio warmup_by_epoch step gamma power start_percent periods restart_weights
    target_ratio cyclic_times step_ratio_up anneal_strategy div_factor final_div_factor pct_start three_phase
    total_steps min_lr min_lr_ratio max_lr min_momentum min_momentum_ratio max_momentum
    grad_clip max_norm norm_type cumulative_iters detect_anomalous_params kind loss_scale
    max_keep save_best rule save_optimizer save_last asynchronous ignore_last action gradients max_skips
    seconds start stop warm_up begin_step begin_epoch update_buffers monitor patience min_delta baseline
    stopping_threshold check_finite strict mode verbose restore_best_weights start_from_epoch factor cooldown
    raise_error num_steps last_step loss_tensor fail_on_nan_loss
"""
_LONGEST = 1000  # values in one option
_DEEPEST = 3  # `grad_clip` is a table, and the names of metrics may be a list
_WIDEST = 10_000  # the widths of all layers of a model together, which take a few hundred megabytes at most


def check_received(config: Mapping[str, Any], path: Any) -> None:
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
        elif is_any(section, dict):
            # The folder is that of the file, whatever it says; and loggers are hooks.
            yield from _table(name, {key: value for key, value in section.items() if key not in ("work_dir", "hooks")})
            yield from _hooks(f"{name}.hooks", section.get("hooks", []))
        elif name == "run" or not is_any(section, bool):  # `lr = false` leaves the hook out
            yield brief(name), section


def _hooks(place: str, rows: Any) -> Iterator[tuple[str, Any]]:
    for number, row in enumerate(rows) if is_any(rows, list) else [(0, rows)]:
        yield from _table(f"{place}[{number}]", {"type": row} if isinstance(row, str) else row)


def _table(place: str, table: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is refused in a table that builds something."""
    if not is_any(table, dict):
        yield place, table
        return
    for name, value in table.items():
        allowed = name in _OPTIONS.split() and _is_plain(value, 0) and (name != "type" or value in _TYPES.split())
        if not allowed or (name in ("hidden", "channels") and not _fits(value)):
            yield f"{place}.{name}" if _is_word(name) else f"{place}[{brief(name)}]", value


def _fits(widths: Any) -> bool:
    return is_any(widths, list) and all(type(one) is int for one in widths) and sum(widths) <= _WIDEST


def _is_plain(value: Any, depth: int) -> bool:
    """Whether a value is a number, a word, or a small list or table of them."""
    if isinstance(value, str):
        return _is_word(value)
    if not is_any(value, list, dict):
        return value is None or is_any(value, bool, int, float)
    parts = [*value, *(value.values() if is_any(value, dict) else ())]
    return depth < _DEEPEST and len(value) <= _LONGEST and all(_is_plain(part, depth + 1) for part in parts)


def _is_word(text: str) -> bool:
    """Whether a text is a name, as of a policy or a metric: it can be no path, address or import path."""
    return text == "" or text.translate({ord(mark): None for mark in "_- "}).isalnum()
