"""The options of hooks are checked when a hook is made, and not in the middle of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aspecthook import HookOptionError, HookTypeError
from aspecthook.training import (
    ActivationHistogramHook,
    CheckpointHook,
    CheckpointLoaderHook,
    CsvLoggerHook,
    DeadNeuronHook,
    EarlyStoppingHook,
    EvalHook,
)

# What is made, the error, and what its message says. They were errors of `pathlib`, or noticed in the run, if at all.
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: CheckpointHook(out_dir=5), HookTypeError, "CheckpointHook: out_dir=5 is not a path"),
    (lambda: CheckpointLoaderHook(5), HookTypeError, "CheckpointLoaderHook: path=5 is not a path"),
    (lambda: CsvLoggerHook(path=5), HookTypeError, "CsvLoggerHook: path=5 is not a path"),
    (lambda: ActivationHistogramHook(path=5), HookTypeError, "ActivationHistogramHook: path=5 is not a path"),
    (lambda: EarlyStoppingHook(5, rule="less"), HookTypeError, "EarlyStoppingHook: monitor=5 is not the name of"),
    (lambda: EvalHook([], evaluate=5), HookTypeError, "EvalHook: evaluate=5 is not callable"),
    (lambda: DeadNeuronHook(threshold="0"), HookTypeError, "DeadNeuronHook: threshold='0' is not a number"),
    (lambda: DeadNeuronHook(threshold=float("nan")), HookOptionError, "threshold=nan; give a number that is finite"),
    (lambda: DeadNeuronHook(dim=1.0), HookTypeError, "DeadNeuronHook: dim=1.0 is not a whole number"),
    (lambda: DeadNeuronHook(warn_at="all"), HookTypeError, "DeadNeuronHook: warn_at='all' is not a number"),
    (lambda: DeadNeuronHook(activation="relu"), HookTypeError, "DeadNeuronHook: activation='relu' is not callable"),
]


@pytest.mark.parametrize(("make", "error", "says"), REFUSED, ids=[says for _, _, says in REFUSED])
def test_an_impossible_option_is_refused_when_the_hook_is_made(
    make: Callable[[], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error) as caught:
        make()
    assert says in str(caught.value)


def test_the_dimension_of_units_may_be_counted_from_the_end() -> None:
    DeadNeuronHook(dim=-1)
