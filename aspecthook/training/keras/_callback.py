"""The base class of Keras callbacks, the model that they see, and the search for the methods that a callback overrides.

A method that a callback does not override is never called: it is then the function of the base class, either that of
this package or that of the installed Keras. Keras is recognised by name, and never imported.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, SupportsFloat, TypeAlias, final
from weakref import proxy

from aspecthook._errors import HookSignatureError
from aspecthook.training._dialect import Dialect, Method
from aspecthook.training._errors import TrainingError
from aspecthook.training._options import takes
from aspecthook.training.backends._state import map_leaves
from aspecthook.training.loop._runner import Runner

# Any: weights are arrays, and models take and return what they like.


class RunModel:
    """A run, with the attributes of a ``keras.Model`` that callbacks use; all others are those of the trained model."""

    metrics = ()  # Keras's monitors look here for metrics that it has compiled
    resumed = False  # whether the run continues another one, so that callbacks keep the states that they have

    def __init__(self, runner: Runner) -> None:
        # A proxy does not keep the run alive: callbacks hold the model, and are hooks of the run.
        self.runner: Runner = proxy(runner)
        self.history: object = None

    # What is trained

    @property
    def stop_training(self) -> bool:
        """Whether the run ends after this iteration; a callback may set it."""
        return self.runner.stopping

    @stop_training.setter
    def stop_training(self, stop: bool) -> None:
        self.runner.stopping = bool(stop)

    @property
    def optimizer(self) -> Any:  # an Optimizer, which also has the attributes of the run's own
        """The optimizer, with ``learning_rate`` and ``iterations``; None if the run has none."""
        return None if self.runner.optimizer is None else Optimizer(self)

    def get_weights(self) -> list[Any]:
        """Return copies of the parameters and buffers."""
        return list(self.runner.backend.state(self.runner.model).values())

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Set the parameters and buffers, in the order of `get_weights`; all or none."""
        names, given = list(self.runner.backend.tensors(self.runner.model)), list(weights)
        if len(given) != len(names):
            raise TrainingError(
                f"the model has {len(names)} weights, and {len(given)} were given; give those of its get_weights()"
            )
        self.runner.backend.load_state(self.runner.model, dict(zip(names, given, strict=True)))

    # Files

    def save(self, filepath: str | os.PathLike[str], overwrite: bool = True) -> None:
        """Save a checkpoint of the run, whatever the suffix of the file."""
        if not overwrite and os.path.exists(filepath):
            raise TrainingError(f"{os.fspath(filepath)} exists already; give overwrite=True, or another name")
        self.runner.save_checkpoint(filepath)

    save_weights = save  # weights of Keras have the state of the optimizer too

    # All other attributes

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the model that is trained."""
        return self.runner.model(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if "runner" not in vars(self):  # `copy` looks for methods before the copy has attributes
            raise AttributeError(name)
        return getattr(self.runner.model, name)


@final
class Optimizer:
    """The ``self.model.optimizer`` that callbacks see; other attributes are those of the run's own optimizer."""

    def __init__(self, model: RunModel) -> None:
        self._model = model

    @property
    def learning_rate(self) -> Any:  # it is read as a float, and set to a number, an array or a variable
        """The learning rate of the first parameter group; setting it keeps the ratios of the other groups to it."""
        return float(self._groups()[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: SupportsFloat) -> None:
        rate = float(value)
        groups = self._groups()
        first = float(groups[0]["lr"])
        for group in groups:
            before = float(group["lr"])
            scaled = rate if before == first or not first else rate * (before / first)
            if hasattr(group["lr"], "fill_"):  # PyTorch's `capturable` optimizers hold tensors, which graphs read
                group["lr"].fill_(scaled)
            else:
                group["lr"] = scaled

    @property
    def iterations(self) -> int:
        """The number of optimizer steps that the run has made."""
        return self._model.runner.progress.step

    def _groups(self) -> list[dict[str, Any]]:
        optimizer = self._model.runner.optimizer
        groups: list[dict[str, Any]] = list(getattr(optimizer, "param_groups", ()))
        if not groups or "lr" not in groups[0]:
            raise TrainingError(
                f"{type(optimizer).__name__} has no param_groups with a learning rate 'lr', and a callback asks for "
                "it; give the run an optimizer with param_groups, or leave the callback out"
            )
        return groups

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model.runner.optimizer, name)


