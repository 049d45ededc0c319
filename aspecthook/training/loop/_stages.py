"""Which stage of a run, and which kind of hook on it, each classical name means."""

from __future__ import annotations

from typing import NamedTuple

from aspecthook._core.law.asks import Kind

# What a hook of any stage may ask for by name: attributes of the runner, and these in mmengine's words.
_ATTRIBUTES = """
model optimizer epoch iter step inner_iter max_epochs max_iters mode data_loader batch outputs logs work_dir logger rank
world_size
"""
_MMENGINE = {"batch_idx": "inner_iter", "data_batch": "batch", "metrics": "logs"}
STATE: dict[str, str] = {"runner": "", **{name: name for name in _ATTRIBUTES.split()}, **_MMENGINE}

MODES = ("train", "val", "test", "predict")


# The first word of a method's name. The classical systems know the first two of them.
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

    @property
    def types(self) -> tuple[type[BaseException], ...]:
        """What an exception hook takes: an end by Ctrl-C too."""
        return (BaseException,) if self.kind == "exception" else ()


def _all(word: str, *methods: str) -> dict[str, tuple[Stage, ...]]:
    return {f"{first}_{word}": tuple(Stage(method, kind) for method in methods) for first, kind in WORDS.items()}


# What a method of a hook is called, and where it goes. Exact names come first, those that several stages share after.
NAMES: dict[str, tuple[Stage, ...]] = {
    **_all("run", "run"),
    **{name: stages for mode in MODES for name, stages in _all(mode, f"{mode}_loop").items()},
    **{name: stages for mode in MODES for name, stages in _all(f"{mode}_epoch", f"{mode}_epoch").items()},
    **{name: stages for mode in MODES for name, stages in _all(f"{mode}_iter", f"{mode}_iter").items()},
    **_all("forward", "forward"),
    **_all("backward", "backward"),
    **_all("optimizer_step", "optimizer_step"),
    "before_save_checkpoint": (Stage("write_checkpoint", "pre"),),
    "after_save_checkpoint": (Stage("write_checkpoint", "post"),),
    "before_load_checkpoint": (Stage("load_checkpoint", "pre"),),
    "after_load_checkpoint": (Stage("restore", "pre"),),
}

# A hook that overrides only the general name has it called in the place of each special one.
GENERAL: dict[str, tuple[str, ...]] = {
    f"{when}_{what}": tuple(f"{when}_{mode}_{what}" for mode in MODES) for when in WORDS for what in ("epoch", "iter")
}
METHODS = (*NAMES, *GENERAL)
