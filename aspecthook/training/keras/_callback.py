"""The base of Keras callbacks, and which of their methods do anything.

What a callback does not override is never called: it is the function of the base class, ours or that of the installed
Keras, which is known by its name and never imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from aspecthook._errors import HookSignatureError, nearest

Logs: TypeAlias = dict[str, Any] | None  # Any: metrics are numbers, and what a model predicts is in them too
Method: TypeAlias = Callable[..., Any]
Function = TypeVar("Function", bound=Method)


def _default(method: Function) -> Function:
    """Mark a method as one that does nothing, as Keras has it: then its own lists need not call it in turn."""
    method._is_default = True  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    return method


class Callback:
    """The base of callbacks, as ``keras.callbacks.Callback``: override what you need.

    A callback is registered on a `Runner` by ``register_hook``, or given to a fit of `Model`, or of ``keras.Model``;
    it is the same object everywhere, and so is one of Keras itself.

    Attributes:
        model: What is trained: `Model` on our runner, else the ``keras.Model``.
        params: ``epochs``, ``steps`` (batches in an epoch; None if nobody knows) and ``verbose``.
        priority: From 0, which is first, to 100, or a name; callbacks of one priority keep their order.

    Example:
        >>> class Announce(Callback):
        ...     def on_epoch_end(self, epoch, logs=None):
        ...         print(epoch, logs["loss"], logs.get("val_loss"))
    """

    priority: int | str = "NORMAL"
    # Here too, for a subclass that does not call `__init__` of this one.
    params: dict[str, Any] | None = None
    _model: Any = None

    def __init__(self) -> None:
        self.params = None
        self._model = None

    def set_params(self, params: dict[str, Any]) -> None:
        """Take ``params``; called before anything begins."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Take ``model``; called before anything begins."""
        self._model = model

    @property
    def model(self) -> Any:
        """What is trained."""
        model = self._model
        if type(model).__name__ == "DistributedDataParallel":  # Keras on PyTorch may be given the wrapper
            return model.module
        synchronize = getattr(model, "jax_state_sync", None)  # Keras on JAX has the weights elsewhere meanwhile
        if callable(synchronize):
            synchronize()
        return model

    # Training

    @_default
    def on_train_begin(self, logs: Logs = None) -> None:
        """Called before training."""

    @_default
    def on_train_end(self, logs: Logs = None) -> None:
        """Called after training, with the numbers of the last epoch; not if it has failed."""

    @_default
    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Called before each epoch of training; the first one is 0."""

    @_default
    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Called after each epoch and its validation, with the means of both: ``loss``, ``val_loss`` and so on."""

    @_default
    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before each batch of training; the first one of an epoch is 0."""
        self.on_batch_begin(batch, logs=logs)

    @_default
    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after each batch of training, with the means of the epoch so far."""
        self.on_batch_end(batch, logs=logs)

    @_default
    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """The older name of `on_train_batch_begin`."""

    @_default
    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """The older name of `on_train_batch_end`."""

    # Evaluation, in training too

    @_default
    def on_test_begin(self, logs: Logs = None) -> None:
        """Called before a validation or a test."""

    @_default
    def on_test_end(self, logs: Logs = None) -> None:
        """Called after a validation or a test, with its numbers, which have no ``val_`` here."""

    @_default
    def on_test_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before each batch of a validation or a test."""

    @_default
    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after each batch of a validation or a test, with the means so far."""

    # Prediction

    @_default
    def on_predict_begin(self, logs: Logs = None) -> None:
        """Called before a prediction."""

    @_default
    def on_predict_end(self, logs: Logs = None) -> None:
        """Called after a prediction."""

    @_default
    def on_predict_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before each batch of a prediction."""

    @_default
    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after each batch of a prediction, with what was predicted as ``outputs``."""

    # What a checkpoint of a run keeps

    def state_dict(self) -> dict[str, Any]:
        """Give what a checkpoint must keep for this callback to go on as if nothing had happened."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` has given."""


class Continuing(Callback):
    """A callback whose `on_train_begin` begins anew, unless a checkpoint says where to go on."""

    _loaded = False

    def begins_anew(self) -> bool:
        """Say whether nothing was loaded since the last time."""
        loaded, self._loaded = self._loaded, False
        return not loaded


# How each is called; the names that end in _batch_begin and _batch_end get `logs` by name.
_EPOCH = ("on_epoch_begin", "on_epoch_end")
BATCH = tuple(f"on_{mode}batch_{end}" for mode in ("train_", "test_", "predict_", "") for end in ("begin", "end"))
LIFECYCLE = (
    *(f"on_{mode}_{end}" for mode in ("train", "test", "predict") for end in ("begin", "end")),
    *_EPOCH,
    *BATCH,
)
_OLDER = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}
_KERAS = ("keras", "tf_keras", "tensorflow")


def is_any(value: Any, *kinds: type) -> bool:
    """Say whether a value is of a kind; a type checker goes on taking it for anything."""
    return isinstance(value, kinds)


def is_of_keras(kind: type) -> bool:
    """Say whether a class is one that Keras itself brings."""
    return kind.__module__.partition(".")[0] in _KERAS


def base_of(callback: object) -> type | None:
    """Give the class whose methods do nothing; None if the object only looks like a callback."""
    for kind in type(callback).__mro__:
        if kind is Callback or (kind.__name__ == "Callback" and is_of_keras(kind)):
            return kind
    return None


def overridden(callback: object, name: str) -> Method | None:
    """Give a method of a callback if it does anything; a batch's under its older name if only that is overridden."""
    return _own(callback, name) or (_own(callback, _OLDER[name]) if name in _OLDER else None)


def _own(callback: object, name: str) -> Method | None:
    method: Any = getattr(callback, name, None)
    if not callable(method):
        return None
    return None if getattr(method, "__func__", method) is getattr(base_of(callback), name, None) else method


def check(callback: object) -> list[str]:
    """Refuse a callback whose methods could not be called, or never would be; of Keras's own kind, give the latter.

    Raises:
        HookSignatureError: A method is called like one of the lifecycle and is none, or takes other arguments.
    """
    who = f"the callback {type(callback).__name__}"
    for name in LIFECYCLE:
        method = _own(callback, name)
        if method is not None:
            _check_signature(who, name, method)
    unknown = [f"{name!r}{nearest(name, list(LIFECYCLE))}" for name in dir(type(callback)) if _misleads(callback, name)]
    text = f"{who} has a method {', '.join(unknown)}, which is none of a callback's and would never be called"
    if unknown and isinstance(callback, Callback):
        raise HookSignatureError(f"{text}; there are {', '.join(LIFECYCLE)}. Or give it a name without 'on_'")
    return [text] if unknown else []


def _misleads(callback: object, name: str) -> bool:
    like = name.startswith("on_") and name.endswith(("_begin", "_end", "_start", "_begins", "_ends"))
    return like and name not in LIFECYCLE and callable(getattr(callback, name, None))


def _check_signature(who: str, name: str, method: Method) -> None:
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):  # a builtin may have none
        return
    try:
        if name in BATCH:
            signature.bind(0, logs={})
        elif name in _EPOCH:
            signature.bind(0, {})
        else:
            signature.bind({})
    except TypeError as error:
        call = "(batch, logs=logs)" if name in BATCH else "(epoch, logs)" if name in _EPOCH else "(logs)"
        raise HookSignatureError(f"{who}: {name}{signature} is called as {name}{call}, {error}") from None
