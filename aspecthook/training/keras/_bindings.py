"""Keras's names, as hooks on the stages of a run: what a callback overrides goes where it is called by Keras."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aspecthook import hooks
from aspecthook._core.law.options import priority_of
from aspecthook.training.loop._stages import Stage
from aspecthook.training.loop._systems import Row, rows_of

from ._callback import check, overridden
from ._lifecycle import KerasLifecycle, lifecycle_of
from ._list import flat
from ._model import Model, on_host
from ._states import Seat

if TYPE_CHECKING:
    from aspecthook.training.loop._runner import Runner

Method = Callable[..., Any]


def rows(callback: Any, runner: Runner) -> list[Row]:
    """Give what becomes of a callback: of ours, of Keras's, or of one that only looks like them.

    Raises:
        HookSignatureError: A method is called like one of the lifecycle and is none, or takes other arguments.
    """
    for text in check(callback):
        runner.logger.warning("%s", text)
    life = lifecycle_of(runner)
    seat = life.seat(callback)
    found: list[Row] = []
    for name, make in _ROWS.items():
        method = overridden(callback, name)
        if method is not None:
            found += make(life, seat, method)
    if seat.memory is not None and not overridden(callback, "on_train_begin"):
        found = [Row(Stage("run", "pre"), lambda: seat.begin(None)), *found]
    return found


def _train_begin(_: KerasLifecycle, seat: Seat, method: Method) -> Iterable[Row]:
    yield Row(Stage("run", "pre"), lambda: seat.begin(method))


def _train_end(life: KerasLifecycle, _: Seat, method: Method) -> Iterable[Row]:
    life.need("epoch", "train_means")

    def end() -> None:
        method(life.last())

    yield Row(Stage("run", "post"), end)


def _epoch_begin(life: KerasLifecycle, seat: Seat, method: Method) -> Iterable[Row]:
    life.need("epoch")
    yield Row(Stage("train_epoch", "pre"), lambda: life.begin_epoch(seat, method))


def _epoch_end(life: KerasLifecycle, seat: Seat, _: Method) -> Iterable[Row]:
    """Come after all that is called after a stage: Keras ends all tests before it ends an epoch."""
    life.need("epoch", "train_means")

    def after(stage: str) -> Method:
        def end(exc: BaseException | None) -> None:
            if exc is None and life.ends == stage:
                life.end_epoch(seat)

        return end

    yield Row(Stage("train_epoch", "always"), after("train"))
    yield Row(Stage("val_epoch", "always"), after("val"))


def _train_batch_begin(_: KerasLifecycle, __: Seat, method: Method) -> Iterable[Row]:
    def begin(inner_iter: int) -> None:
        method(inner_iter, logs={})

    yield Row(Stage("train_iter", "pre"), begin)


def _train_batch_end(life: KerasLifecycle, _: Seat, method: Method) -> Iterable[Row]:
    life.need("train_means", "train_logs")

    def end(inner_iter: int) -> None:
        method(inner_iter, logs=life.train_logs)

    yield Row(Stage("train_iter", "post"), end)


def _test_begin(life: KerasLifecycle, seat: Seat, method: Method) -> Iterable[Row]:
    life.need("test")

    def begin() -> None:
        if not seat.silent:
            method({})

    yield from (Row(Stage(f"{mode}_epoch", "pre"), begin) for mode in ("val", "test"))


def _test_end(life: KerasLifecycle, seat: Seat, method: Method) -> Iterable[Row]:
    life.need("test")

    def end(mode: str) -> None:
        if not seat.silent:
            method(life.evaluated(mode))

    yield from (Row(Stage(f"{mode}_epoch", "post"), end) for mode in ("val", "test"))


def _test_batch_begin(life: KerasLifecycle, seat: Seat, method: Method) -> Iterable[Row]:
    life.need("test")

    def begin(inner_iter: int) -> None:
        if not seat.silent:
            method(inner_iter, logs={})

    yield from (Row(Stage(f"{mode}_iter", "pre"), begin) for mode in ("val", "test"))


def _test_batch_end(life: KerasLifecycle, seat: Seat, method: Method) -> Iterable[Row]:
    life.need("test", "test_logs")

    def end(inner_iter: int) -> None:
        if not seat.silent:
            method(inner_iter, logs=life.test_logs)

    yield from (Row(Stage(f"{mode}_iter", "post"), end) for mode in ("val", "test"))


def _predict(kind: Any) -> Callable[..., Iterable[Row]]:
    def make(life: KerasLifecycle, seat: Seat, method: Method) -> Iterable[Row]:
        life.need("predict")

        def call() -> None:
            if not seat.silent:
                method({})

        yield Row(Stage("predict_epoch", kind), call)

    return make


def _predict_batch_begin(life: KerasLifecycle, seat: Seat, method: Method) -> Iterable[Row]:
    life.need("predict")

    def begin(inner_iter: int) -> None:
        if not seat.silent:
            method(inner_iter, logs={})

    yield Row(Stage("predict_iter", "pre"), begin)


def _predict_batch_end(life: KerasLifecycle, seat: Seat, method: Method) -> Iterable[Row]:
    life.need("predict")

    def end(inner_iter: int, result: Any) -> None:
        if not seat.silent:
            method(inner_iter, logs={"outputs": on_host(result)})

    yield Row(Stage("predict_iter", "post"), end)


_ROWS: dict[str, Callable[[KerasLifecycle, Seat, Method], Iterable[Row]]] = {
    "on_train_begin": _train_begin,
    "on_train_end": _train_end,
    "on_epoch_begin": _epoch_begin,
    "on_epoch_end": _epoch_end,
    "on_train_batch_begin": _train_batch_begin,
    "on_train_batch_end": _train_batch_end,
    "on_test_begin": _test_begin,
    "on_test_end": _test_end,
    "on_test_batch_begin": _test_batch_begin,
    "on_test_batch_end": _test_batch_end,
    "on_predict_begin": _predict("pre"),
    "on_predict_end": _predict("post"),
    "on_predict_batch_begin": _predict_batch_begin,
    "on_predict_batch_end": _predict_batch_end,
}


# Callbacks that are there for a time


@contextmanager
def placed(runner: Runner, callbacks: Any, model: Model | None = None, verbose: int = 1) -> Generator[None]:
    """Have callbacks on a run inside ``with``, as those of one fit of Keras are."""
    from aspecthook.training.hooks._hook import HOOKS, load_hooks

    handles: list[Any] = []
    mine: list[Any] = []
    life = lifecycle_of(runner)
    before, life.verbose = life.verbose, verbose
    if model is not None:
        life.model = Model.of(runner, model.things)
    try:
        for given in flat(callbacks):
            callback = given
            if isinstance(given, (str, Mapping)):
                load_hooks()
                callback = HOOKS.build_from_config(given)  # pyright: ignore[reportUnknownArgumentType]
            if any(hook is callback for hook in runner.hooks):
                continue  # it is there for longer
            _place(runner, callback, handles)
            mine.append(callback)
            runner.hooks.append(callback)
        yield
    finally:
        life.verbose = before
        for handle in handles:
            handle.remove()
        for callback in mine:
            runner.hooks[:] = [hook for hook in runner.hooks if hook is not callback]
            life.leave(callback)


def _place(runner: Runner, callback: Any, handles: list[Any]) -> None:
    name = type(callback).__name__
    priority = priority_of(getattr(callback, "priority", "NORMAL"), f"the callback {name}")
    for stage, function in rows_of(callback, runner):
        mount = hooks(getattr(runner, stage.method))
        handles.append(mount.add(stage.kind, function, *stage.types, name=name, priority=priority))


@contextmanager
def aside(runner: Runner) -> Generator[None]:
    """Let the callbacks of a run, and its logs, hear nothing of what is evaluated inside ``with``."""
    life = lifecycle_of(runner)
    seats = [seat for _, seat in life.seats() if not seat.silent]
    kept = runner.logs, runner._predictions, life.test, life.test_logs, life.running
    life.running = False
    for seat in seats:
        seat.silent = True
    try:
        yield
    finally:
        runner.logs, runner._predictions, life.test, life.test_logs, life.running = kept
        for seat in seats:
            seat.silent = False
