"""Keras's events as hooks on the stages of a run: each method that a callback overrides goes where Keras calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from aspecthook._core.law.kinds import Kind
from aspecthook.training.loop._dialect import Binding, Method
from aspecthook.training.loop._run import Run
from aspecthook.training.loop._stages import Stage

from ._bridge import on_host
from ._callback import KERAS, methods_of
from ._lifecycle import KerasLifecycle, lifecycle_of
from ._states import CallbackState

# Makes the hook that calls a method of a callback, for a stage of a mode.
Make: TypeAlias = Callable[[KerasLifecycle, CallbackState, Method, str], Method]


class Event(NamedTuple):
    """The stages and the kind of the hooks for an event, the parts of the lifecycle that they need, and their maker."""

    stages: tuple[str, ...]
    kind: Kind
    needs: tuple[str, ...]
    make: Make


def bindings(callback: Any, run: Run) -> list[Binding]:
    """Return the hooks for a callback: of our class, of Keras's, or of one that only looks like them."""
    methods = methods_of(callback)
    warning = KERAS.misspelt(callback)
    if warning is not None:  # the callback is not of our class, and Keras would accept it
        run.logger.warning("%s", warning)
    life = lifecycle_of(run)
    state = life.state_of(callback)
    if state.callback is not callback:
        callback = state.callback
        methods = methods_of(callback)
    if state.memory is not None:  # what it remembers is restored when training begins
        methods.setdefault("on_train_begin", callback.on_train_begin)
    found: list[Binding] = []
    for name, method in methods.items():
        event = _EVENTS[name]
        life.need(*event.needs)
        for stage in event.stages:
            mode = stage.partition("_")[0]
            found.append(Binding(Stage(stage, event.kind), event.make(life, state, method, mode)))
    return found


def _train_begin(_life: KerasLifecycle, state: CallbackState, method: Method, _mode: str) -> Method:
    return lambda: state.begin(method)


def _epoch_begin(life: KerasLifecycle, state: CallbackState, method: Method, _mode: str) -> Method:
    return lambda: life.begin_epoch(state, method)


def _epoch_end(life: KerasLifecycle, state: CallbackState, _method: Method, mode: str) -> Method:
    # An always hook, since Keras ends all tests before it ends an epoch: on_test_end is called in a post hook.
    def end(exc: BaseException | None) -> None:
        if exc is None and life.epoch.phase == f"over after {mode}":
            life.end_epoch(state)

    return end


def _stage(logs: Callable[[KerasLifecycle, str], dict[str, Any]] = lambda life, mode: {}) -> Make:  # noqa: ARG005
    """Return the maker of hooks on whole stages, which call their method with logs."""

    def make(life: KerasLifecycle, _state: CallbackState, method: Method, mode: str) -> Method:
        def call() -> None:
            method(logs(life, mode))

        return call

    return make


def _batch_begin(_life: KerasLifecycle, _state: CallbackState, method: Method, _mode: str) -> Method:
    def call(inner_iter: int) -> None:
        method(inner_iter, logs={})

    return call


# Two functions, since the attribute is looked up in each iteration.
def _train_batch_end(life: KerasLifecycle, _state: CallbackState, method: Method, _mode: str) -> Method:
    def call(inner_iter: int) -> None:
        method(inner_iter, logs=life.train_logs)

    return call


def _test_batch_end(life: KerasLifecycle, _state: CallbackState, method: Method, _mode: str) -> Method:
    def call(inner_iter: int) -> None:
        method(inner_iter, logs=life.test_logs)

    return call


def _predict_batch_end(_life: KerasLifecycle, _state: CallbackState, method: Method, _mode: str) -> Method:
    def call(inner_iter: int, result: Any) -> None:
        method(inner_iter, logs={"outputs": on_host(result)})

    return call


_RUN, _TRAIN_EPOCH, _TRAIN_ITER = ("run",), ("train_epoch",), ("train_iter",)
_TESTS, _TEST_ITERS = ("val_epoch", "test_epoch"), ("val_iter", "test_iter")
_PREDICT, _PREDICT_ITER = ("predict_epoch",), ("predict_iter",)

_EVENTS = {
    "on_train_begin": Event(_RUN, "pre", (), _train_begin),
    "on_train_end": Event(_RUN, "post", ("epoch", "train_means"), _stage(lambda life, _: life.last())),
    "on_epoch_begin": Event(_TRAIN_EPOCH, "pre", ("epoch",), _epoch_begin),
    "on_epoch_end": Event(("train_epoch", "val_epoch"), "always", ("epoch", "train_means"), _epoch_end),
    "on_train_batch_begin": Event(_TRAIN_ITER, "pre", (), _batch_begin),
    "on_train_batch_end": Event(_TRAIN_ITER, "post", ("train_means", "train_logs"), _train_batch_end),
    "on_test_begin": Event(_TESTS, "pre", ("evaluation",), _stage()),
    "on_test_end": Event(_TESTS, "post", ("evaluation",), _stage(KerasLifecycle.evaluated)),
    "on_test_batch_begin": Event(_TEST_ITERS, "pre", ("evaluation",), _batch_begin),
    "on_test_batch_end": Event(_TEST_ITERS, "post", ("evaluation", "test_means"), _test_batch_end),
    "on_predict_begin": Event(_PREDICT, "pre", ("evaluation",), _stage()),
    "on_predict_end": Event(_PREDICT, "post", ("evaluation",), _stage()),
    "on_predict_batch_begin": Event(_PREDICT_ITER, "pre", ("evaluation",), _batch_begin),
    "on_predict_batch_end": Event(_PREDICT_ITER, "post", ("evaluation",), _predict_batch_end),
}
