"""The predictions of an estimator, batch by batch or sample by sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aspecthook._errors import nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._state import is_any
from aspecthook.training.loop._run import Run

from ._drive import Pauses, create, staged
from ._reader import numbers
from ._state import session_state

# Any: what a model predicts is its own.


def predicting(run: Run, data: Iterator[Any], made: list[Any]) -> Pauses:
    """Predict a batch, append its outputs to `made`, pause, and so on."""
    state = session_state(run, "predict")
    state.entered = True
    try:
        state.open(run)
        create(run, "predict_loop")
        yield from staged(run, "predict_epoch", lambda: _predict_batches(run, data, made))
    finally:
        state.entered = False


def _predict_batches(run: Run, data: Iterator[Any], made: list[Any]) -> Pauses:
    for place, batch in enumerate(data):
        run.loaders["predict"] = ()
        run.set_mode("predict")
        run.inner_iter = place
        with run.backend.no_grad():
            outputs = run.predict_iter(run.backend.to_device(batch, run.model))
        if outputs is not None:
            made.append(numbers(outputs))
        yield


def chosen(outputs: Any, keys: Sequence[str] | None) -> Any:
    """Return the entries of the outputs for a batch that have these keys; all of them if `keys` is None."""
    if keys is None:
        return outputs
    if not is_any(outputs, Mapping):
        raise TrainingError(
            f"predict_keys need a model that returns dicts, this one returns {type(outputs).__name__}; leave them out"
        )
    missing = [key for key in keys if key not in outputs]
    if missing:
        there = [str(key) for key in outputs]
        raise TrainingError(
            f"the outputs have no {missing[0]!r}; they have: {', '.join(there)}{nearest(missing[0], there)}"
        )
    return {key: outputs[key] for key in keys}


def examples(outputs: Any, keys: Sequence[str] | None) -> Iterator[Any]:
    """Return an iterator over the samples of a batch."""
    outputs = chosen(outputs, keys)
    if is_any(outputs, Mapping):
        return (dict(zip(outputs, rows, strict=True)) for rows in _zipped(outputs.values()))
    if is_any(outputs, list, tuple):
        return iter(_zipped(outputs))
    return iter(row for (row,) in _zipped((outputs,)))


def _zipped(parts: Iterable[Any]) -> list[tuple[Any, ...]]:
    try:
        return list(zip(*parts, strict=True))
    except (TypeError, ValueError) as error:
        raise TrainingError(
            f"the outputs for a batch cannot be divided into samples ({error}); call predict(..., "
            "yield_single_examples=False)"
        ) from error
