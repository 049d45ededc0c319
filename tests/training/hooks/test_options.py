"""The options of hooks are checked when a hook is made, and not in the middle of a run."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

from aspecthook import HookTypeError
from aspecthook.training import (
    HOOKS,
    CheckpointHook,
    CheckpointLoaderHook,
    CsvLoggerHook,
    EarlyStoppingHook,
    EvalHook,
    Runner,
)
from aspecthook.training.data import DataLoader
from aspecthook.training.hooks._hook import load_hooks
from aspecthook.training.numpy import Linear

# What is made, the error, and what its message says. They were errors of `pathlib`, or noticed in the run, if at all.
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: CheckpointHook(out_dir=5), HookTypeError, "CheckpointHook: out_dir=5 is not a path"),
    (lambda: CheckpointLoaderHook(5), HookTypeError, "CheckpointLoaderHook: path=5 is not a path"),
    (lambda: CsvLoggerHook(path=5), HookTypeError, "CsvLoggerHook: path=5 is not a path"),
    (
        lambda: EarlyStoppingHook(5, rule="less"),
        HookTypeError,
        "EarlyStoppingHook(monitor=5): 5 is not the name of a score",
    ),
    (lambda: EvalHook([], evaluate=5), HookTypeError, "EvalHook: evaluate=5 is not callable"),
    (lambda: EvalHook([], save_best=5), HookTypeError, "EvalHook(save_best=5): 5 is not the name of a score"),
]


@pytest.mark.parametrize(("make", "error", "says"), REFUSED, ids=[says for _, _, says in REFUSED])
def test_an_impossible_option_is_refused_when_the_hook_is_made(
    make: Callable[[], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error) as caught:
        make()
    assert says in str(caught.value)


# What hooks cannot be made without.
NEEDED: dict[str, dict[str, Any]] = {
    "BackupAndRestore": {"backup_dir": "backup"},
    "CSVLogger": {"filename": "log.csv"},
    "CheckpointLoaderHook": {"path": "run"},
    "EarlyStoppingHook": {"monitor": "loss"},
    "EvalHook": {"loader": []},
    "DistEvalHook": {"loader": []},
    "LoggingTensorHook": {"tensors": ["loss"], "every_n_iter": 1},
    "ModelCheckpoint": {"filepath": "best"},
}


def flags() -> list[tuple[str, str]]:
    """Return each option of the registered hooks that is True or False, with the name of the hook."""
    load_hooks()
    kinds = {name: kind for name in HOOKS if isinstance(kind := HOOKS[name], type) and ours(kind)}
    rows = [(name, one) for name, kind in kinds.items() for one in signature(kind).parameters.values()]
    return [(name, one.name) for name, one in rows if one.annotation == "bool"]


def ours(kind: type) -> bool:
    return kind.__module__.startswith("aspecthook.")


@pytest.mark.parametrize(("hook", "option"), flags())
def test_a_flag_is_true_or_false_and_nothing_else(hook: str, option: str) -> None:
    # A string from a config was taken as true: by_epoch = "no" counted epochs.
    for value in ("no", 1, None):
        with pytest.raises(HookTypeError, match=rf": {option}={value!r} is neither True nor False"):
            HOOKS.build_from_config({"type": hook, **NEEDED.get(hook, {}), option: value})
    for value in (True, False):
        HOOKS.build_from_config({"type": hook, **NEEDED.get(hook, {}), option: value})


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda **given: DataLoader(range(4), 2, **given), "shuffle"),
        (lambda **given: DataLoader(range(4), 2, **given), "drop_last"),
        (lambda **given: Runner(Linear(1, 1), **given), "amp"),
    ],
)
def test_a_flag_of_a_loader_or_a_runner_is_true_or_false_and_nothing_else(
    make: Callable[..., object], option: str
) -> None:
    with pytest.raises(HookTypeError, match=f": {option}='no' is neither True nor False"):
        make(**{option: "no"})
