"""The classical names of hook methods: which stage of a run, and which kind of hook on it, each of them means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from aspecthook._core.law.kinds import Kind

# What a hook on any stage may ask for by name: attributes of the runner, some of them also by mmengine's names.
_ATTRIBUTES = """
model optimizer epoch iter step inner_iter max_epochs max_iters mode data_loader batch outputs logs work_dir logger rank
world_size
"""
_MMENGINE = {"batch_idx": "inner_iter", "data_batch": "batch", "metrics": "logs"}
STATE: dict[str, str] = {"runner": "", **{name: name for name in _ATTRIBUTES.split()}, **_MMENGINE}

MODES = ("train", "val", "test", "predict")

# The first word of a method's name. The classical systems have only the first two of them.
WORDS: dict[str, Kind] = {
    "before": "pre",
    "after": "post",
    "around": "around",
    "exception": "exception",
    "always": "always",
}


class Stage(NamedTuple):
    """A mount point of the runner, and the kind of hook on it."""

    method: str
    kind: Kind


def _all(word: str, method: str) -> dict[str, Stage]:
    return {f"{first}_{word}": Stage(method, kind) for first, kind in WORDS.items()}


# By the name of a method: its stage. A hook may change a checkpoint before it is written, and after it was read.
NAMES: dict[str, Stage] = {
    **_all("run", "run"),
    **{name: stage for mode in MODES for name, stage in _all(mode, f"{mode}_loop").items()},
    **{name: stage for mode in MODES for name, stage in _all(f"{mode}_epoch", f"{mode}_epoch").items()},
    **{name: stage for mode in MODES for name, stage in _all(f"{mode}_iter", f"{mode}_iter").items()},
    **_all("forward", "forward"),
    **_all("backward", "backward"),
    **_all("optimizer_step", "optimizer_step"),
    "before_save_checkpoint": Stage("write_checkpoint", "pre"),
    "after_save_checkpoint": Stage("write_checkpoint", "post"),
    "before_load_checkpoint": Stage("load_checkpoint", "pre"),
    "after_load_checkpoint": Stage("restore", "pre"),
}

# For a method of one mode, the general method that is called in its place unless it is overridden itself.
GENERAL: dict[str, str] = {
    f"{when}_{mode}_{what}": f"{when}_{what}" for what in ("epoch", "iter") for when in WORDS for mode in MODES
}


def _nested(name: str, *inner: str) -> tuple[str, ...]:
    return (f"before_{name}", *inner, f"after_{name}")


def _of_mode(mode: str, in_iter: Iterable[str] = (), after_epoch: Iterable[str] = ()) -> tuple[str, ...]:
    return _nested(mode, *_nested(f"{mode}_epoch", *_nested(f"{mode}_iter", *in_iter)), *after_epoch)


_STEP = [name for part in ("forward", "backward", "optimizer_step") for name in _nested(part)]

# The names that begin with "before_" and "after_", in the order in which a run calls them; those of checkpoints last.
IN_ORDER: tuple[str, ...] = (
    *_nested("run", *_of_mode("train", _STEP, _of_mode("val")), *_of_mode("test"), *_of_mode("predict")),
    *(name for name in NAMES if name.endswith("_checkpoint")),
)
