"""What an estimator reads and predicts, and changes of its runner that are undone after ``with``."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from typing import Any, final

from aspecthook._errors import HookTypeError, described, nearest
from aspecthook.training._errors import TrainingError
from aspecthook.training.backends._choose import backend_of
from aspecthook.training.backends._state import is_any
from aspecthook.training.loop._dialect import attach, is_session_hook
from aspecthook.training.loop._logs import without_validation
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._state import preserved

from ._bindings import bindings
from ._drive import Pauses, create, staged
from ._errors import QUIET
from ._reader import numbers
from ._state import session_state

# Any: data, hooks of any kind, and what a model predicts are the user's.


@final
class LimitedBatches:
    """An iterable of at most so many batches, which also ends when a hook requests the end of the run."""

    def __init__(self, run: Run, data: Any, steps: int | None) -> None:
        if not hasattr(data, "__iter__"):
            raise HookTypeError(
                f"input_fn returned {described(data)}, which cannot be iterated; return a loader, or a list"
            )
        self._run, self._data, self._steps = run, data, steps

    def __iter__(self) -> Iterator[Any]:
        batches = islice(self._data, self._steps)
        with suppress(*QUIET):  # with StopIteration, the ordinary end of the batches
            while not self._run.stopping:
                yield next(batches)


@contextmanager
def one_pass(run: Run, epoch: int, *, needed: bool) -> Generator[None]:
    """Inside ``with``, limit a run that has no end of its own to one pass over the data."""
    if not needed or run.max_epochs is not None or run.max_iters is not None:
        yield
        return
    run.max_epochs = epoch + 1
    try:
        yield
    finally:
        run.max_epochs = run.max_iters = None


@contextmanager
def aside(run: Run) -> Generator[None]:
    """Restore the run after ``with``, which may evaluate or predict."""
    with preserved(run, "logs", "stopping"):
        run.logs, run.stopping = without_validation(run.logs), False
        yield


@contextmanager
def random_kept() -> Generator[None]:
    """Restore the generators of random numbers after ``with``."""
    backend = backend_of()  # the model, which has one, is not known yet
    state = backend.rng_state()
    try:
        yield
    finally:
        backend.set_rng_state(state)


@contextmanager
def attached(run: Run, hooks: Iterable[Any], mode: str) -> Generator[None]:
    """Register hooks, session-run hooks on the stages of a mode, and remove them after ``with``."""
    with ExitStack() as stack:
        for hook in hooks:
            if is_session_hook(hook):
                for handle in attach(run, hook, bindings(hook, run, mode), None, "session hook"):
                    stack.callback(handle.remove)
            else:
                run.register_hook(hook)
                stack.callback(run.remove_hook, hook)
        yield


# Predictions


def predicting(run: Run, data: Iterator[Any]) -> Pauses:
    """Yield the outputs for each batch: the body of the stage `predict_loop`."""
    state = session_state(run, "predict")
    state.entered = True
    try:
        state.open(run)
        create(run, "predict_loop")
        yield from staged(run, "predict_epoch", lambda: _predict_batches(run, data))
    finally:
        state.entered = False


def _predict_batches(run: Run, data: Iterator[Any]) -> Pauses:
    for place, batch in enumerate(data):
        run.loaders["predict"] = ()
        run.set_mode("predict")
        run.inner_iter = place
        with run.backend.no_grad():
            outputs = run.predict_iter(run.backend.to_device(batch, run.model))
        if outputs is not None:
            yield numbers(outputs)


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