# Any: logs hold numbers and predictions; models and states are those of any library.
Logs: TypeAlias = dict[str, Any] | None


class Callback:
    """The base class of callbacks, like ``keras.callbacks.Callback``: override the methods that you need.

    Register a callback on a `Runner` with ``register_hook``, or pass it to ``keras.Model.fit``. The same object works
    in both, and so do the callbacks of Keras itself.

    Attributes:
        model: On a `Runner`, an object with the attributes of a ``keras.Model`` that callbacks use; in Keras, that
            model itself.
        params: ``epochs``, ``steps`` (batches in an epoch; None if not known) and ``verbose``.
        priority: A number from 0, which is called first, to 100, or a name; callbacks of the same priority keep their
            order.

    Example:
        >>> class Announce(Callback):
        ...     def on_epoch_end(self, epoch, logs=None):
        ...         print(epoch, logs["loss"], logs.get("val_loss"))
    """

    priority: int | str = "NORMAL"
    # Not set in `__init__`, which subclasses may not call.
    params: dict[str, Any] | None = None
    verbose: int = 0
    _model: Any = None
    _kept: ClassVar[tuple[str, ...] | None] = None  # the attributes that a checkpoint keeps; None for no state at all

    def set_params(self, params: dict[str, Any]) -> None:
        """Set ``params``; called before anything begins."""
        self.params = params

    def set_model(self, model: object) -> None:
        """Set ``model``; called before anything begins."""
        self._model = model

    @property
    def model(self) -> Any:
        """The model that is trained."""
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
        """Called after training, with the logs of the last epoch, unless training failed."""

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
        """Called after each batch of a prediction, with the predictions as ``outputs``."""

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return the state to store in checkpoints, so that the callback continues as if the run had never stopped."""
        # New lists and dicts with the same items, so that a state does not change while the callback is used.
        state: dict[str, Any] = map_leaves(lambda item: item, {name: getattr(self, name) for name in self._kept or ()})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state, unless it is that of a callback which watches another number."""
        for name in (self._kept or ()) if state.get("monitor") == getattr(self, "monitor", None) else ():
            setattr(self, name, map_leaves(lambda item: item, state[name]))

    # On a run

    @property
    def _runner(self) -> Runner | None:
        """The run of the callback; None in a fit of Keras."""
        return self._model.runner if isinstance(self._model, RunModel) else None

    @property
    def _begins_anew(self) -> bool:
        """Whether no run is resumed, so that `on_train_begin` resets the callback."""
        return not (isinstance(self._model, RunModel) and self._model.resumed)

    @property
    def _writes(self) -> bool:
        """Whether this process writes files and prints lines: on a run, only rank 0 does."""
        return self._runner is None or self._runner.rank == 0

    @property
    def _rate(self) -> float:
        """The learning rate of the optimizer."""
        rate = self.model.optimizer.learning_rate  # in Keras a variable
        return float(rate.numpy() if hasattr(rate, "numpy") else rate)

    def _report(self, text: str) -> None:
        """Print a message, if the callback is verbose."""
        if self.verbose:
            print(f"{type(self).__name__}: {text}")


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
    """Return the methods that a callback overrides, by the events that they are called for."""
    if isinstance(callback, Callback):
        KERAS.check(callback)
    methods = KERAS.methods(callback)
    for event, method in methods.items():
        given = [*(word for word in ("batch", "epoch") if word in event), "logs"]
        if not takes(method, len(given)):
            raise HookSignatureError(
                f"the callback {type(callback).__name__}: {event}{inspect.signature(method)} is called as "
                f"{event}({', '.join(given)})"
            )
    return methods
