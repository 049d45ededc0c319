"""Several callbacks as one, for loops of your own: its methods are mount points, and callbacks are hooks on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

from aspecthook import Args, hookable, hooks
from aspecthook._core.law.call import Call
from aspecthook._errors import HookTypeError, brief
from aspecthook.training.backends._state import is_any
from aspecthook.training.loop._dialect import Method

from ._callback import EVENTS, Callback, Logs, methods_of, plain
from ._simple import History
from ._writers import ProgbarLogger


@final
class CallbackList(Callback):
    """Several callbacks as one, as ``keras.callbacks.CallbackList``, for a training loop of your own to call.

    Each of its methods calls that of each callback, in the order of the list. They are mount points, and the methods
    that a callback overrides are hooks on them. Values in `logs` that can be made floats reach the callbacks as floats.
    On a `Runner`, register the callbacks one by one.

    Args:
        callbacks: Callbacks, and lists of such.
        add_history: Whether to add a `History` unless there is one; the model gets it as its ``history``.
        add_progbar: Whether to add a `ProgbarLogger` unless there is one.
        model: The ``model`` of the callbacks.
        params: The ``params`` of the callbacks: ``epochs``, ``steps``, ``verbose``.

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
        callbacks: Any = None,  # Any: lists of lists, nested as you like
        add_history: bool = False,
        add_progbar: bool = False,
        model: Any = None,
        **params: Any,
    ) -> None:
        super().__init__()
        self.callbacks: list[Any] = []
        for callback in _flat(callbacks):
            self.append(callback)
        for kind, is_wanted in ((History, add_history), (ProgbarLogger, add_progbar)):
            if is_wanted and not any(isinstance(callback, kind) for callback in self.callbacks):
                self.append(kind())
        self.set_model(model)
        self.set_params(params)

    def append(self, callback: Any) -> None:
        """Add a callback at the end."""
        if not callable(getattr(callback, "on_train_begin", None)):
            raise HookTypeError(f"{brief(callback)} is not a callback; give objects with on_train_begin and the like")
        for event, method in methods_of(callback).items():
            mount = hooks(getattr(self, event))
            if not len(mount):
                mount.add("pre", _plain_logs, name="plain")
            mount.add("pre", _caller(event, method), name=type(callback).__name__)
        self.callbacks.append(callback)

    def set_params(self, params: dict[str, Any]) -> None:
        """Set the ``params`` of the callbacks, unless they are empty."""
        self.params: dict[str, Any] | None = params
        for callback in self.callbacks if params else ():
            callback.set_params(params)

    def set_model(self, model: Any) -> None:
        """Set the model of the callbacks, unless it is None."""
        if model is None:
            return
        super().set_model(model)
        for callback in self.callbacks:
            if hasattr(callback, "history"):
                model.history = callback
            callback.set_model(model)

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Call `on_train_batch_begin`."""
        self.on_train_batch_begin(batch, logs)

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Call `on_train_batch_end`."""
        self.on_train_batch_end(batch, logs)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the callbacks that have one."""
        return {name: callback.state_dict() for name, callback in self._named() if hasattr(callback, "state_dict")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of each callback that has one."""
        for name, callback in self._named():
            if name in state and hasattr(callback, "load_state_dict"):
                callback.load_state_dict(state[name])

    def _named(self) -> Iterator[tuple[str, Any]]:
        for place, callback in enumerate(self.callbacks):
            yield f"{place} {type(callback).__name__}", callback


def _flat(callbacks: Any) -> Iterator[Any]:
    """Return the callbacks in lists of lists, one by one."""
    if is_any(callbacks, list, tuple):
        for item in callbacks:
            yield from _flat(item)
    elif callbacks is not None:
        yield callbacks


def _empty(event: str) -> Method:
    """Return the method of `CallbackList` for an event, which does nothing: what callbacks do are hooks on it."""

    def of_batch(self: CallbackList, batch: int, logs: Logs = None) -> None: ...
    def of_epoch(self: CallbackList, epoch: int, logs: Logs = None) -> None: ...
    def of_stage(self: CallbackList, logs: Logs = None) -> None: ...

    method: Method = of_batch if "batch" in event else of_epoch if "epoch" in event else of_stage
    method.__name__, method.__qualname__ = event, f"CallbackList.{event}"
    method.__doc__ = f"Call `{event}` of each callback."
    return hookable(method)


for _event in EVENTS:
    setattr(CallbackList, _event, _empty(_event))


def _plain_logs(logs: Any) -> Args:
    return Args(logs=plain(logs))


def _caller(event: str, method: Method) -> Method:
    """Return a hook that calls a method as Keras does, and ignores what it returns."""

    def call_it(call: Call) -> None:
        _, *number, logs = call.args
        if "batch" in event:
            method(*number, logs=logs)
        else:
            method(*number, logs)

    return call_it
