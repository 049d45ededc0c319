"""Several callbacks as one, for loops of one's own: each of its methods is a mount point that they are hooks on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

from aspecthook import Args, hookable, hooks
from aspecthook._errors import HookTypeError, brief

from ._callback import BATCH, LIFECYCLE, Logs, Method, check, is_any, overridden


@final
class CallbackList:
    """Several callbacks as one, as ``keras.callbacks.CallbackList``: what a training loop of one's own calls.

    Its methods are mount points, and what a callback overrides is a hook there, in the order of the list. Whatever can
    be made a float in `logs` is one when it reaches them. On a `Runner`, register the callbacks one by one.

    Args:
        callbacks: Callbacks, and lists of such.
        add_history: Add a `History` if there is none; the model gets it as its ``history``.
        add_progbar: Add a `ProgbarLogger` if there is none.
        model: What their ``model`` is to be.
        params: What their ``params`` are to be: ``epochs``, ``steps``, ``verbose``.

    Raises:
        HookTypeError: Something is no callback.
        HookSignatureError: A method is called like one of the lifecycle and is none, or takes other arguments.

    Example:
        >>> from aspecthook.training.keras import LambdaCallback
        >>> callbacks = CallbackList([LambdaCallback(on_epoch_end=lambda epoch, logs: print(epoch, logs["loss"]))])
        >>> callbacks.on_train_begin()
        >>> for epoch in range(2):
        ...     callbacks.on_epoch_begin(epoch)
        ...     callbacks.on_epoch_end(epoch, {"loss": 1 / (epoch + 1)})
        0 1.0
        1 0.5
        >>> callbacks.on_train_end()
    """

    def __init__(
        self,
        callbacks: Any = None,  # Any: lists in lists, as deep as you like
        add_history: bool = False,
        add_progbar: bool = False,
        model: Any = None,
        **params: Any,
    ) -> None:
        self.params: dict[str, Any] = {}
        self.model: Any = None
        self.callbacks: list[Any] = []
        for callback in flat(callbacks):
            self.append(callback)
        self._add_usual(add_history, add_progbar)
        self.set_model(model)
        self.set_params(params)

    def _add_usual(self, add_history: bool, add_progbar: bool) -> None:
        from ._progress import ProgbarLogger
        from ._simple import History

        kinds = ((History, add_history), (ProgbarLogger, add_progbar))
        for kind in (kind for kind, wished in kinds if wished):
            if not any(isinstance(callback, kind) for callback in self.callbacks):
                self.append(kind())

    def append(self, callback: Any) -> None:
        """Add a callback at the end."""
        if not callable(getattr(callback, "on_train_begin", None)):
            raise HookTypeError(f"{brief(callback)} is no callback; give objects with on_train_begin and the like")
        check(callback)
        name = type(callback).__name__
        for event in LIFECYCLE:
            method = None if event in ("on_batch_begin", "on_batch_end") else overridden(callback, event)
            if method is not None:
                mount = hooks(getattr(self, event))
                if not len(mount):
                    mount.add("pre", _plain, name="plain")
                mount.add("pre", _called(event, method), name=name)
        self.callbacks.append(callback)

    def set_params(self, params: dict[str, Any]) -> None:
        """Hand `params` on, if there are any."""
        self.params = params
        for callback in self.callbacks if params else ():
            callback.set_params(params)

    def set_model(self, model: Any) -> None:
        """Hand the model on, if there is one."""
        if model is None:
            return
        self.model = model
        for callback in self.callbacks:
            if hasattr(callback, "history"):
                model.history = callback
            callback.set_model(model)

    # What is called

    @hookable
    def on_train_begin(self, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_train_end(self, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Call that of each."""

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Do what `on_train_batch_begin` does."""
        self.on_train_batch_begin(batch, logs)

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Do what `on_train_batch_end` does."""
        self.on_train_batch_end(batch, logs)

    @hookable
    def on_test_begin(self, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_test_end(self, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_test_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_predict_begin(self, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_predict_end(self, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_predict_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Call that of each."""

    @hookable
    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Call that of each."""

    # What they remember

    def state_dict(self) -> dict[str, Any]:
        """Give the states of those that have one."""
        return {name: callback.state_dict() for name, callback in self._named() if hasattr(callback, "state_dict")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""
        for name, callback in self._named():
            if name in state and hasattr(callback, "load_state_dict"):
                callback.load_state_dict(state[name])

    def _named(self) -> Iterator[tuple[str, Any]]:
        for place, callback in enumerate(self.callbacks):
            yield f"{place} {type(callback).__name__}", callback


def flat(callbacks: Any) -> Iterator[Any]:
    """Give the callbacks in lists in lists."""
    if is_any(callbacks, list, tuple):
        for row in callbacks:
            yield from flat(row)
    elif callbacks is not None:
        yield callbacks


def _called(event: str, method: Method) -> Method:
    """Give a hook that calls a method as Keras does; what it answers counts for nothing."""

    def of_batch(batch: int, logs: Any) -> None:
        method(batch, logs=logs)

    def of_epoch(epoch: int, logs: Any) -> None:
        method(epoch, logs)

    def other(logs: Any) -> None:
        method(logs)

    return of_batch if event in BATCH else of_epoch if "epoch" in event else other


def _plain(logs: Any) -> Args:
    return Args(logs=plain(logs))


def plain(logs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Give numbers by name, in the order of their names: floats as far as they go, those in dicts among the others.

    Example:
        >>> plain({"loss": "0.5", "by": {"class": [1, 2]}})
        {'class': [1, 2], 'loss': 0.5}
    """
    made: dict[str, Any] = {}
    for name, value in sorted((logs or {}).items()):
        made.update(plain(value) if isinstance(value, dict) else {name: _number(value)})  # pyright: ignore[reportUnknownArgumentType]
    return made


def _number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # a tensor of several raises one of the library's
        return value
