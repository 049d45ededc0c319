"""The base of Keras callbacks, and which of a callback's methods do anything.

A method that a callback does not override is never called: it is then the function of the base class, which is ours or
that of the installed Keras. Keras is recognised by name, and never imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from aspecthook._errors import HookSignatureError
from aspecthook.training.backends._state import map_leaves
from aspecthook.training.loop._dialect import Dialect, Method
from aspecthook.training.loop._runner import Runner

from ._run_model import RunModel, plain_rate

# Any: logs hold numbers and predictions; models and states are those of any library.
Logs: TypeAlias = dict[str, Any] | None


class Callback:
    """The base of callbacks, as ``keras.callbacks.Callback``: override what you need.

    Register a callback on a `Runner` by ``register_hook``, or give it to a fit of ``keras.Model``. One object works in
    both, and so do the callbacks of Keras itself.

    Attributes:
        model: On a `Runner`, an object with what callbacks use of a ``keras.Model``; otherwise that model itself.
        params: ``epochs``, ``steps`` (batches in an epoch; None if not known) and ``verbose``.
        priority: From 0, which is called first, to 100, or a name; callbacks of one priority keep their order.

    Example:
        >>> class Announce(Callback):
        ...     def on_epoch_end(self, epoch, logs=None):
        ...         print(epoch, logs["loss"], logs.get("val_loss"))
    """

    priority: int | str = "NORMAL"
    # Here and not in `__init__`, for subclasses that do not call it.
    params: dict[str, Any] | None = None
    verbose: int = 0
    _model: Any = None
    _kept: ClassVar[tuple[str, ...] | None] = None  # the attributes that are its state; None if it has none

    def set_params(self, params: dict[str, Any]) -> None:
        """Set ``params``; called before anything begins."""
        self.params = params

    def set_model(self, model: object) -> None:
        """Set ``model``; called before anything begins."""
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

    def on_train_begin(self, logs: Logs = None) -> None:
        """Called before training."""

    def on_train_end(self, logs: Logs = None) -> None:
        """Called after training, with the logs of the last epoch; not if training has failed."""

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Called before each epoch of training; the first one is 0."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Called after each epoch and its validation, with the means of both: ``loss``, ``val_loss`` and so on."""

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before each batch of training; the first one of an epoch is 0."""
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after each batch of training, with the means of the epoch so far."""
        self.on_batch_end(batch, logs=logs)

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """The older name of `on_train_batch_begin`."""

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """The older name of `on_train_batch_end`."""

    # Evaluation, also during training

    def on_test_begin(self, logs: Logs = None) -> None:
        """Called before a validation or a test."""

    def on_test_end(self, logs: Logs = None) -> None:
        """Called after a validation or a test, with its numbers, whose names have no ``val_`` here."""

    def on_test_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before each batch of a validation or a test."""

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after each batch of a validation or a test, with the means so far."""

    # Prediction

    def on_predict_begin(self, logs: Logs = None) -> None:
        """Called before a prediction."""

    def on_predict_end(self, logs: Logs = None) -> None:
        """Called after a prediction."""

    def on_predict_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before each batch of a prediction."""

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after each batch of a prediction, with what was predicted as ``outputs``."""

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a checkpoint keeps, for the callback to continue as if the run had never ended."""
        return {name: _copied(getattr(self, name)) for name in self._kept or ()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state."""
        for name in self._kept or ():
            setattr(self, name, _copied(state[name]))

    # On a run

    @property
    def _runner(self) -> Runner | None:
        """The run that the callback is on; None in a fit of Keras."""
        return self._model.runner if isinstance(self._model, RunModel) else None

    @property
    def _begins_anew(self) -> bool:
        """Whether training begins, and no run is resumed: then `on_train_begin` resets the callback."""
        return not (isinstance(self._model, RunModel) and self._model.resumed)

    @property
    def _writes(self) -> bool:
        """Whether this process writes files and prints lines: on a run, only rank 0 does."""
        return self._runner is None or self._runner.rank == 0

    @property
    def _rate(self) -> float:
        """The learning rate of the optimizer."""
        return plain_rate(self.model.optimizer.learning_rate)

    def _report(self, text: str) -> None:
        """Print what the callback has done, if it is to be verbose."""
        if self.verbose:
            print(f"{type(self).__name__}: {text}")


def _copied(value: object) -> object:
    """Return new lists and dicts with the same items, so that a state does not change while the callback is used."""
    return map_leaves(lambda item: item, value)


METHODS = tuple(name for name in vars(Callback) if name.startswith("on_"))
OLDER = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}
EVENTS = tuple(name for name in METHODS if name not in OLDER.values())

for _name in METHODS:
    # Keras marks methods that do nothing like this, and does not call them either.
    vars(Callback)[_name]._is_default = True


def has_state(callback: object) -> bool:
    """Whether a checkpoint keeps a state of a callback, even an empty one."""
    if getattr(type(callback), "state_dict", None) is Callback.state_dict:
        return isinstance(callback, Callback) and callback._kept is not None
    return hasattr(callback, "state_dict")


def is_of_keras(kind: type) -> bool:
    """Whether a class is one of Keras itself."""
    return kind.__module__.partition(".")[0] in ("keras", "tf_keras", "tensorflow")


def _base_of(callback: object) -> type | None:
    for kind in type(callback).__mro__:
        if kind is Callback or (kind.__name__ == "Callback" and is_of_keras(kind)):
            return kind
    return None  # an object that only looks like a callback


KERAS = Dialect(
    "the callback",
    _base_of,
    EVENTS,
    general=OLDER,
    looks_like=r"on_\w+_(begin|end|start|begins|ends)",
    listing=", ".join(METHODS) + "; others need a name without 'on_'",
)


def methods_of(callback: object) -> dict[str, Method]:
    """Return the methods of a callback that do anything, by the events that they are called for."""
    if isinstance(callback, Callback):
        KERAS.check(callback)
    methods = KERAS.methods(callback)
    for event, method in methods.items():
        number = next((word for word in ("batch", "epoch") if word in event), None)
        try:
            inspect.signature(method).bind(*([] if number is None else [0]), {})
        except ValueError:  # a builtin may have no signature
            continue
        except TypeError as error:
            call = "(logs)" if number is None else f"({number}, logs)"
            raise HookSignatureError(
                f"the callback {type(callback).__name__}: {event}{inspect.signature(method)} is called as "
                f"{event}{call}, {error}"
            ) from None
    return methods
